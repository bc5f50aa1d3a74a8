"""Gangs and their parts close together: required and preferred levels, nested, and what is said when it can't be."""

from __future__ import annotations

import pytest

from bosket.api.core import Node
from bosket.api.kai import SubGroup, TopologyConstraint
from bosket.api.object import KubeObject
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.testing.build import gang, job, node, pod, pod_group, queue, topology, within
from bosket.testing.cluster import decided, evictions, pipelines, placements, reasons, snapshot_of

ZONE, RACK = "zone", "rack"


def racks(*gpus: tuple[str, str, int]) -> list[Node]:
    """Nodes n0, n1 … in (zone, rack, GPUs)."""
    return [node(f"n{i}", gpus=count, zone=zone, rack=rack) for i, (zone, rack, count) in enumerate(gpus)]


TWO_RACKS = racks(("a", "r1", 2), ("a", "r1", 1), ("a", "r2", 2), ("a", "r2", 2))


def constrained(name: str, size: int, constraint: TopologyConstraint) -> list[KubeObject]:
    return [pod_group(name, min_member=size, topology=constraint), *gang(name, size)]


def test_a_gang_goes_into_one_rack() -> None:
    decisions = decided(TWO_RACKS, queue("q"), topology("t", ZONE, RACK), constrained("g", 4, within("t", RACK)))
    assert set(placements(decisions).values()) == {"n2", "n3"}


def test_the_fullest_rack_that_fits_is_taken() -> None:
    decisions = decided(TWO_RACKS, queue("q"), topology("t", ZONE, RACK), constrained("g", 3, within("t", RACK)))
    assert set(placements(decisions).values()) == {"n0", "n1"}


def test_a_gang_that_fits_in_no_rack_waits_and_is_told_what_racks_lack() -> None:
    decisions = decided(TWO_RACKS, queue("q"), topology("t", ZONE, RACK), constrained("g", 5, within("t", RACK)))
    assert placements(decisions) == {}
    reported = reasons(decisions)["g"]
    assert "node-group a.r1 can allocate only 3 of 5 required pods" in reported
    assert "node-group a.r2 can allocate only 4 of 5 required pods" in reported
    assert "topology t, requirement rack couldn't be satisfied for job <default/g>" in reported
    best = "The best is a.r2: 4 of 4 GPUs are free, 5 are asked for; it could take 4 of 5 pods."
    assert reported.startswith(f"None of 2 domains of level rack can hold the pods together. {best}")


def test_of_many_domains_only_some_are_named() -> None:
    nodes = racks(*(("a", f"r{i:03}", 1) for i in range(200)))
    decisions = decided(nodes, queue("q"), topology("t", ZONE, RACK), constrained("g", 2, within("t", RACK)))
    reported = reasons(decisions)["g"]
    assert reported.startswith("None of 200 domains of level rack")
    assert "and 190 other domains that can't either" in reported
    assert len(reported) < 1500


def test_a_gang_too_large_for_the_cluster_is_told_what_there_is() -> None:
    decisions = decided(TWO_RACKS, queue("q"), topology("t", ZONE, RACK), constrained("g", 9, within("t", ZONE, RACK)))
    reported = reasons(decisions)["g"]
    assert "not enough resources in a to allocate the job" in reported
    assert reported.startswith("All in all 7 of 7 GPUs are free, 9 are asked for.")


def test_a_preferred_rack_is_left_where_it_is_too_small() -> None:
    decisions = decided(TWO_RACKS, queue("q"), topology("t", ZONE, RACK), constrained("g", 5, within("t", ZONE, RACK)))
    assert len(placements(decisions)) == 5


