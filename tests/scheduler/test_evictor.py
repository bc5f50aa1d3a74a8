"""Evictions on a cluster: who goes, what is said about it, and what budgets, races and lost answers do to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from prometheus_client import generate_latest

from bosket.api.core import Pod
from bosket.api.core.event import Event
from bosket.api.kai import BindRequest, PodGroup
from bosket.api.object import KubeObject, LabelSelector, ObjectMeta, Status, StatusCause, StatusDetails
from bosket.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from bosket.kube.transport import Request, Response
from bosket.runtime.service import Environment
from bosket.scheduler.loop import Scheduler, service
from bosket.scheduler.options import Options
from bosket.testing.build import gang, node, pod, pod_group, priority_class, queue
from bosket.testing.faults import Fault, FaultyTransport, delay, hang_up, matching, refuse
from tests.rig import NAMESPACE, Meddling, Rig, make_rig

pytestmark = pytest.mark.looptime

EVICTION = matching("POST", "/eviction")


def scheduler(env: Environment) -> Scheduler:
    return service(env, Options())


def by_deletion(env: Environment) -> Scheduler:
    return service(env, Options(evict_by_deletion=True))


def group(name: str, size: int, **options: Any) -> PodGroup:
    return pod_group(name, min_member=size, namespace=NAMESPACE, **options)


def waiting(name: str, size: int, gpus: int = 1) -> list[Pod]:
    return gang(name, size, gpus=gpus, namespace=NAMESPACE)


async def a_cluster(*objects: KubeObject, gpus: int = 2) -> Rig:
    """One node; job `low` runs on all of it, with a GPU for each pod."""
    rig = await make_rig(
        [
            node("n1", gpus=gpus),
            queue("q"),
            priority_class("low", 10),
            priority_class("high", 60),
            group("low", gpus, priority="low"),
            *objects,
        ]
    )
    await run(rig, *waiting("low", gpus))
    return rig


@asynccontextmanager
async def scheduling(rig: Rig, transport: FaultyTransport | Meddling | None = None) -> AsyncIterator[None]:
    """The scheduler, and a server that keeps the numbers of budgets."""
    server = asyncio.create_task(rig.server.run())
    try:
        async with rig.running(scheduler, transport):
            yield
    finally:
        server.cancel()
        await asyncio.wait([server])


async def run(rig: Rig, *pods: Pod) -> None:
    """What binder and kubelet do."""
    for each in pods:
        labelled = msgspec.structs.replace(each.metadata, labels={"app": each.metadata.name.rsplit("-")[0]})
        made = await rig.client.create(msgspec.structs.replace(each, metadata=labelled))
        await rig.client.bind(made, "n1")
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await rig.client.patch(Pod, made.metadata.name, {"status": status}, namespace=NAMESPACE, subresource="status")


def budget(name: str, app: str, *, min_available: int) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace=NAMESPACE),
        spec=PodDisruptionBudgetSpec(minAvailable=min_available, selector=LabelSelector(matchLabels={"app": app})),
    )


async def high_comes(rig: Rig, size: int = 1, gpus: int = 1) -> None:
    await rig.apply(group("high", size, priority="high"), *waiting("high", size, gpus))


async def going(rig: Rig) -> list[str]:
    pods = (await rig.client.list(Pod, NAMESPACE)).items
    return sorted(each.metadata.name for each in pods if each.metadata.deletionTimestamp)


async def remove(rig: Rig, *names: str) -> None:
    """What a kubelet does when a pod has ended."""
    for name in names:
        await rig.client.delete(Pod, name, NAMESPACE, grace_seconds=0)


async def requests(rig: Rig) -> set[str]:
    return {each.metadata.name for each in (await rig.client.list(BindRequest, NAMESPACE)).items}


async def group_named(rig: Rig, name: str) -> PodGroup:
    return await rig.client.get(PodGroup, name, NAMESPACE)


async def reasons(rig: Rig, name: str) -> str:
    conditions = (await group_named(rig, name)).status.schedulingConditions
    return conditions[-1].message if conditions else ""


# ── the whole way ──


async def test_a_higher_priority_takes_the_place_and_everybody_is_told() -> None:
    rig = await a_cluster()
    async with rig.running(scheduler):
        await high_comes(rig)
        assert await rig.until(lambda: going(rig)) == ["low-0", "low-1"]
        on_pod, on_group = await rig.until(lambda: evict_events(rig, "low-0"))
        victim = await rig.client.get(Pod, "low-0", NAMESPACE)
        await rig.until(lambda: evicted_at(rig, "low"))
        (pipelined,) = await rig.until(lambda: rig.events("Pipelined"))
        assert not await requests(rig)
        await remove(rig, "low-0", "low-1")
        assert await rig.until(lambda: requests(rig)) == {"high-0"}
    assert on_pod.message == on_group.message
    assert on_pod.message.startswith(
        f"Pod {NAMESPACE}/low-0 was preempted by higher priority workload {NAMESPACE}/high"
    )
    assert "priority 60 goes before 10 in queue q" in on_pod.message
    assert on_group.metadata.annotations == {
        "num-evicted-pods": "2",
        "evictor-action-type": "preempt",
        "evictor-pod-group-name": "high",
        "evictor-pod-group-namespace": NAMESPACE,
    }
    (target,) = [each for each in victim.status.conditions if each.type == "DisruptionTarget"]
    assert (target.status, target.reason, target.message) == ("True", "PreemptionByScheduler", on_pod.message)
    assert pipelined.message == f"Pod {NAMESPACE}/high-0 was pipelined to node n1"


async def evict_events(rig: Rig, pod_name: str) -> list[Event] | None:
    found = [event for event in await rig.events("Evict") if f"/{pod_name} " in event.message]
    return sorted(found, key=lambda event: event.involvedObject.kind) if len(found) == 2 else None


async def evicted_at(rig: Rig, name: str) -> str | None:
    return (await group_named(rig, name)).metadata.annotations.get("kai.scheduler/last-eviction-timestamp")


async def test_all_of_a_batch_are_evicted_before_anybody_is_told_of_it() -> None:
    """With thousands of victims the API server is the limit: what somebody waits for goes first."""
    rig = await a_cluster()
    slow = FaultyTransport(rig.server.transport(), [delay(EVICTION, 10.0, nth=2, times=1)])
    async with rig.running(scheduler, slow):
        await high_comes(rig)
        (first,) = await rig.until(lambda: going(rig))  # both are asked for at once: either may be the slow one
        await asyncio.sleep(5.0)  # virtual time
        assert not await rig.events("Evict")
        await rig.until(lambda: evict_events(rig, first))
        assert await going(rig) == ["low-0", "low-1"]


async def test_evicted_pods_are_counted_by_group_and_action() -> None:
    rig = await a_cluster()
    texts = []

    def measured(env: Environment) -> Scheduler:
        texts.append(env.metrics)
        return service(env, Options())

    async with rig.running(measured):
        await high_comes(rig)
        await rig.until(lambda: evict_events(rig, "low-1"))
        text = generate_latest(texts[0]).decode()
    uid = (await group_named(rig, "low")).metadata.uid
    labels = f'action="preempt",namespace="{NAMESPACE}",nodepool="default",podgroup="low",uid="{uid}"'
    assert f"kai_pod_group_evicted_pods_total{{{labels}}} 2.0" in text


async def test_nobody_else_is_evicted_for_a_job_while_its_victims_leave() -> None:
    rig = await a_cluster(group("other", 1, priority="low"), gpus=3)
    await remove(rig, "low-2")
    await run(rig, *waiting("other", 1))
    async with rig.running(scheduler):
        await high_comes(rig)
        victims = await rig.until(lambda: going(rig))
        for _ in range(5):  # things happen elsewhere, and cycles run
            await rig.client.create(pod(f"x{rig.clock.monotonic()}", NAMESPACE).cpu("1m").build())
            await rig.clock.sleep(5)
        assert await going(rig) == victims
        assert len(await rig.events("Pipelined")) == 1
        assert await rig.events("Unschedulable") == []


async def test_plain_deletion_asks_no_budget() -> None:
    rig = await a_cluster(budget("keep", "low", min_available=2))
    transport = FaultyTransport(rig.server.transport())
    async with rig.running(by_deletion, transport):
        await high_comes(rig)
        await rig.until(lambda: going(rig))
    assert not any(request.path.endswith("/eviction") for request in transport.requests)
    victim = await rig.client.get(Pod, "low-0", NAMESPACE)
    assert {(c.type, c.reason) for c in victim.status.conditions} >= {("DisruptionTarget", "PreemptionByScheduler")}


# ── budgets ──


async def test_a_budget_that_forbids_is_a_reason_and_one_that_allows_lets_it_happen() -> None:
    rig = await a_cluster(budget("keep", "low", min_available=1))
    async with scheduling(rig):
        await high_comes(rig)
        refused = await rig.until(lambda: told_of_budget(rig))
        assert await going(rig) == []
        await rig.client.patch(PodDisruptionBudget, "keep", {"spec": {"minAvailable": 0}}, namespace=NAMESPACE)
        assert await rig.until(lambda: going(rig)) == ["low-0", "low-1"]
    assert f"is refused by PodDisruptionBudget {NAMESPACE}/keep" in refused


async def told_of_budget(rig: Rig) -> str | None:
    text = await reasons(rig, "high")
    return text if "PodDisruptionBudget" in text else None


async def test_another_victim_is_taken_when_a_budget_protects_the_first() -> None:
    rig = await a_cluster(group("other", 1, priority="low"), budget("keep", "other", min_available=1), gpus=2)
    await remove(rig, "low-1")
    await run(rig, *waiting("other", 1))
    low = await group_named(rig, "low")
    spec = msgspec.structs.replace(low.spec, minMember=1)
    await rig.client.modify(low, msgspec.structs.replace(low, spec=spec))
    async with scheduling(rig):
        await high_comes(rig)
        assert await rig.until(lambda: going(rig)) == ["low-0"]


async def test_a_refusal_that_nobody_could_foresee_spares_the_whole_gang() -> None:
    """The budget comes when the eviction is on its way."""
    rig = await a_cluster()

    async def meddle() -> None:
        await rig.apply(budget("keep", "low", min_available=1))

    transport = Meddling(rig.server.transport(), EVICTION, meddle)
    async with scheduling(rig, transport):
        await high_comes(rig)
        await rig.until(lambda: told_of_budget(rig))
        await rig.clock.sleep(60)
        assert len(await going(rig)) <= 1  # one may have been quicker than the budget
        assert not await requests(rig)


async def test_a_gang_goes_only_if_all_of_its_guarded_pods_may_go() -> None:
    """The budget allows it by its own account; the server, which knows better, refuses the second one."""
    rig = await a_cluster(budget("keep", "low", min_available=0))
    cause = StatusDetails(causes=(StatusCause(reason="DisruptionBudget", message="not now"),))
    refusal = refuse(EVICTION, 429, nth=2)
    refusal.answer = Response(
        429, {}, msgspec.json.encode(Status(code=429, reason="TooManyRequests", message="no", details=cause))
    )
    transport = FaultyTransport(rig.server.transport(), [refusal])
    async with scheduling(rig, transport):
        await high_comes(rig)
        await rig.until(lambda: struck(refusal))
        assert await going(rig) == []
        assert len(asked(transport)) == 2
        assert all(b'"dryRun":["All"]' in request.body for request in asked(transport))
        await rig.until(lambda: both_going(rig))  # after a while it is tried again


def asked(transport: FaultyTransport) -> list[Request]:
    return [request for request in transport.requests if EVICTION(request)]


async def struck(fault: Fault) -> int:
    return fault.struck


# ── what goes wrong ──


async def test_an_eviction_whose_answer_was_lost_is_taken_for_what_it_is() -> None:
    rig = await a_cluster()
    broken = FaultyTransport(rig.server.transport())
    broken.add(hang_up(EVICTION, after_effect=True))
    async with rig.running(scheduler, broken):
        await high_comes(rig)
        await rig.until(lambda: both_going(rig))
        await remove(rig, "low-0", "low-1")
        await rig.until(lambda: requests(rig))


async def both_going(rig: Rig) -> bool:
    return len(await going(rig)) == 2


async def test_evictions_go_on_after_errors_that_pass() -> None:
    rig = await a_cluster()
    broken = FaultyTransport(rig.server.transport())
    broken.add(refuse(EVICTION, 500, times=12))
    async with rig.running(scheduler, broken):
        await high_comes(rig)
        await rig.until(lambda: both_going(rig))


async def test_who_may_not_be_evicted_at_all_is_left_alone_longer_and_longer() -> None:
    rig = await a_cluster()
    broken = FaultyTransport(rig.server.transport())
    broken.add(refuse(EVICTION, 403, times=None))
    async with rig.running(scheduler, broken):
        await high_comes(rig)
        await rig.until(lambda: reported(rig, "is refused by the API server"))
        await rig.clock.sleep(60)
    assert sum(each.path.endswith("/eviction") for each in broken.requests) < 20


async def reported(rig: Rig, text: str) -> bool:
    return text in await reasons(rig, "high")


async def test_a_pod_that_took_the_name_of_a_victim_is_safe() -> None:
    rig = await a_cluster(gpus=1)

    async def meddle() -> None:
        await remove(rig, "low-0")
        await rig.client.create(pod("low-0", NAMESPACE).cpu("1").build())

    async with rig.running(scheduler, Meddling(rig.server.transport(), EVICTION, meddle)):
        await high_comes(rig)
        await rig.until(lambda: requests(rig))
        await rig.clock.sleep(10)
        assert await going(rig) == []


async def test_evictions_that_were_cut_short_are_decided_anew_when_the_scheduler_runs_again() -> None:
    rig = await a_cluster()
    broken = FaultyTransport(rig.server.transport())
    broken.add(delay(EVICTION, 1000.0, times=1))
    await high_comes(rig)
    scheduling = []

    def kept(env: Environment) -> Restarted:
        scheduling.append(service(env, Options()))
        return Restarted(scheduling[0])

    async with rig.running(kept, broken):
        await rig.until(lambda: both_going(rig))


class Restarted:
    """Runs a service for a minute, and then again: a lease that was lost and comes back."""

    name = "scheduler"

    def __init__(self, inner: Scheduler) -> None:
        self._inner = inner

    async def run(self) -> None:
        try:
            async with asyncio.timeout(60):
                await self._inner.run()
        except TimeoutError:
            await self._inner.run()


# ── places that only one cycle had ──


async def test_a_place_that_is_lost_in_the_cycle_that_gave_it_is_never_asked_for() -> None:
    """`rich` gets the idle GPU first; `poor` has a better right, and takes it with another one of `rich`'s."""
    rig = await make_rig(
        [
            node("n1", gpus=2),
            queue("a", quota=0),
            queue("b", quota=2),
            group("rich", 1, queue="a"),
            group("poor", 1, queue="b"),
        ]
    )
    await run(rig, *waiting("rich", 1))
    extra = pod("rich-1", NAMESPACE).gpu(1).of_group("rich").build()
    await rig.apply(extra, pod("poor-0", NAMESPACE).gpu(2).of_group("poor").build())
    async with rig.running(scheduler):
        assert await rig.until(lambda: going(rig)) == ["rich-0"]
        await remove(rig, "rich-0")
        assert await rig.until(lambda: requests(rig)) == {"poor-0"}


