"""Gangs whose pods or parts differ are placed wherever they really fit, though KAI's estimates see no room for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bosket.api.core import Node
from bosket.api.kai import SubGroup
from bosket.api.object import KubeObject
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide, open_session
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.plugins.topology import plan
from bosket.scheduler.plugins.topology.class_capacity import ClassCapacity
from bosket.testing.build import PodBuilder, gang, job, node, pod, pod_group, queue, topology, within
from bosket.testing.cluster import NOW, decided, evictions, pipelines, placements, reasons, snapshot_of, state_of
from tests.scheduler import rules

ZONE, RACK, HOST = "zone", "rack", "kubernetes.io/hostname"
LEVELS = topology("t", ZONE, RACK, HOST)


def racks(*racks: Sequence[int], **amounts: Any) -> list[Node]:
    """Nodes n0, n1 … with so many GPUs, rack by rack, in one zone."""
    sizes = [(number, gpus) for number, rack in enumerate(racks) for gpus in rack]
    return [node(f"n{i}", gpus=gpus, zone="a", rack=f"r{rack}", **amounts) for i, (rack, gpus) in enumerate(sizes)]


def mixed(name: str, *gpus: int, level: str = RACK, **group: object) -> list[KubeObject]:
    """A gang that must be in one domain, of pods with so many GPUs each."""
    members = [pod(f"{name}-{i}").gpu(each).of_group(name).build() for i, each in enumerate(gpus)]
    return [pod_group(name, min_member=len(gpus), topology=within("t", level), **group), *members]  # type: ignore[arg-type]


@pytest.mark.parametrize("gpus", [(4, 4, 8), (8, 4, 4), (4, 8, 4)])
def test_two_pods_of_four_gpus_and_one_of_eight_start_on_two_nodes_of_eight(gpus: tuple[int, ...]) -> None:
    found = placements(decided(racks((8, 8), (8, 4)), queue("q"), LEVELS, mixed("g", *gpus)))
    assert sorted(found) == ["g-0", "g-1", "g-2"]
    assert set(found.values()) == {"n0", "n1"}


def test_large_pods_come_first_where_small_ones_would_take_their_nodes() -> None:
    """In KAI's order one pod of 3 GPUs goes where the one of 5 had to be."""
    found = placements(decided(racks((6, 5, 2)), queue("q"), LEVELS, mixed("g", 3, 3, 2, 5)))
    assert found["g-3"] == "n1"
    assert (found["g-0"], found["g-1"], found["g-2"]) == ("n0", "n0", "n2")


def test_a_pod_goes_another_way_where_the_tightest_node_is_wrong() -> None:
    """6 and 5 on nodes of 11 and 6: whoever fills 6 with the 5 has no room for 6, 4 and 2 afterwards."""
    found = placements(decided(racks((11, 6)), queue("q"), LEVELS, mixed("g", 5, 4, 6, 2)))
    assert len(found) == 4


def test_cpu_and_memory_count_too() -> None:
    shapes = {"large": ("6", "60Gi"), "wide": ("2", "4Gi"), "deep": ("2", "40Gi")}
    members = [pod(name).gpu(1).cpu(cpu).memory(memory).of_group("g").build() for name, (cpu, memory) in shapes.items()]
    group = pod_group("g", min_member=3, topology=within("t", RACK))
    found = placements(decided(racks((2, 2), cpu="8", memory="64Gi"), queue("q"), LEVELS, group, members))
    assert found["large"] == found["wide"] != found["deep"]


def test_pods_with_and_without_gpus_on_different_nodes_of_one_rack() -> None:
    nodes = [
        node("gpu", gpus=8, cpu="8", zone="a", rack="r0", kind="gpu"),
        node("cpu", gpus=0, cpu="64", zone="a", rack="r0", kind="cpu"),
        node("other", gpus=8, cpu="64", zone="a", rack="r1", kind="gpu"),
    ]
    members = [
        pod("trainer").gpu(8).cpu("8").only_on("kind", "gpu").of_group("g").build(),
        pod("loader").cpu("32").only_on("kind", "cpu").of_group("g").build(),
    ]
    group = pod_group("g", min_member=2, topology=within("t", RACK))
    assert placements(decided(nodes, queue("q"), LEVELS, group, members)) == {"trainer": "gpu", "loader": "cpu"}


def test_parts_of_gpus_beside_whole_ones() -> None:
    members = [
        *[pod(f"half-{i}").shares_gpu(0.5).of_group("g").build() for i in range(4)],
        pod("whole").gpu(6).of_group("g").build(),
    ]
    group = pod_group("g", min_member=5, topology=within("t", RACK))
    found = placements(decided(racks((7, 1)), queue("q"), LEVELS, group, members))
    assert sorted(found) == ["half-0", "half-1", "half-2", "half-3", "whole"]


