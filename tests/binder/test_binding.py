"""The binder on a cluster: what it does about a request, and what it leaves behind."""

from __future__ import annotations

from itertools import pairwise

import pytest

from bosket.api.core import Pod
from bosket.api.kai import BindRequest
from bosket.services.binder import Attempt, BindPlugin
from bosket.testing.faults import matching
from tests.binder.scene import (
    BOUND,
    BOUND_AFTER_ALL,
    NODE,
    Ledger,
    ask,
    binder,
    call_unbound,
    end_state,
    finished,
    node,
    pod,
    scene,
)
from tests.rig import NAMESPACE, Lagging, Meddling

pytestmark = pytest.mark.looptime


async def test_a_pod_is_bound_in_two_writes() -> None:
    """And without an event: the API server says on the pod that it has a node, the scheduler's event says which."""
    rig = await scene()
    await ask(rig)
    ledger = Ledger(rig.server.transport())
    async with rig.running(binder(), ledger):
        await finished(rig)
        assert await end_state(rig) == BOUND
    assert ledger.writes() == ["POST pods/a/binding", "PATCH bindrequests/a/status"]
    assert await rig.events("Bound") == []  # what was recorded is written before a service has ended


async def test_a_pod_that_could_not_be_bound_before_says_that_it_is() -> None:
    rig = await scene()
    await call_unbound(rig)
    await ask(rig)
    async with rig.running(binder()):
        await finished(rig)
        (event,) = await rig.until(lambda: rig.events("Bound"))
    assert (await end_state(rig)).conditions == BOUND.conditions | {BOUND_AFTER_ALL}
    assert (event.type, event.message, event.involvedObject.name) == (
        "Normal",
        f"Pod bound successfully to node {NODE}",
        "a",
    )


async def test_a_request_that_comes_later_is_carried_out_too() -> None:
    rig = await scene()
    async with rig.running(binder()):
        await ask(rig)
        await finished(rig)
    assert await end_state(rig) == BOUND


async def test_a_pod_that_the_watch_has_not_shown_yet_is_bound(looptime: float) -> None:
    rig = await scene()
    async with rig.running(binder(), Lagging(rig.server.transport(), "pods")):
        await rig.clock.sleep(1)
        await rig.apply(pod("late"))
        await ask(rig, "late")
        await finished(rig, "late")
    assert looptime < 10


async def test_what_is_done_is_not_done_again() -> None:
    rig = await scene()
    await ask(rig)
    async with rig.running(binder()):
        await finished(rig)
    ledger = Ledger(rig.server.transport())
    async with rig.running(binder(), ledger):
        await rig.clock.sleep(120)
    assert ledger.writes() == []


async def test_a_pod_that_is_on_its_node_already_is_a_success() -> None:
    rig = await scene(pod(on=NODE))
    await ask(rig)
    ledger = Ledger(rig.server.transport())
    async with rig.running(binder(), ledger):
        await finished(rig)
    assert ledger.binds() == 0


async def test_a_pod_on_another_node_is_a_failure_and_stays_there() -> None:
    rig = await scene(pod(on="node-2"))
    await ask(rig, limit=5)
    ledger = Ledger(rig.server.transport())
    async with rig.running(binder(), ledger):
        request = await finished(rig, phase="Failed")
        (event,) = await rig.until(lambda: rig.events("BindingError"))
        await rig.clock.sleep(120)
    assert request.status.reason == "pod ml/a is bound to node node-2 already, not to node-1"
    assert request.status.failedAttempts == 5
    assert event.message == f"Failed to bind pod ml/a to node {NODE}: {request.status.reason}"
    assert ledger.writes() == ["PATCH bindrequests/a/status"]


async def test_a_missing_pod_is_a_failure() -> None:
    rig = await scene()
    created = await ask(rig)
    await rig.client.delete(Pod, "a", NAMESPACE, grace_seconds=0)
    assert created.metadata.name == "a"
    async with rig.running(binder()):
        request = await finished(rig, phase="Failed")
    assert request.status.reason == "pod ml/a was not found"


async def test_a_new_pod_of_the_same_name_is_not_bound_by_the_old_ones_request() -> None:
    rig = await scene()
    await ask(rig)
    await rig.client.delete(Pod, "a", NAMESPACE, grace_seconds=0)
    await rig.apply(pod())
    async with rig.running(binder()):
        request = await finished(rig, phase="Failed")
    assert "which is gone" in request.status.reason
    assert (await rig.client.get(Pod, "a", NAMESPACE)).spec.nodeName == ""


async def test_a_new_pod_of_the_same_name_is_not_told_about_the_old_ones_bind() -> None:
    rig = await scene()
    await call_unbound(rig)
    await ask(rig)

    async def replace() -> None:
        await rig.client.delete(Pod, "a", NAMESPACE, grace_seconds=0)
        await rig.apply(pod())

    meddling = Meddling(rig.server.transport(), matching("PATCH", "/pods/a/status"), replace)
    async with rig.running(binder(), meddling):
        await finished(rig, phase="Failed")
    assert (await rig.client.get(Pod, "a", NAMESPACE)).status.conditions == ()