# ── stale gangs ──


async def test_a_gang_that_lost_a_member_is_marked_and_goes_after_its_grace() -> None:
    rig = await make_rig([node("n1", gpus=4), queue("q")])
    broken = group("g", 3)
    spec = msgspec.structs.replace(broken.spec, stalenessGracePeriod="20s")
    await rig.apply(msgspec.structs.replace(broken, spec=spec))
    await run(rig, *waiting("g", 2))
    async with rig.running(scheduler):
        since = await rig.until(lambda: stale_since(rig))
        (event,) = await rig.until(lambda: rig.events("StaleJob"))
        marked_at = rig.clock.monotonic()
        assert await rig.until(lambda: going(rig)) == ["g-0", "g-1"]
        assert 15 < rig.clock.monotonic() - marked_at < 22
        assert await stale_since(rig) == since, "the time began anew"
        (on_pod, _) = await rig.until(lambda: stale_events(rig, "g-0"))
    assert event.message == "Job is stale. 2 pods are active, minMember is 3"
    assert on_pod.message.startswith(
        "Workload doesn't meet the minimum required number of pods (3), evicting remaining pod: ml/g-0"
    )
    assert "evictor-pod-group-name" not in on_pod.metadata.annotations


async def stale_events(rig: Rig, pod_name: str) -> list[Event] | None:
    found = [event for event in await rig.events("Evict") if f"/{pod_name}\n" in event.message]
    return sorted(found, key=lambda event: event.involvedObject.kind) if len(found) == 2 else None


