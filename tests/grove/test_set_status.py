"""Unit tables "PCS status conditions" of Grove's list: which replicas are available, and what is said of topology."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bosket.api.grove import (
    ClusterTopologyBinding,
    ClusterTopologyBindingSpec,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    TopologyConstraint,
    TopologyLevel,
    TopologyPackConstraint,
)
from bosket.api.object import ObjectMeta
from bosket.grove.condition import TOPOLOGY_UNAVAILABLE, find
from bosket.grove.status.set import set_status
from tests.grove.objects import CREATED, condition, made_clique, made_group
from tests.grove.sets import clique, clique_set, group

# --- available replicas

BOTH = clique_set("s", clique("x"), clique("a"), clique("b"), groups=[group("g", "a", "b")])
STANDALONE = clique_set("s", clique("x"), clique("y"))
GROUPS = clique_set("s", clique("a"), clique("b"), groups=[group("g", "a", "b")])


def x(ready: int = 1, *, going: bool = False) -> PodClique:
    return made_clique("s-0-x", ready=ready, going=going)


def g(available: int = 1, *, going: bool = False) -> PodCliqueScalingGroup:
    return made_group(replicas=1, minimum=1, available=available, going=going)


def available(owner: PodCliqueSet, *children: PodClique | PodCliqueScalingGroup) -> int:
    cliques = {each.metadata.name: each for each in children if isinstance(each, PodClique)}
    groups = {each.metadata.name: each for each in children if isinstance(each, PodCliqueScalingGroup)}
    return set_status(owner, cliques, groups, (), None, topology_aware=False, now=CREATED).availableReplicas


@pytest.mark.parametrize(
    ("owner", "children", "count"),
    [
        pytest.param(BOTH, [x(), g()], 1, id="all are healthy"),
        pytest.param(BOTH, [x(0), g()], 0, id="a PodClique isn't"),
        pytest.param(BOTH, [x(), g(0)], 0, id="a group isn't"),
        pytest.param(BOTH, [x()], 0, id="a group is missing"),
        pytest.param(BOTH, [g()], 0, id="a PodClique is missing"),
        pytest.param(BOTH, [], 0, id="there is nothing"),
        pytest.param(STANDALONE, [x(), made_clique("s-0-y", ready=1)], 1, id="PodCliques alone"),
        pytest.param(GROUPS, [g()], 1, id="groups alone"),
        pytest.param(BOTH, [x(going=True), g()], 0, id="a PodClique is going"),
        pytest.param(BOTH, [x(), g(going=True)], 0, id="a group is going"),
        pytest.param(BOTH, [x(), g(), made_clique("s-1-x", ready=1)], 1, id="more is there than should be"),
    ],
)
def test_a_replica_is_available_when_all_its_parts_are_there_and_have_their_minimum(
    owner: PodCliqueSet, children: list[PodClique | PodCliqueScalingGroup], count: int
) -> None:
    assert available(owner, *children) == count


def test_of_two_replicas_each_counts_by_itself() -> None:
    owner = clique_set("s", clique("x"), replicas=2)
    assert available(owner, made_clique("s-0-x", ready=1), made_clique("s-1-x", ready=0)) == 1


# --- topology


def constraint(required: str = "", preferred: str = "", name: str = "t") -> TopologyConstraint:
    pack = TopologyPackConstraint(required=required or None, preferred=preferred or None)
    return TopologyConstraint(topologyName=name, pack=pack if required or preferred else None)


def binding(*domains: str) -> ClusterTopologyBinding:
    levels = tuple(TopologyLevel(domain=each, key=f"example.test/{each}") for each in domains)
    return ClusterTopologyBinding(metadata=ObjectMeta(name="t"), spec=ClusterTopologyBindingSpec(levels=levels))


def constrained(
    own: TopologyConstraint | None = None,
    of_clique: TopologyConstraint | None = None,
    of_group: TopologyConstraint | None = None,
) -> PodCliqueSet:
    groups = [group("g", "a", topologyConstraint=of_group)]
    return clique_set("s", clique("a", topologyConstraint=of_clique), groups=groups, topologyConstraint=own)


KNOWN = binding("zone", "rack")
AVAILABLE = ("False", "AllClusterTopologyLevelsAvailable")
UNAVAILABLE = ("True", "ClusterTopologyLevelsUnavailable")


@pytest.mark.parametrize(
    ("owner", "known", "enabled", "said"),
    [
        pytest.param(constrained(), None, False, None, id="off, no constraints"),
        pytest.param(
            *(constrained(constraint("zone")), KNOWN, False, ("Unknown", "TopologyAwareSchedulingDisabled")),
            id="off, constraints",
        ),
        pytest.param(constrained(constraint("zone")), KNOWN, True, AVAILABLE, id="all there"),
        pytest.param(constrained(constraint("zone", "rack")), KNOWN, True, AVAILABLE, id="both are there"),
        pytest.param(constrained(constraint("host")), KNOWN, True, UNAVAILABLE, id="required is missing"),
        pytest.param(
            constrained(constraint("zone"), constraint("host")), KNOWN, True, UNAVAILABLE, id="one of some is missing"
        ),
        pytest.param(constrained(constraint("zone", "host")), KNOWN, True, UNAVAILABLE, id="preferred is missing"),
        pytest.param(
            *(constrained(constraint("zone")), None, True, ("Unknown", "ClusterTopologyNotFound")), id="no binding"
        ),
        pytest.param(
            *(constrained(None, constraint("zone", name="")), KNOWN, True, ("Unknown", "TopologyNameMissing")),
            id="no name",
        ),
        pytest.param(constrained(), None, True, AVAILABLE, id="on, no constraints"),
        pytest.param(
            constrained(constraint(), None, constraint("rack")), KNOWN, True, AVAILABLE, id="the set's own says nothing"
        ),
    ],
)
def test_a_set_says_whether_its_words_for_places_mean_something(
    owner: PodCliqueSet, known: ClusterTopologyBinding | None, enabled: bool, said: tuple[str, str] | None
) -> None:
    status = set_status(owner, {}, {}, (), known, topology_aware=enabled, now=CREATED)
    found = find(status.conditions, TOPOLOGY_UNAVAILABLE)
    assert (None if found is None else (found.status, found.reason)) == said


def test_what_was_said_of_topology_goes_when_there_is_nothing_more_to_say() -> None:
    owner = constrained()
    told = condition(TOPOLOGY_UNAVAILABLE, "Unknown")
    owner = replace(owner, status=replace(owner.status, conditions=(told,)))
    assert set_status(owner, {}, {}, (), None, topology_aware=False, now=CREATED).conditions == ()
