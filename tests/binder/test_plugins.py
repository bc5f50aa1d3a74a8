"""What plugins are promised: order, rollback, and that a pod is in one hand only."""

from __future__ import annotations

import asyncio

import pytest

from bosket.api import keys
from bosket.services.binder import Attempt, BindPlugin, Options
from bosket.testing.faults import FaultyTransport, matching, refuse
from tests.binder.scene import Ledger, ask, binder, end_state, finished, node, pod, scene

pytestmark = pytest.mark.looptime


class Noting(BindPlugin):
    """Records its calls, and fails where the test wants it to."""

    def __init__(self, name: str, priority: int, log: list[str], fails_in: str = "") -> None:
        self.name = name  # type: ignore[misc]
        self.priority = priority
        self._log = log
        self._fails_in = fails_in

    def _note(self, call: str) -> None:
        self._log.append(f"{call} {self.name}")
        if call == self._fails_in:
            raise RuntimeError(f"{self.name} has a headache")

    async def pre_bind(self, attempt: Attempt) -> None:
        self._note("pre")

    async def post_bind(self, attempt: Attempt) -> None:
        self._note("post")

    async def rollback(self, attempt: Attempt) -> None:
        self._note("rollback")


async def test_plugins_are_called_by_priority_before_and_after_the_bind() -> None:
    rig = await scene()
    await ask(rig)
    log: list[str] = []
    plugins = [Noting("low", 10, log), Noting("high", 300, log), Noting("also-high", 300, log)]
    async with rig.running(binder(*plugins)):
        await finished(rig)
    order = ["also-high", "high", "low"]
    assert log == [f"{call} {name}" for call in ("pre", "post") for name in order]


async def test_a_failing_plugin_fails_the_attempt_and_what_was_begun_is_taken_back() -> None:
    rig = await scene()
    await ask(rig)
    log: list[str] = []
    plugins = [Noting("a", 3, log), Noting("b", 2, log, "pre"), Noting("c", 1, log)]
    ledger = Ledger(rig.server.transport())
    async with rig.running(binder(*plugins), ledger):
        request = await finished(rig, phase="Failed")
    assert log == ["pre a", "pre b", "rollback b", "rollback a"]
    assert request.status.reason == "b has a headache"
    assert ledger.binds() == 0


async def test_a_refused_bind_is_rolled_back_even_where_a_rollback_fails() -> None:
    rig = await scene()
    await ask(rig)
    log: list[str] = []
    plugins = [Noting("a", 2, log), Noting("b", 1, log, "rollback")]
    fault = refuse(matching("POST", "/binding"), 403, reason="Forbidden")
    async with rig.running(binder(*plugins), FaultyTransport(rig.server.transport(), [fault])):
        await finished(rig, phase="Failed")
    assert log == ["pre a", "pre b", "rollback b", "rollback a"]


async def test_a_bind_that_was_cut_short_after_it_took_effect_is_finished() -> None:
    rig = await scene(pod(on="node-1"))
    await ask(rig)
    log: list[str] = []
    async with rig.running(binder(Noting("a", 2, log))):
        await finished(rig)
    assert log == ["post a"]


async def test_nothing_is_taken_back_after_the_bind() -> None:
    rig = await scene()
    await ask(rig)
    log: list[str] = []
    async with rig.running(binder(Noting("a", 2, log, "post"), Noting("b", 1, log))):
        await finished(rig)
    assert log == ["pre a", "pre b", "post a", "post b"]


async def test_a_plugin_makes_a_resource_type_known_and_adds_annotations_to_the_bind() -> None:
    class Sharing(BindPlugin):
        name = "sharing"
        resource_types = frozenset({"Slice"})

        async def pre_bind(self, attempt: Attempt) -> None:
            attempt.annotations["devices"] = "GPU-1"

    rig = await scene()
    await ask(rig, kind="Slice")
    ledger = Ledger(rig.server.transport())
    async with rig.running(binder(Sharing()), ledger):
        await finished(rig)
    assert (await end_state(rig)).annotations == {
        keys.RECEIVED_RESOURCE_TYPE_ANNOTATION: "Slice",
        "devices": "GPU-1",
    }
    assert ledger.writes() == ["POST pods/a/binding", "PATCH bindrequests/a/status"]


class Gate(BindPlugin):
    """Holds every attempt until it is opened."""

    name = "gate"

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.inside: list[str] = []
        self.most = 0

    async def pre_bind(self, attempt: Attempt) -> None:
        self.inside.append(attempt.pod.metadata.name)
        self.most = max(self.most, len(self.inside))
        await self.opened.wait()
        self.inside.remove(attempt.pod.metadata.name)


async def test_as_many_pods_are_bound_at_once_as_there_are_workers() -> None:
    names = [f"pod-{number}" for number in range(9)]
    rig = await scene(*map(pod, names))
    for name in names:
        await ask(rig, name)
    gate = Gate()
    async with rig.running(binder(gate, options=Options(max_concurrent_reconciles=4))):
        await rig.clock.sleep(1)
        assert len(gate.inside) == 4
        gate.opened.set()
        for name in names:
            await finished(rig, name)
    assert gate.most == 4


async def test_a_pod_is_in_one_hand_only_whatever_its_requests_are_called() -> None:
    rig = await scene()
    await rig.apply(node("node-2"))
    await ask(rig, name="first")
    await ask(rig, name="second", to="node-2")
    gate = Gate()
    ledger = Ledger(rig.server.transport())
    async with rig.running(binder(gate), ledger):
        await rig.clock.sleep(1)
        assert gate.inside == ["a"]
        gate.opened.set()
        await rig.clock.sleep(1)
    assert ledger.binds() == 1


async def test_a_node_is_given_as_many_binds_at_once_as_it_may_have_and_others_go_on() -> None:
    names = [f"pod-{number}" for number in range(6)]
    rig = await scene(*map(pod, names), pod("elsewhere"))
    await rig.apply(node("node-2"))
    for name in names:
        await ask(rig, name)
    await ask(rig, "elsewhere", to="node-2")
    gate = Gate()
    options = Options(max_concurrent_reconciles=3, max_concurrent_binds_per_node=2)
    async with rig.running(binder(gate, options=options)):
        await rig.clock.sleep(1)
        assert len(gate.inside) == 3
        assert "elsewhere" in gate.inside
        gate.opened.set()
        for name in names:
            await finished(rig, name)
    assert gate.most == 3
