"""Which gangs a set has, and what they consist of."""

from __future__ import annotations

import pytest

from bosket.api.grove import (
    PodCliqueScalingGroup,
    PodCliqueScalingGroupSpec,
    PodCliqueSet,
    TopologyConstraint,
    TopologyLevel,
    TopologyPackConstraint,
)
from bosket.api.object import ObjectMeta
from bosket.grove.render_gang import GangPlan, plan_gangs
from tests.grove.sets import NAMESPACE, clique, clique_set, group

LEVELS = (
    TopologyLevel(domain="zone", key="example.test/zone"),
    TopologyLevel(domain="rack", key="example.test/rack"),
)


def _packed(required: str | None = None, preferred: str | None = None) -> TopologyConstraint:
    return TopologyConstraint(topologyName="t", pack=TopologyPackConstraint(required=required, preferred=preferred))


def _gangs(owner: PodCliqueSet, **scaled: int) -> dict[str, list[str]]:
    return {each.name: [part.clique for part in each.parts] for each in plan_gangs(owner, _groups(scaled), None)}


def _groups(scaled: dict[str, int]) -> dict[str, PodCliqueScalingGroup]:
    found = {}
    for name, replicas in scaled.items():
        full = f"s-0-{name}"
        meta = ObjectMeta(name=full, namespace=NAMESPACE)
        spec = PodCliqueScalingGroupSpec(replicas=replicas, cliqueNames=("b",))
        found[full] = PodCliqueScalingGroup(metadata=meta, spec=spec)
    return found


def test_cliques_in_no_group_are_the_base_gang() -> None:
    assert _gangs(clique_set("s", clique("a"), clique("b"))) == {"s-0": ["s-0-a", "s-0-b"]}


def test_each_replica_of_a_set_has_a_base_gang() -> None:
    assert list(_gangs(clique_set("s", clique("a"), replicas=2))) == ["s-0", "s-1"]


def test_replicas_of_a_group_above_its_minimum_are_gangs_of_their_own() -> None:
    owner = clique_set("s", clique("a"), clique("b"), clique("c"), groups=[group("g", "b", "c", replicas=3)])
    assert _gangs(owner) == {
        "s-0": ["s-0-a", "s-0-g-0-b", "s-0-g-0-c"],
        "s-0-g-0": ["s-0-g-1-b", "s-0-g-1-c"],
        "s-0-g-1": ["s-0-g-2-b", "s-0-g-2-c"],
    }


def test_a_group_that_is_all_minimum_has_no_scaled_gang() -> None:
    owner = clique_set("s", clique("b"), groups=[group("g", "b", replicas=2, minimum=2)])
    assert _gangs(owner) == {"s-0": ["s-0-g-0-b", "s-0-g-1-b"]}


@pytest.mark.parametrize(("scaled", "gangs"), [(1, ["s-0"]), (2, ["s-0", "s-0-g-0"]), (0, ["s-0"])])
def test_a_group_that_was_scaled_has_as_many_gangs_as_it_is_large_now(scaled: int, gangs: list[str]) -> None:
    owner = clique_set("s", clique("b"), groups=[group("g", "b", replicas=3)])
    assert list(_gangs(owner, g=scaled)) == gangs


def test_the_minimum_of_a_part_is_the_cliques_and_not_its_replicas() -> None:
    (plan,) = plan_gangs(clique_set("s", clique("a", 4, 2)), {}, None)
    assert [part.minimum for part in plan.parts] == [2]


def _constrained(levels: tuple[TopologyLevel, ...] | None) -> list[GangPlan]:
    cliques = clique("a", topologyConstraint=_packed("rack")), clique("b")
    groups = [group("g", "b", replicas=2, topologyConstraint=_packed("rack", "rack"))]
    owner = clique_set("s", *cliques, groups=groups, topologyConstraint=_packed("zone", "row"))
    return plan_gangs(owner, {}, levels)


def test_words_become_node_labels_at_every_level_of_the_base_gang() -> None:
    base, _ = _constrained(LEVELS)
    assert base.constraint is not None
    assert base.constraint.packConstraint is not None
    assert (base.constraint.packConstraint.required, base.constraint.packConstraint.preferred) == (
        "example.test/zone",
        None,  # no level is called a row
    )
    (of_group,) = base.group_constraints
    assert (of_group.name, of_group.podGroupNames) == ("s-0-g-0", ("s-0-g-0-b",))
    assert [part.constraint is not None for part in base.parts] == [True, False]


def test_a_scaled_gang_has_its_groups_constraint_for_all_of_it() -> None:
    _, scaled = _constrained(LEVELS)
    assert scaled.constraint is not None
    assert scaled.constraint.packConstraint is not None
    assert scaled.constraint.packConstraint.required == "example.test/rack"
    assert scaled.group_constraints == ()


def test_a_scaled_gang_of_a_group_without_constraint_has_the_sets() -> None:
    owner = clique_set("s", clique("b"), groups=[group("g", "b", replicas=2)], topologyConstraint=_packed("zone"))
    assert [each.constraint is not None for each in plan_gangs(owner, {}, LEVELS)] == [True, True]


def test_where_topology_aware_scheduling_is_off_nothing_is_constrained() -> None:
    assert not any(each.is_constrained or each.group_constraints for each in _constrained(None))


def test_without_a_binding_nothing_is_constrained_but_groups_are_named() -> None:
    base, scaled = _constrained(())
    assert not base.is_constrained
    assert not scaled.is_constrained
    assert [each.name for each in base.group_constraints] == ["s-0-g-0"]