async def test_a_missing_node_is_a_failure_that_pod_event_and_request_tell() -> None:
    rig = await scene()
    await ask(rig, to="nowhere")
    async with rig.running(binder()):
        await finished(rig, phase="Failed", attempts=1)
        (event,) = await rig.until(lambda: rig.events("BindingError"))
    state = await end_state(rig)
    message = "Failed to bind pod ml/a to node nowhere: node nowhere was not found"
    assert (state.node, state.reason) == ("", "node nowhere was not found")
    assert ("PodBound", "False", "BindingError", message) in state.conditions
    assert (event.type, event.message) == ("Warning", message)


async def test_a_request_with_a_limit_is_tried_again_after_1_2_4_seconds(looptime: float) -> None:
    rig = await scene()
    await ask(rig, to="nowhere", limit=4)
    async with rig.running(binder()):
        times = []
        for attempts in range(1, 5):
            await finished(rig, phase="Failed", attempts=attempts)
            times.append(float(looptime))
        await rig.clock.sleep(300)
    assert (await end_state(rig)).failed_attempts == 4
    pauses = [round(later - earlier) for earlier, later in pairwise(times)]
    assert pauses == [1, 2, 4]


async def test_a_watch_that_lags_holds_up_no_attempt(looptime: float) -> None:
    rig = await scene()
    await ask(rig, to="nowhere", limit=3)
    async with rig.running(binder(), Lagging(rig.server.transport(), "bindrequests")):
        await finished(rig, phase="Failed", attempts=3)
    assert looptime < 10


async def test_a_failure_that_changes_its_words_is_still_the_same_failure() -> None:
    class Moody(BindPlugin):
        name = "moody"
        mood = 0

        async def pre_bind(self, attempt: Attempt) -> None:
            self.mood += 1
            raise RuntimeError(f"mood {self.mood}")

    rig = await scene()
    await ask(rig, limit=2)
    seen = []
    async with rig.running(binder(Moody())):
        for attempts in (1, 2):
            await finished(rig, phase="Failed", attempts=attempts)
            (condition,) = (await rig.client.get(Pod, "a", NAMESPACE)).status.conditions
            seen.append((condition.lastTransitionTime, condition.message[-6:]))
    assert [message for _, message in seen] == ["mood 1", "mood 2"]
    assert len({moment for moment, _ in seen}) == 1


async def test_attempts_are_counted_across_restarts() -> None:
    rig = await scene()
    await ask(rig, to="nowhere", limit=3)
    for attempts in (1, 2, 3):
        async with rig.running(binder()):
            await finished(rig, phase="Failed", attempts=attempts)


async def test_a_request_succeeds_as_soon_as_what_was_missing_is_there() -> None:
    rig = await scene()
    await ask(rig, to="node-2", limit=10)
    async with rig.running(binder()):
        await finished(rig, phase="Failed", attempts=2)
        await rig.apply(node("node-2"))
        request = await finished(rig)
    state = await end_state(rig)
    assert (state.node, request.status.reason) == ("node-2", "")
    assert request.status.failedAttempts >= 2
    assert ("PodBound", "True", "Bound", "Pod bound successfully to node node-2") in state.conditions


@pytest.mark.parametrize(
    ("pod_name", "to", "kind", "words"),
    [
        ("", NODE, "Regular", "spec.podName is empty"),
        ("a", "", "Regular", "spec.selectedNode is empty"),
        ("a", NODE, "Slice", 'spec.receivedResourceType is "Slice"'),
    ],
)
async def test_a_bad_request_fails_with_a_sentence_and_the_others_go_on(
    pod_name: str, to: str, kind: str, words: str
) -> None:
    rig = await scene(pod("a"), pod("b"))
    await ask(rig, pod_name, to=to, kind=kind, name="bad", limit=9)
    await ask(rig, "b")
    async with rig.running(binder()):
        bad = await finished(rig, "bad", phase="Failed")
        await finished(rig, "b")
    assert bad.status.reason.startswith("BindRequest ml/bad: ")
    assert words in bad.status.reason
    assert bad.status.failedAttempts == 9


async def test_of_two_requests_for_one_pod_one_wins() -> None:
    rig = await scene()
    await rig.apply(node("node-2"))
    await ask(rig, name="first")
    await ask(rig, name="second", to="node-2")
    ledger = Ledger(rig.server.transport())

    async def phases() -> set[str]:
        found = {each.status.phase for each in (await rig.client.list(BindRequest, NAMESPACE)).items}
        return found if "" not in found else set()

    async with rig.running(binder(), ledger):
        assert await rig.until(phases) == {"Succeeded", "Failed"}
    assert ledger.binds() == 1