def parts(*sizes: int, of: str = RACK, root: str = ZONE) -> list[KubeObject]:
    """A gang in one domain, of parts with so many pods of one GPU that must each be in one narrower domain."""
    subgroups = tuple(
        SubGroup(name=f"p{i}", minMember=size, topologyConstraint=within("t", of)) for i, size in enumerate(sizes)
    )
    group = pod_group("g", subgroups=subgroups, topology=within("t", root))
    return [group, *[each for i, size in enumerate(sizes) for each in gang("g", size, subgroup=f"p{i}")]]


def test_parts_change_racks_so_that_all_have_one() -> None:
    """One after the other, the part of 2 takes the rack of 4, that of 3 the rack of 5, and none is left for 4."""
    found = placements(decided(racks((4,), (5,)), queue("q"), LEVELS, parts(2, 3, 4)))
    assert sorted(name for name, on in found.items() if on == "n0") == [f"g-p2-{i}" for i in range(4)]
    assert len(found) == 9


def test_each_part_may_be_in_the_one_node_of_a_rack() -> None:
    """KAI finds no domain of a level for which there is no choice left inside the domain of the parent."""
    found = placements(decided(racks((4,)), queue("q"), LEVELS, parts(2, 2, root=RACK)))
    assert set(found.values()) == {"n0"}
    assert len(found) == 4


@pytest.mark.parametrize("level", [ZONE, RACK, HOST])
def test_a_level_that_there_is_one_domain_of_is_fulfilled_by_it(level: str) -> None:
    found = placements(decided(racks((4,)), queue("q"), LEVELS, mixed("g", 1, 1, level=level)))
    assert found == {"g-0": "n0", "g-1": "n0"}


def test_a_gang_that_doesnt_fit_in_the_one_domain_is_told_what_it_lacks() -> None:
    reported = reasons(decided(racks((4,)), queue("q"), LEVELS, mixed("g", *[1] * 5, level=ZONE)))["g"]
    assert "4 of 4 GPUs are free, 5 are asked for" in reported


def test_a_gang_that_waits_is_told_how_many_of_its_pods_have_room() -> None:
    """None is counted as the largest: on nodes with 8 and 4 free GPUs, one pod of 8 and one of 4 would start."""
    others = [*racks((8, 8), (8,)), queue("q"), LEVELS, *job("x", gpus=4, on="n1"), *job("y", gpus=2, on="n2")]
    _, decisions = two_cycles(*others, *mixed("g", 8, 5, 3))
    assert "The best is a.r0: 12 of 16 GPUs are free, 16 are asked for" in reasons(decisions)["g"]
    _, decisions = two_cycles(*others, *mixed("g", 5, 5, 1))
    reported = reasons(decisions)["g"]
    assert "The best is a.r0: 12 of 16 GPUs are free, 11 are asked for; it could take 2 of 3 pods." in reported


