"""Which gangs a set has, and what they consist of: unit table "PodGang composition" of Grove's list, and more."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bosket.api.grove import (
    GangTopologyConstraint,
    PodCliqueScalingGroup,
    PodCliqueScalingGroupSpec,
    PodCliqueSet,
    PodGang,
    PodGangSpec,
    TopologyConstraint,
    TopologyLevel,
    TopologyPackConstraint,
)
from bosket.api.object import ObjectMeta
from bosket.grove.render.gang import GangPlan, plan_gangs, plan_named, pod_gang
from tests.grove.sets import NAMESPACE, clique, clique_set, group

LEVELS = (
    TopologyLevel(domain="zone", key="example.test/zone"),
    TopologyLevel(domain="rack", key="example.test/rack"),
)


def _packed(required: str | None = None, preferred: str | None = None) -> TopologyConstraint:
    return TopologyConstraint(topologyName="t", pack=TopologyPackConstraint(required=required, preferred=preferred))


def _gangs(owner: PodCliqueSet, **scaled: int) -> dict[str, list[str]]:
    groups = _groups(scaled)
    plans = plan_gangs(owner, groups, None)
    assert [plan_named(owner, each.name, groups.get, None) for each in plans] == plans, "by name they are the same"
    return {each.name: [part.clique for part in each.parts] for each in plans}


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


def test_each_group_has_its_own_replicas_in_the_base_gang_and_its_own_scaled_gangs() -> None:
    """Unit table "PodGang composition": several groups, several cliques, several replicas of the set."""
    groups = [group("g", "b", "c", replicas=2), group("h", "d", replicas=3, minimum=2)]
    owner = clique_set("s", clique("a"), clique("b"), clique("c"), clique("d"), groups=groups, replicas=2)
    assert _gangs(owner) == {
        **{
            f"s-{index}": [f"s-{index}-a", *(f"s-{index}-{each}" for each in ("g-0-b", "g-0-c", "h-0-d", "h-1-d"))]
            for index in (0, 1)
        },
        "s-0-g-0": ["s-0-g-1-b", "s-0-g-1-c"],
        "s-0-h-0": ["s-0-h-2-d"],
        "s-1-g-0": ["s-1-g-1-b", "s-1-g-1-c"],
        "s-1-h-0": ["s-1-h-2-d"],
    }


@pytest.mark.parametrize(
    ("minimum", "scaled", "gangs"),
    [(1, 4, 3), (2, 6, 4), (1, 3, 2), (2, 2, 0)],
    ids=["up to 4 of 1", "up to 6 of 2", "down to 3 of 1", "to exactly the minimum"],
)
def test_an_autoscaler_adds_and_takes_away_scaled_gangs(minimum: int, scaled: int, gangs: int) -> None:
    """Unit table "PodGang composition": scaling by an autoscaler."""
    owner = clique_set("s", clique("b"), groups=[group("g", "b", replicas=3, minimum=minimum)])
    assert list(_gangs(owner, g=scaled)) == ["s-0", *(f"s-0-g-{index}" for index in range(gangs))]


ZONE, RACK = "example.test/zone", "example.test/rack"


@pytest.mark.parametrize(
    ("given", "levels"),
    [
        (None, None),
        (_packed("zone"), (ZONE, None)),
        (_packed(None, "rack"), (None, RACK)),
        (_packed("zone", "rack"), (ZONE, RACK)),
        (_packed("zone", "gone"), (ZONE, None)),
        (_packed("gone", "rack"), (None, RACK)),
        (_packed("gone", "gone"), None),
    ],
    ids=["none", "required", "preferred", "both", "preferred is stale", "required is stale", "both are stale"],
)
def test_a_constraint_is_told_as_far_as_its_words_mean_something_at_every_level(
    given: TopologyConstraint | None, levels: tuple[str | None, str | None] | None
) -> None:
    """Unit table "PodGang composition": topology variants; of a set, a clique, and a group."""

    def told(constraint: GangTopologyConstraint | None) -> tuple[str | None, str | None] | None:
        pack = constraint.packConstraint if constraint is not None else None
        return None if pack is None else (pack.required, pack.preferred)

    of_clique = clique("b", topologyConstraint=given)
    (own,) = plan_gangs(clique_set("s", clique("a"), topologyConstraint=given), {}, LEVELS)
    assert (told(own.constraint), [told(part.constraint) for part in own.parts]) == (levels, [None])
    (of_part,) = plan_gangs(clique_set("s", of_clique), {}, LEVELS)
    assert (told(of_part.constraint), [told(part.constraint) for part in of_part.parts]) == (None, [levels])
    grouped = clique_set("s", clique("b"), groups=[group("g", "b", replicas=2, topologyConstraint=given)])
    base, scaled = plan_gangs(grouped, {}, LEVELS)
    assert [told(each.topologyConstraint) for each in base.group_constraints] == ([] if given is None else [levels])
    assert (told(base.constraint), told(scaled.constraint)) == (None, levels)
    for plan in (own, of_part, scaled):
        assert plan.is_constrained == (levels is not None)


@pytest.mark.parametrize("levels", [None, (), LEVELS[:1]], ids=["off", "no binding", "the level is gone"])
def test_what_a_gang_said_of_topology_goes_when_it_means_nothing_any_more(
    levels: tuple[TopologyLevel, ...] | None,
) -> None:
    """Constraints and the annotation that names the topology, of a gang that has both."""
    owner = clique_set("s", clique("a"), topologyConstraint=_packed("rack"))

    def made(known: tuple[TopologyLevel, ...] | None, existing: PodGang | None) -> PodGang:
        (plan,) = plan_gangs(owner, {}, known)
        return pod_gang(owner, plan, {}, existing, scheduler_name="kai-scheduler", backend="kai")

    before = made(LEVELS, None)
    assert before.metadata.annotations == {"grove.io/topology-name": "t"}
    after = made(levels, before)
    assert (after.spec.topologyConstraint, after.metadata.annotations) == (None, {})


def test_a_gang_has_its_sets_labels_and_annotations_but_those_that_are_the_operators() -> None:
    """What a set loses, its gang loses; what is the operator's stays, whatever the set says."""
    owner = clique_set("s", clique("a"))
    meta = replace(owner.metadata, labels={"team": "x", "grove.io/podgang": "no"}, annotations={"note": "y"})
    (plan,) = plan_gangs(owner, {}, None)
    stale = PodGang(
        metadata=ObjectMeta(
            name="s-0",
            labels={"old": "1", "grove.io/kept": "2", "grove.io/scheduler-name": "former"},
            annotations={"old": "1", "grove.io/kept": "2"},
        ),
        spec=PodGangSpec(podgroups=()),
    )
    gang = pod_gang(replace(owner, metadata=meta), plan, {}, stale, scheduler_name="volcano", backend="volcano")
    assert gang.metadata.annotations == {"note": "y", "grove.io/kept": "2"}
    assert gang.metadata.labels == {
        "team": "x",
        "grove.io/kept": "2",
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/part-of": "s",
        "app.kubernetes.io/component": "podgang",
        "grove.io/scheduler-name": "volcano",
        "grove.io/scheduler-backend": "volcano",
    }


def test_a_gang_that_a_set_should_not_have_has_no_plan() -> None:
    owner = clique_set("s", clique("a"), clique("b"), groups=[group("g", "b", replicas=3)], replicas=2)
    groups = _groups({"g": 2})
    names = ("s-0", "s-0-g-0", "s-0-g-1", "s-2", "s-1-g-1", "s-1-g-2", "s-x", "other-0", "s-0-h-0", "s-0-g-", "s")
    found = [name for name in names if plan_named(owner, name, groups.get, None) is not None]
    assert found == ["s-0", "s-0-g-0", "s-1-g-1"], "of s-0-g there are two replicas, of s-1-g as many as at first"