def test_sub_groups_have_racks_of_their_own_in_one_zone() -> None:
    nodes = racks(("a", "r1", 4), ("b", "r1", 4), ("b", "r2", 4))
    subgroups = tuple(SubGroup(name=name, minMember=4, topologyConstraint=within("t", RACK)) for name in ("x", "y"))
    decisions = decided(
        nodes,
        queue("q"),
        topology("t", ZONE, RACK),
        pod_group("g", subgroups=subgroups, topology=within("t", ZONE)),
        [*gang("g", 4, subgroup="x"), *gang("g", 4, subgroup="y")],
    )
    found = placements(decisions)
    assert {found[f"g-x-{i}"] for i in range(4)} | {found[f"g-y-{i}"] for i in range(4)} == {"n1", "n2"}
    assert len({found[f"g-x-{i}"] for i in range(4)}) == 1


def test_each_segment_of_a_job_has_a_rack_of_its_own() -> None:
    """As the pod grouper makes them: a parent that asks for all of its segments, and these for a rack each."""
    segments = (
        SubGroup(name=f"worker-{i}", parent="worker", minMember=2, topologyConstraint=within("t", RACK))
        for i in range(3)
    )
    decisions = decided(
        racks(("a", "r1", 2), ("a", "r2", 3), ("b", "r3", 1), ("b", "r3", 1)),
        queue("q"),
        topology("t", ZONE, RACK),
        pod_group("g", subgroups=(SubGroup(name="worker", minSubGroup=3), *segments)),
        [each for i in range(3) for each in gang("g", 2, subgroup=f"worker-{i}")],
    )
    rack_of = {"n0": "r1", "n1": "r2", "n2": "r3", "n3": "r3"}
    found = placements(decisions)
    homes = [{rack_of[found[f"g-worker-{i}-{number}"]] for number in range(2)} for i in range(3)]
    assert sorted(homes, key=sorted) == [{"r1"}, {"r2"}, {"r3"}]


def test_extras_join_the_rack_where_the_others_are() -> None:
    decisions = decided(
        TWO_RACKS,
        queue("q"),
        topology("t", ZONE, RACK),
        pod_group("g", min_member=1, topology=within("t", RACK)),
        gang("g", 3, on=["n1"]),
    )
    assert set(placements(decisions).values()) == {"n0"}


def test_a_level_goes_by_its_other_name_too() -> None:
    decisions = decided(
        TWO_RACKS,
        queue("q"),
        topology("t", ZONE, RACK, aliases={RACK: "cabinet"}),
        constrained("g", 4, within("t", "cabinet")),
    )
    assert set(placements(decisions).values()) == {"n2", "n3"}


def test_where_all_nodes_are_in_one_rack_it_is_taken_if_racks_are_preferred() -> None:
    nodes = racks(("a", "r1", 2), ("a", "r1", 2))
    decisions = decided(nodes, queue("q"), topology("t", ZONE, RACK), constrained("g", 4, within("t", ZONE, RACK)))
    assert len(placements(decisions)) == 4


def test_a_sub_group_that_comes_later_isnt_bound_to_where_others_are_as_in_kai() -> None:
    subgroups = (SubGroup(name="x", minMember=1), SubGroup(name="y", minMember=1))
    decisions = decided(
        racks(("a", "r1", 1), ("b", "r2", 1)),
        queue("q"),
        topology("t", ZONE, RACK),
        pod_group("g", subgroups=subgroups, min_subgroup=1, topology=within("t", ZONE)),
        gang("g", 1, subgroup="x", on=["n0"]),
        gang("g", 1, subgroup="y"),
    )
    assert placements(decisions) == {"g-y-0": "n1"}