def test_a_search_ends_when_its_steps_are_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are counted, not time: a gang that would take more of them waits."""
    monkeypatch.setattr(plan, "MOST_STEPS_OF_ALL", 2)
    objects = [*racks((11, 6)), queue("q"), LEVELS]
    assert placements(decided(objects, mixed("g", 5, 4, 6, 2))) == {}
    assert len(placements(decided(objects, mixed("g", 6, 5)))) == 2


def test_what_fits_in_no_domain_is_found_out_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """9 GPUs are free in the rack, and no two nodes have room for pods of 4 beside the one of 5."""

    def search(*_: object) -> None:
        raise AssertionError("a place is searched for")

    monkeypatch.setattr(plan, "NodeRoom", search)
    assert placements(decided(racks((5, 3, 3, 3)), queue("q"), LEVELS, mixed("g", 5, 4, 4))) == {}


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6), st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_a_domain_that_can_hold_a_gang_is_never_ruled_out(places: list[int], gpus: list[int]) -> None:
    """Not before anything is placed, and not by what is kept of sums afterwards."""
    snapshot = snapshot_of(racks(places[:3], places[3:]), queue("q"), LEVELS, mixed("g", *gpus))
    session = open_session(snapshot, Configuration())
    capacity = ClassCapacity(session, snapshot.topologies["t"])
    (job,) = (session.jobs.state(each) for each in snapshot.jobs.values())
    tasks = job.next_tasks()
    free, statement = list(places), Statement(session)
    for number, task in enumerate(tasks):
        left = Counter(each.pod_class for each in tasks[number:])
        holds = capacity.may_hold(left, 2)
        for rack in range(len(holds)):
            rows = [row for row in range(len(places)) if row // 3 == rack]
            sizes = [int(each.pod_class.charge[0]) for each in tasks[number:]]
            assert holds[rack] or not fits_on([free[row] for row in rows], sizes)
        row = next((row for row, there in enumerate(free) if there >= task.pod_class.charge[0]), None)
        if row is None:
            return
        statement.allocate(job, task, NodeRow(row))
        free[row] -= int(task.pod_class.charge[0])


def fits_on(free: list[int], sizes: list[int]) -> bool:
    if not sizes:
        return True
    return any(
        each >= sizes[0] and fits_on([*free[:i], each - sizes[0], *free[i + 1 :]], sizes[1:])
        for i, each in enumerate(free)
    )


# Cycle by cycle


def two_cycles(*objects: KubeObject) -> tuple[Decisions, Decisions]:
    """Two cycles on the same cluster: nothing of what the first decides is carried out, but it is remembered."""
    state = state_of(objects)
    first = decide(state.snapshot(NOW), Configuration())
    state.remember(first, NOW)
    return first, decide(state.snapshot(NOW), Configuration())


def test_whom_kai_serves_is_served_in_the_first_cycle_and_the_next_one_goes_by_order() -> None:
    """At first the gang takes what others leave; then it comes before those that are younger."""
    waiting = [*mixed("g", 4, 4, 8, created=1), *job("later", 1, gpus=4, created=2)]
    first, second = two_cycles(*racks((8, 8)), queue("q"), LEVELS, *waiting)
    assert list(placements(first)) == ["later-0"]
    assert first.look_again_at == NOW
    assert sorted(placements(second)) == ["g-0", "g-1", "g-2"]
    assert second.look_again_at > NOW


def test_others_are_evicted_for_it_from_the_second_cycle_on() -> None:
    others = [*job("x", 2, gpus=8, on=["n0", "n1"], queue="poor"), *job("y", gpus=8, on="n2", queue="poor")]
    queues = [queue("poor", quota=0, weight=0), queue("q", quota=16)]
    first, second = two_cycles(*racks((8, 8), (8,)), *queues, LEVELS, *others, *mixed("g", 4, 8, 4))
    assert evictions(first) == {}
    assert set(evictions(second)) == {"x-0", "x-1"}
    assert set(pipelines(second).values()) == {"n0", "n1"}


def test_what_a_gang_lost_is_won_back_for_it_though_the_whole_of_it_has_no_room() -> None:
    """Of a gang of 2 x 4 and 1 x 8 the large pod waits; a job of a poor queue is on its node."""
    members = [
        *[pod(f"g-{i}").gpu(4).of_group("g").running_on("n0").build() for i in range(2)],
        pod("g-2").gpu(8).of_group("g").build(),
    ]
    group = pod_group("g", min_member=3, topology=within("t", RACK), staleness_grace="-1s")
    first, second = two_cycles(
        *racks((8, 8), (8,)),
        queue("poor", quota=0, weight=0),
        queue("q", quota=16),
        LEVELS,
        *job("x", gpus=8, on="n1", queue="poor"),
        *job("y", gpus=8, on="n2", queue="poor"),
        group,
        *members,
    )
    assert evictions(first) == {}
    assert list(evictions(second)) == ["x-0"]
    assert pipelines(second) == {"g-2": "n1"}


def test_one_that_is_too_large_for_every_domain_makes_no_further_cycles() -> None:
    first, _ = two_cycles(*racks((8, 8)), queue("q"), LEVELS, *mixed("g", 4, 8, 8))
    assert first.look_again_at > NOW
    assert not first.passed_over


def test_equal_pods_are_left_to_kais_way() -> None:
    """It is right about them: a gang of such pods is no reason for a second look."""
    first, _ = two_cycles(*racks((8, 8)), queue("q"), LEVELS, *job("x", gpus=8, on="n0"), *mixed("g", 8, 8))
    assert not first.passed_over


# Against an exhaustive search


@dataclass(frozen=True)
class Shape:
    """What a pod asks for: GPUs, some of them as quarters of one, cores, and whether it wants a node of kind `b`."""

    gpus: int
    quarters: int
    cores: int
    picky: bool

    def pod(self, name: str, subgroup: str) -> PodBuilder:
        made = pod(name).of_group("g", subgroup).cpu(str(self.cores))
        made = made.gpu(self.gpus) if self.gpus else made
        made = made.shares_gpu(self.quarters / 4) if self.quarters else made
        return made.only_on("kind", "b") if self.picky else made


@dataclass(frozen=True)
class Place:
    """A node: GPUs, cores, kind, rack."""

    gpus: int
    cores: int
    kind: str
    rack: int


WHOLE = st.builds(Shape, st.integers(1, 5), st.just(0), st.integers(1, 4), st.just(value=False))
SHAPES = st.one_of(
    WHOLE,
    st.builds(Shape, st.just(0), st.sampled_from([1, 2]), st.integers(0, 2), st.just(value=False)),
    st.builds(Shape, st.integers(0, 3), st.just(0), st.integers(1, 6), st.booleans()),
)
PLACES = st.builds(Place, st.integers(0, 8), st.integers(4, 12), st.sampled_from("aab"), st.integers(0, 2))


def takes(place: Place, shapes: Sequence[Shape]) -> bool:
    """Whether a node has room for all of these; quarters and halves of GPUs leave no gaps."""
    if any(shape.picky for shape in shapes) and place.kind != "b":
        return False
    gpus = sum(shape.gpus for shape in shapes) + -(-sum(shape.quarters for shape in shapes) // 4)
    return gpus <= place.gpus and sum(shape.cores for shape in shapes) <= place.cores


def fits(places: Sequence[Place], parts: Sequence[tuple[str, Sequence[Shape]]]) -> bool:
    """Whether all parts can be in the nodes of one zone, each in one domain of its level, by trying everything."""
    shapes = [(number, shape) for number, (_, shapes) in enumerate(parts) for shape in shapes]
    for homes in product(range(len(places)), repeat=len(shapes)):
        if all(
            len({_domain(level, home, places) for (part, _), home in zip(shapes, homes, strict=True) if part == number})
            == 1
            for number, (level, _) in enumerate(parts)
        ) and all(
            takes(place, [shape for (_, shape), home in zip(shapes, homes, strict=True) if home == number])
            for number, place in enumerate(places)
        ):
            return True
    return False


def _domain(level: str, home: int, places: Sequence[Place]) -> object:
    return {ZONE: 0, RACK: places[home].rack, HOST: home}[level]


def cluster(places: Sequence[Place]) -> list[KubeObject]:
    nodes = [
        node(f"n{i}", gpus=each.gpus, cpu=str(each.cores), zone="a", rack=f"r{each.rack}", kind=each.kind)
        for i, each in enumerate(places)
    ]
    return [*nodes, queue("q"), LEVELS]


def is_whole(objects: Sequence[KubeObject], count: int) -> bool:
    """Whether so many pods start; whatever is decided keeps the rules."""
    snapshot = snapshot_of(objects)
    decisions = decide(snapshot, Configuration())
    assert [broken for rule in rules.ALL for broken in rule(snapshot, decisions)] == []
    assert len(placements(decisions)) in (0, count)
    return bool(placements(decisions))


@given(
    st.lists(PLACES, min_size=1, max_size=4), st.lists(SHAPES, min_size=1, max_size=5), st.sampled_from([ZONE, RACK])
)
def test_a_gang_is_placed_where_an_exhaustive_search_finds_room(
    places: list[Place], shapes: list[Shape], level: str
) -> None:
    members = [shape.pod(f"g-{i}", "").build() for i, shape in enumerate(shapes)]
    group = pod_group("g", min_member=len(members), topology=within("t", level))
    assert is_whole([*cluster(places), group, *members], len(members)) == fits(places, [(level, shapes)])


@given(
    st.lists(PLACES, min_size=1, max_size=4),
    st.lists(
        st.tuples(st.sampled_from([ZONE, RACK, HOST]), st.lists(SHAPES, min_size=1, max_size=2)), min_size=1, max_size=3
    ).filter(lambda parts: sum(len(shapes) for _, shapes in parts) <= 5),
)
def test_parts_are_placed_where_an_exhaustive_search_finds_room(
    places: list[Place], parts: list[tuple[str, list[Shape]]]
) -> None:
    subgroups = tuple(
        SubGroup(name=f"p{i}", minMember=len(shapes), topologyConstraint=within("t", level))
        for i, (level, shapes) in enumerate(parts)
    )
    members = [
        shape.pod(f"g-{i}-{k}", f"p{i}").build()
        for i, (_, shapes) in enumerate(parts)
        for k, shape in enumerate(shapes)
    ]
    group = pod_group("g", subgroups=subgroups, topology=within("t", ZONE))
    assert is_whole([*cluster(places), group, *members], len(members)) == fits(places, parts)
