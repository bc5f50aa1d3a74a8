"""Unit tables "gate removal" and "verifyAllPodsCreated" of Grove's list."""

from __future__ import annotations

import pytest

from bosket.api.core import Pod
from bosket.api.grove import PodClique
from bosket.api.grove.naming import GANG_GATE
from bosket.grove.pod_state import to_release, without_gang_gate
from bosket.grove.render_gang import GangPart, GangPlan, is_complete
from tests.grove.objects import made_clique, made_pod


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