def test_a_gang_that_needs_a_rack_has_others_evicted_in_one_rack() -> None:
    decisions = decided(
        racks(("a", "r1", 2), ("a", "r2", 2)),
        [queue("poor", quota=0), queue("q", quota=2)],
        topology("t", ZONE, RACK),
        [*job("x", on="n0", queue="poor"), *job("y", on="n0", queue="poor")],
        [*job("v", on="n1", queue="poor"), *job("w", on="n1", queue="poor")],
        constrained("g", 2, within("t", RACK)),
    )
    assert len(evictions(decisions)) == 2
    assert len({node for name, node in pipelines(decisions).items() if name.startswith("g-")}) == 1


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (within("nowhere", RACK), "topology: there is no Topology 'nowhere'; there are t."),
        (
            within("t", "row"),
            "requiredTopologyLevel: 'row' isn't a level of Topology 't' that will do; it may be zone, rack.",
        ),
        (
            within("t", RACK, ZONE),
            "preferredTopologyLevel: 'zone' isn't a level of Topology 't' that will do; it may be rack.",
        ),
        (within("t"), "names topology t, and no level of it"),
    ],
)
def test_a_constraint_that_cannot_be_followed_is_named_and_others_go_on(
    constraint: TopologyConstraint, text: str
) -> None:
    decisions = decided(
        TWO_RACKS, queue("q"), topology("t", ZONE, RACK), constrained("bad", 1, constraint), job("good")
    )
    assert list(placements(decisions)) == ["good-0"]
    assert text in reasons(decisions)["bad"]
    assert "PodGroup default/bad: spec.topologyConstraint" in reasons(decisions)["bad"]


def test_the_sub_group_whose_constraint_is_wrong_is_named() -> None:
    subgroups = (
        SubGroup(name="x", minMember=1),
        SubGroup(name="y", minMember=1, topologyConstraint=within("t", "row")),
    )
    decisions = decided(
        TWO_RACKS,
        queue("q"),
        topology("t", ZONE, RACK),
        pod_group("g", subgroups=subgroups),
        [*gang("g", 1, subgroup="x"), *gang("g", 1, subgroup="y")],
    )
    assert "PodGroup default/g: spec.subGroups[y].topologyConstraint.requiredTopologyLevel" in reasons(decisions)["g"]


def test_where_no_node_has_the_labels_of_all_levels_they_are_named() -> None:
    decisions = decided(TWO_RACKS, queue("q"), topology("t", ZONE, "row"), constrained("g", 1, within("t", "row")))
    assert "no node has the labels of all its levels: zone, row" in reasons(decisions)["g"]


def test_levels_that_cross_make_a_domain_of_each_pair() -> None:
    nodes = racks(("a", "r1", 1), ("b", "r1", 1))
    decisions = decided(nodes, queue("q"), topology("t", ZONE, RACK), constrained("g", 2, within("t", RACK)))
    assert "None of 2 domains of level rack" in reasons(decisions)["g"]


def test_nodes_without_all_labels_are_outside() -> None:
    nodes = [node("inside", gpus=1, zone="a", rack="r1"), node("outside", gpus=8, zone="a")]
    decisions = decided(nodes, queue("q"), topology("t", ZONE, RACK), constrained("g", 2, within("t", ZONE)))
    assert placements(decisions) == {}


def test_pods_that_differ_are_counted_by_what_they_ask_for_together() -> None:
    members = [pod("g-0").of_group("g").gpu(2).build(), pod("g-1").of_group("g").cpu("1").build()]
    snapshot = snapshot_of(
        racks(("a", "r1", 1), ("a", "r2", 1)),
        queue("q"),
        topology("t", ZONE, RACK),
        pod_group("g", min_member=2, topology=within("t", RACK)),
        members,
    )
    assert "didn't have enough resources" in reasons(decide(snapshot, Configuration()))["g"]


@pytest.mark.parametrize("constraint", [within("t", "row"), within("t", RACK, ZONE), within("t")])
@pytest.mark.parametrize(("size", "codes"), [(4, [""]), (8, ["PodSchedulingErrors"])])
def test_a_level_that_cannot_be_followed_has_a_code_only_where_there_is_no_room_as_in_kai(
    constraint: TopologyConstraint, size: int, codes: list[str]
) -> None:
    decisions = decided(TWO_RACKS, queue("q"), topology("t", ZONE, RACK), constrained("bad", size, constraint))
    assert [reason.code for waiting in decisions.waiting for reason in waiting.reasons] == codes