async def stale_since(rig: Rig) -> str | None:
    return (await group_named(rig, "g")).metadata.annotations.get("kai.scheduler/stale-podgroup-timestamp")


async def test_a_gang_that_is_whole_again_is_no_longer_stale() -> None:
    rig = await make_rig([node("n1", gpus=4), queue("q"), group("g", 3)])
    await run(rig, *waiting("g", 2))
    async with rig.running(scheduler):
        await rig.until(lambda: stale_since(rig))
        await run(rig, *waiting("g", 3)[2:])

        async def unmarked() -> bool:
            return not await stale_since(rig)

        await rig.until(unmarked)
        await rig.clock.sleep(100)
        assert await going(rig) == []


async def test_a_min_runtime_that_ends_is_not_slept_through() -> None:
    """Nothing changes but the time."""
    guarded = queue("a", quota=0)
    spec = msgspec.structs.replace(guarded.spec, reclaimMinRuntime="30s")
    rig = await make_rig(
        [
            node("n1", gpus=1),
            msgspec.structs.replace(guarded, spec=spec),
            queue("b", quota=1),
            group("young", 1, queue="a"),
            group("heir", 1, queue="b"),
            *waiting("young", 1),
        ]
    )
    async with rig.running(scheduler):
        (name,) = await rig.until(lambda: requests(rig))
        found = await rig.client.get(Pod, name, NAMESPACE)
        await rig.client.bind(found, "n1")
        await rig.client.patch(Pod, name, {"status": {"phase": "Running"}}, namespace=NAMESPACE, subresource="status")
        started = rig.clock.monotonic()
        await rig.apply(*waiting("heir", 1))
        assert await rig.until(lambda: going(rig)) == ["young-0"]
        assert 27 < rig.clock.monotonic() - started < 33
