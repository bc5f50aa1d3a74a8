"""What pod groups, pods and events say about jobs that wait, on virtual time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from bosket.api.core import Node, Pod
from bosket.api.kai import PodGroup, SchedulingCondition
from bosket.api.object import KubeObject
from bosket.kube.transport import Request, Response, Stream, Transport
from bosket.scheduler.answers.answer import (
    LOWER_IN_ORDER,
    OVER_FAIR_SHARE,
    SEARCH_CUT_SHORT,
    Answer,
    Reason,
    Tier,
)
from bosket.scheduler.io.status_writer import NUMBERS_PER_SECOND, NUMBERS_SECONDS
from bosket.scheduler.io.waiting_reports import RENEWAL_SECONDS
from bosket.scheduler.loop import service
from bosket.scheduler.model.reason import POD_SCHEDULING_ERRORS
from bosket.scheduler.options import Options
from bosket.testing.build import job, node, pod, queue
from tests.rig import NAMESPACE, Rig, make_rig

pytestmark = pytest.mark.looptime


def scheduler(env: Any) -> Any:
    return service(env, Options())


class Counting:
    """A transport that counts what is written, by plural of the objects."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.writes: Counter[str] = Counter()

    async def request(self, request: Request) -> Response:
        if request.method != "GET":
            parts = request.path.removesuffix("/status").split("/")
            self.writes[parts[-2] if request.method == "PATCH" else parts[-1]] += 1
        return await self._inner.request(request)

    async def stream(self, request: Request) -> Stream:
        return await self._inner.stream(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def a_cluster(*objects: KubeObject, gpus: int = 8) -> Rig:
    return await make_rig([node("n1", gpus=gpus), queue("q"), *objects])


def waiting(name: str, size: int = 1, gpus: int = 1, created: float | None = None) -> list[KubeObject]:
    return job(name, size, gpus=gpus, namespace=NAMESPACE, created=created)


async def condition(rig: Rig, name: str) -> SchedulingCondition | None:
    found = (await rig.client.get(PodGroup, name, NAMESPACE)).status.schedulingConditions
    return found[-1] if found else None


async def sentence(rig: Rig, name: str) -> str:
    found = await condition(rig, name)
    return found.message.partition("\n")[0] if found is not None else ""


async def test_the_group_its_pods_and_their_events_begin_with_the_sentence_and_go_on_in_the_words_of_kai() -> None:
    rig = await a_cluster(*waiting("g", 3, gpus=4))
    async with rig.running(scheduler):
        told = await rig.until(lambda: condition(rig, "g"))
        events = await rig.until(lambda: rig.events("Unschedulable"))
        member = await rig.client.get(Pod, "g-0", NAMESPACE)
    first, rest = told.message.split("\n", 1)
    assert first == "needs 12 GPUs in 3 pods; 1 node has 8 in all"
    assert rest.startswith("Resources were found for 2 pods while 3 are required for gang scheduling. ")
    assert told.reasons[0].message == rest
    assert [each.message for each in member.status.conditions] == [told.message]
    assert {each.message for each in events} == {told.message}
    assert {each.involvedObject.kind for each in events} == {"Pod", "PodGroup"}


async def test_a_condition_without_a_sentence_gets_one() -> None:
    """As KAI, or an earlier version, left it."""
    rig = await a_cluster(*waiting("g", gpus=9))
    async with rig.running(scheduler):
        told = await rig.until(lambda: condition(rig, "g"))
    text = told.message.partition("\n")[2]
    old = {"type": told.type, "nodePool": told.nodePool, "status": "True", "message": text}
    await rig.client.patch(
        PodGroup, "g", {"status": {"schedulingConditions": [old]}}, namespace=NAMESPACE, subresource="status"
    )
    async with rig.running(scheduler):

        async def is_told() -> bool:
            return await sentence(rig, "g") == "needs 9 GPUs on one node; the largest has 8"

        await rig.until(is_told)


async def test_nothing_is_written_in_a_hundred_cycles_in_which_nothing_changes() -> None:
    objects = [each for number in range(20) for each in waiting(f"w-{number}", gpus=9)]
    rig = await a_cluster(*objects)
    transport = Counting(rig.server.transport())
    async with rig.running(scheduler, transport):
        await rig.until(lambda: condition(rig, "w-19"))
        await rig.clock.sleep(60)
        transport.writes.clear()
        for number in range(100):  # elsewhere pods of others come and go, each makes a cycle
            other = replace(pod(f"other-{number}", NAMESPACE).cpu("1m"), scheduler="another")
            await rig.client.create(other.build())
            await rig.clock.sleep(RENEWAL_SECONDS)
    assert not transport.writes


async def test_a_sentence_is_renewed_when_another_job_ahead_is_gone_without_an_event() -> None:
    rig = await a_cluster(
        *job("busy", gpus=8, on="n1", namespace=NAMESPACE), *waiting("first", gpus=8, created=1.0),
        *waiting("second", gpus=8, created=2.0),
    )  # fmt: skip
    async with rig.running(scheduler):

        async def says(end: str) -> bool:
            return (await sentence(rig, "second")).endswith(end)

        await rig.until(lambda: says("1 job ahead"))
        await rig.clock.sleep(NUMBERS_SECONDS)
        before = len(await rig.events("Unschedulable"))
        for name in ("first", "first-0"):
            await rig.client.delete(Pod if name.endswith("0") else PodGroup, name, NAMESPACE)
        await rig.until(lambda: says("no job ahead"))
        assert len(await rig.events("Unschedulable")) == before


async def test_another_reason_is_told_at_once_on_the_pod_and_in_an_event_as_well() -> None:
    """What KAI says of it stays the same: the queue's limit is below what the job asks for."""
    rig = await a_cluster(
        queue("small", limit=4), node("n2", gpus=4), *job("w", gpus=8, queue="small", namespace=NAMESPACE)
    )  # fmt: skip

    async def told_to_the_pod() -> str:
        (found,) = (await rig.client.get(Pod, "w-0", NAMESPACE)).status.conditions
        return found.message

    async with rig.running(scheduler):
        before = await rig.until(lambda: condition(rig, "w"))
        assert before.message.startswith("needs 8 GPUs; small is limited to 4 and holds 0; ")
        await rig.clock.sleep(2 * RENEWAL_SECONDS)
        await rig.client.delete(Node, "n1")
        began = rig.clock.monotonic()

        async def is_told() -> bool:
            return (await told_to_the_pod()).startswith("needs 8 GPUs on one node; the largest has 4")

        await rig.until(is_told)
        assert rig.clock.monotonic() - began < 2 * RENEWAL_SECONDS
        after = await condition(rig, "w")
        assert after is not None
        assert after.message == await told_to_the_pod()
        assert after.message.partition("\n")[2] == before.message.partition("\n")[2]
        messages = {each.message for each in await rig.events("Unschedulable")}
    assert messages == {before.message, after.message}


async def test_pods_that_are_told_another_reason_are_written_slowly() -> None:
    count = 60
    rig = await a_cluster(
        queue("small", limit=4), node("n2", gpus=4), *job("w", count, gpus=8, queue="small", namespace=NAMESPACE)
    )
    transport = Counting(rig.server.transport())
    async with rig.running(scheduler, transport):
        await rig.until(lambda: condition(rig, "w"))
        await rig.clock.sleep(2 * RENEWAL_SECONDS)
        transport.writes.clear()
        await rig.client.delete(Node, "n1")
        await rig.until(lambda: _written(transport, 1))
        began = rig.clock.monotonic()
        await rig.until(lambda: _written(transport, count))
        assert rig.clock.monotonic() - began > 0.9 * count / NUMBERS_PER_SECOND
        told = await condition(rig, "w")
        pods = (await rig.client.list(Pod, NAMESPACE)).items
        messages = {each.message for member in pods for each in member.status.conditions}
    assert told is not None
    assert told.message.startswith("needs 480 GPUs on 60 nodes; the largest has 4")
    assert messages == {told.message}
    assert transport.writes["podgroups"] == 1
    assert transport.writes["pods"] == count


async def _written(transport: Counting, pods: int) -> bool:
    return transport.writes["pods"] >= pods


async def test_a_reason_that_changes_between_fair_share_and_nodes_costs_no_more_than_a_number() -> None:
    """Another queue's job comes and goes: the job's own queue is over its fair share, or it isn't."""
    rig = await a_cluster(
        queue("a", quota=4), queue("b", quota=4),
        *job("ours", gpus=4, on="n1", queue="a", namespace=NAMESPACE),
        *job("w", 3, gpus=8, min_member=1, queue="a", namespace=NAMESPACE),
    )  # fmt: skip
    transport, minutes = Counting(rig.server.transport()), 10
    seen = set[str]()
    async with rig.running(scheduler, transport):
        await rig.until(lambda: condition(rig, "w"))
        await rig.clock.sleep(NUMBERS_SECONDS)
        transport.writes.clear()
        for number in range(minutes * 2):
            theirs = job(f"theirs-{number}", gpus=4, on="n1", queue="b", namespace=NAMESPACE)
            await rig.apply(*theirs)
            await rig.clock.sleep(13)
            for each in theirs:
                await rig.client.delete(type(each), each.metadata.name, NAMESPACE)
            seen.add((await sentence(rig, "w")).split("; ")[1])
            await rig.clock.sleep(20)
            seen.add((await sentence(rig, "w")).split("; ")[1])
    assert seen == {"none is free", "4 are free"}
    assert transport.writes["pods"] == transport.writes["events"] == 0
    assert 0 < transport.writes["podgroups"] <= minutes + 1


@pytest.mark.parametrize(
    ("code", "tier", "is_other"),
    [(LOWER_IN_ORDER, "order", False), (OVER_FAIR_SHARE, "fairness", False), (SEARCH_CUT_SHORT, "order", True)],
)
async def test_jobs_served_before_it_and_fair_shares_are_no_other_reason_than_too_little_room(
    monkeypatch: pytest.MonkeyPatch, code: str, tier: Tier, is_other: bool
) -> None:
    found = [Answer(Reason(POD_SCHEDULING_ERRORS, "nodes"), "none is free")]
    monkeypatch.setattr("bosket.scheduler.answers.sentence.Sentences.of", lambda *_: found[0])
    rig = await a_cluster(*waiting("w", 3, gpus=9))
    transport = Counting(rig.server.transport())
    async with rig.running(scheduler, transport):
        await rig.until(lambda: condition(rig, "w"))
        await rig.clock.sleep(NUMBERS_SECONDS)
        transport.writes.clear()
        found[0] = Answer(Reason(code, tier), "another sentence")
        await rig.client.create(node("n2", gpus=8))  # for a cycle
        await rig.clock.sleep(2 * NUMBERS_SECONDS)
        assert await sentence(rig, "w") == "another sentence"
    assert transport.writes["podgroups"] == 1
    assert transport.writes["pods"] == (3 if is_other else 0)


async def test_many_sentences_that_change_at_once_are_renewed_slowly() -> None:
    count, seconds = 150, 120
    objects = [each for number in range(count) for each in waiting(f"w-{number:03}", gpus=8, created=10.0 + number)]
    rig = await a_cluster(*job("busy", gpus=8, on="n1", namespace=NAMESPACE), *objects)
    transport = Counting(rig.server.transport())
    async with rig.running(scheduler, transport):
        await rig.until(lambda: condition(rig, f"w-{count - 1}"))
        await rig.clock.sleep(10 * NUMBERS_SECONDS)
        transport.writes.clear()
        for number in range(seconds // 10):  # one more job is ahead of all others, every ten seconds
            for each in waiting(f"new-{number:02}", gpus=8, created=1.0 + number / 100):
                await rig.client.create(each)
            await rig.clock.sleep(10)
    assert 0 < transport.writes["podgroups"] <= NUMBERS_PER_SECOND * seconds + 2 * seconds // 10


async def test_a_job_that_cannot_be_put_in_a_sentence_is_reported_in_the_words_of_kai(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("bosket.scheduler.answers.sentence.Sentences.of", fails)
    rig = await a_cluster(*waiting("g", gpus=9))
    async with rig.running(scheduler):
        told = await rig.until(lambda: condition(rig, "g"))
    assert told.message.startswith("Resources were not found for pod ml/g-0 due to: ")
    assert "pod group ml/g: no sentence for its reason" in caplog.text
