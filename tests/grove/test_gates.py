"""Unit tables "gate removal" and "verifyAllPodsCreated" of Grove's list."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bosket.api import keys
from bosket.api.core import Pod, PodSchedulingGate
from bosket.api.grove import PodClique, PodGang
from bosket.api.grove.naming import GANG_GATE
from bosket.grove.render.gang import GangPart, GangPlan, is_complete
from bosket.grove.status.pod_state import to_release, without_gang_gate
from tests.grove.objects import made_clique, made_pod
from tests.grove.sets import clique, clique_set
from tests.grove.world import World, world


@pytest.mark.parametrize(
    ("gates", "referenced", "base_scheduled", "released", "some_wait"),
    [
        pytest.param([GANG_GATE], True, True, True, False, id="the gang knows it, and the base gang has its minimum"),
        pytest.param([GANG_GATE], True, False, False, True, id="the base gang hasn't, or isn't there"),
        pytest.param([GANG_GATE], False, True, False, True, id="the gang doesn't know it yet"),
        pytest.param([], True, True, False, False, id="it has no gate"),
        pytest.param(["example.test/other"], True, True, False, False, id="it has somebody else's gate"),
        pytest.param([GANG_GATE, "example.test/other"], True, True, True, False, id="it has both"),
    ],
)
def test_a_gate_goes_when_the_gang_knows_the_pod_and_the_base_gang_has_its_minimum(
    gates: list[str], referenced: bool, base_scheduled: bool, released: bool, some_wait: bool
) -> None:
    pod = made_pod("p", gates=gates)
    found = to_release([pod], {"p"} if referenced else {"q"}, base_scheduled=base_scheduled)
    assert found == ([pod] if released else [], some_wait)


def test_gates_of_others_stay() -> None:
    pod = without_gang_gate(made_pod("p", gates=["example.test/a", GANG_GATE, "example.test/b"]))
    assert [each.name for each in pod.spec.schedulingGates] == ["example.test/a", "example.test/b"]


async def _pods_behind(tester: World, gates: set[str]) -> list[Pod]:
    pods = await tester.pods()
    return [each for each in pods if {gate.name for gate in each.spec.schedulingGates} == gates]


@pytest.mark.looptime
async def test_gates_of_the_template_stay_beside_the_operators_and_after_it() -> None:
    """A set's pods wait for whoever put the gate there, and say so."""
    template = clique("a", 2, scheduler="kai-scheduler")
    gates = (PodSchedulingGate(name="example.test/mine"), PodSchedulingGate(name=GANG_GATE))
    spec = replace(template.spec, podSpec=replace(template.spec.podSpec, schedulingGates=gates))
    async with world(2) as tester:
        await tester.apply(clique_set("s", replace(template, spec=spec)))

        async def left_to_their_owner() -> bool:
            return len(await _pods_behind(tester, {"example.test/mine"})) == 2

        await tester.until("pods with the template's gate alone", left_to_their_owner)
        await tester.clock.sleep(120)
        assert await left_to_their_owner()
        for pod in await tester.pods():
            await tester.client.modify(pod, replace(pod, spec=replace(pod.spec, schedulingGates=())))
        await tester.until("running pods", lambda: _all_have_nodes(tester))


async def _all_have_nodes(tester: World) -> bool:
    return all(each.spec.nodeName for each in await tester.pods())


@pytest.mark.looptime
async def test_pods_get_the_scheduler_of_the_backend_that_the_sets_annotation_names() -> None:
    owner = clique_set("s", clique("a", scheduler="kai-scheduler"))
    annotated = replace(
        owner, metadata=replace(owner.metadata, annotations={keys.GROVE_BACKEND_ANNOTATION: "yunikorn"})
    )
    async with world(1) as tester:
        await tester.apply(annotated)
        await tester.until("a pod", tester.pods)
        (pod,), (gang,) = await tester.pods(), (await tester.client.list(PodGang, tester.namespace)).items
        assert pod.spec.schedulerName == "yunikorn"
        assert (gang.metadata.labels[keys.GROVE_SCHEDULER_LABEL], gang.metadata.labels[keys.GROVE_BACKEND_LABEL]) == (
            "yunikorn",
            "yunikorn",
        )


PLAN = GangPlan("s-0", (GangPart("s-0-a", 1, None),))


@pytest.mark.parametrize(
    ("cliques", "pods", "complete"),
    [
        pytest.param([], [], False, id="its PodClique isn't there"),
        pytest.param([made_clique(replicas=2, minimum=1)], [made_pod("p")], False, id="fewer than the replicas"),
        pytest.param([made_clique()], [made_pod("p", gang="")], False, id="a pod that says nothing of a gang"),
        pytest.param([made_clique()], [made_pod("p", gang="s-1")], False, id="a pod of another gang"),
        pytest.param([made_clique(replicas=2)], [made_pod("p"), made_pod("q")], True, id="all are there"),
    ],
)
def test_a_gang_is_initialized_when_all_replicas_of_all_its_parts_are_there_and_know_it(
    cliques: list[PodClique], pods: list[Pod], complete: bool
) -> None:
    by_name = {each.metadata.name: each for each in cliques}
    assert is_complete(PLAN, by_name, {"s-0-a": pods}) == complete
