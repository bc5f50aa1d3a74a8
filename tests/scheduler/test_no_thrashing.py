"""What was freed for a job is kept for it, and nobody takes a place back in turn."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bosket.api.core import Node, Pod
from bosket.api.kai import PodGroup, Queue, Topology
from bosket.api.object import KubeObject, ObjectKey
from bosket.api.scheduling_k8s import PriorityClass
from bosket.api.time import format_time
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.model.bind_request import bind_request_for
from bosket.scheduler.model.decisions import Decisions, Pipeline
from bosket.scheduler.model.nomination import PATIENCE_SECONDS
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.own.memory import Commitments
from bosket.scheduler.state.own.preemption_history import REMEMBERED_SECONDS
from bosket.testing.build import gang, node, pod, pod_group, priority_class, queue, topology
from bosket.testing.cluster import NOW, drop_named, state_of
from tests.present import present
from tests.scheduler.longrun import follow

pytestmark = pytest.mark.slow

#: How many random clusters are followed; `python -m benchmarks longrun` follows thousands.
CLUSTERS = int(os.environ.get("BOSKET_LONGRUN_CLUSTERS", "40"))

PRIORITIES = [priority_class("low", 10), priority_class("middle", 50), priority_class("high", 90)]


def key(name: str) -> ObjectKey:
    return ObjectKey("default", name)


def running(name: str, gpus: int, on: str = "n1", count: int = 1) -> list[Pod]:
    return [pod(f"{name}-{i}").of_group(name).gpu(gpus).running_on(on).build() for i in range(count)]


def cycle(state: ClusterState, now: float = NOW) -> Decisions:
    """A cycle whose decisions count at once, as the live scheduler has it."""
    decisions = decide(state.snapshot(now), Configuration())
    for bind in decisions.lasting_binds:
        state.own.assume_bind_request(bind_request_for(bind))
    for each in decisions.lasting_evictions:
        state.own.assume_eviction(each.task.key, each.task.pod.metadata.uid, now)
    state.remember(decisions, now)
    return decisions


def evicted(decisions: Decisions) -> list[str]:
    return sorted(each.task.key.name for each in decisions.lasting_evictions)


def bound(decisions: Decisions) -> dict[str, str]:
    return {each.task.key.name: each.node for each in decisions.lasting_binds}


def waits_for(decisions: Decisions) -> dict[str, str]:
    return {task.key.name: end.node for task, end in decisions.outcome.items() if isinstance(end, Pipeline)}


def preemption(*more: KubeObject) -> ClusterState:
    """`high` takes the place of `low` on the only node."""
    return state_of(
        [
            node("n1", gpus=1),
            queue("q"),
            queue("a"),
            *PRIORITIES,
            pod_group("low", priority="low"),
            *running("low", 1),
            pod_group("high", priority="high"),
            *gang("high", 1),
            *more,
        ]
    )


# ── nominations ──


def test_room_that_was_made_for_a_job_is_not_given_to_one_that_goes_before_it() -> None:
    state = preemption()
    assert evicted(cycle(state)) == ["low-0"]
    state.put(pod_group("other", queue="a", priority="low"))  # its queue holds nothing, so it would go first
    state.put(gang("other", 1)[0])
    drop_named(state, Pod, "low-0")
    assert bound(cycle(state)) == {"high-0": "n1"}


def test_without_the_nomination_the_other_job_would_have_gone_first() -> None:
    state = preemption(pod_group("other", queue="a", priority="low"), *gang("other", 1))
    drop_named(state, Pod, "low-0")
    assert bound(cycle(state)) == {"other-0": "n1"}


def test_a_job_keeps_its_nomination_while_its_victims_leave() -> None:
    state = preemption()
    cycle(state)
    for seconds in range(1, 100):
        decisions = cycle(state, NOW + seconds)
        assert (evicted(decisions), waits_for(decisions)) == ([], {"high-0": "n1"})


def test_an_elastic_job_gets_all_that_was_promised_to_it_its_extras_too() -> None:
    """Its gang of one takes a place in the first cycle, an extra another one in the second; then both are free."""
    state = state_of(
        [
            node("n1", gpus=2),
            queue("q"),
            queue("a"),
            *PRIORITIES,
            *(pod_group(name, priority="low") for name in ("low", "poor")),
            *running("low", 1),
            *running("poor", 1),
            pod_group("grows", min_member=1, priority="high"),
            *gang("grows", 2),
        ]
    )
    assert len(evicted(cycle(state))) == 1
    assert len(evicted(cycle(state))) == 1
    state.put(pod_group("other", queue="a", min_member=2, priority="low"))
    for each in gang("other", 2):
        state.put(each)
    for name in ("low-0", "poor-0"):
        drop_named(state, Pod, name)
    assert bound(cycle(state)) == {"grows-0": "n1", "grows-1": "n1"}


def test_a_nomination_ends_some_time_after_the_victims_are_gone() -> None:
    state = preemption()
    cycle(state)
    drop_named(state, Pod, "low-0")
    assert len(state.snapshot(NOW + 1).nominations) == 1
    assert len(state.snapshot(NOW + PATIENCE_SECONDS).nominations) == 1
    assert state.snapshot(NOW + 1 + PATIENCE_SECONDS).nominations == ()


def test_a_nomination_ends_when_its_job_is_another_one_or_gone() -> None:
    for change in (
        lambda state: drop_named(state, PodGroup, "high"),
        lambda state: drop_named(state, Pod, "high-0"),
        lambda state: state.put(_edited(pod_group("high", priority="high", queue="a"))),
    ):
        state = preemption()
        cycle(state)
        assert len(state.snapshot(NOW).nominations) == 1
        change(state)
        assert state.snapshot(NOW).nominations == ()


def _edited(group: PodGroup) -> PodGroup:
    return msgspec.structs.replace(group, metadata=msgspec.structs.replace(group.metadata, generation=2))


def test_a_nomination_ends_when_its_victim_stays() -> None:
    state = preemption()
    cycle(state)
    state.own.refuse_eviction(key("low-0"), "uid-low-0", NOW, "PodDisruptionBudget default/keep")
    assert state.snapshot(NOW).nominations == ()
    assert evicted(cycle(state)) == []


def test_one_with_a_better_right_takes_the_nomination_over_without_another_eviction() -> None:
    state = preemption()
    cycle(state)
    state.put(priority_class("highest", 95))
    state.put(pod_group("first", priority="highest"))
    state.put(gang("first", 1)[0])
    decisions = cycle(state)
    assert (evicted(decisions), waits_for(decisions)) == ([], {"first-0": "n1"})
    drop_named(state, Pod, "low-0")
    assert bound(cycle(state)) == {"first-0": "n1"}


def test_a_nomination_is_over_when_another_pod_of_its_job_loses_the_place() -> None:
    state = preemption()
    cycle(state)
    state.put(pod("earlier").of_group("high").gpu(1).build())  # goes before the one that was promised the place
    assert waits_for(cycle(state)) == {"earlier": "n1"}
    state.put(priority_class("highest", 95))
    state.put(pod_group("first", priority="highest"))
    state.put(gang("first", 1)[0])
    assert waits_for(cycle(state)) == {"first-0": "n1"}
    assert [nomination.job.name for nomination in state.snapshot(NOW + 1).nominations] == ["first"]


def test_a_place_that_another_job_takes_in_the_same_cycle_is_not_bound_and_the_next_cycle_settles_it() -> None:
    """`rich` gets the idle GPU in its turn, `poor` renominations it together with one that `rich` holds."""
    state = state_of(
        [
            node("n1", gpus=2),
            queue("a", quota=0),
            queue("b", quota=2),
            pod_group("rich", queue="a"),
            *running("rich", 1),
            pod("rich-1").of_group("rich").gpu(1).build(),
            pod_group("poor", queue="b"),
            pod("poor-0").of_group("poor").gpu(2).build(),
        ]
    )
    decisions = cycle(state)
    assert {each.task.key.name for each in decisions.binds} == {"rich-1"}
    assert (bound(decisions), evicted(decisions)) == ({}, ["rich-0"])
    drop_named(state, Pod, "rich-0")
    assert bound(cycle(state)) == {"poor-0": "n1"}


def test_a_gang_that_loses_one_of_its_new_places_is_not_started_in_part() -> None:
    state = state_of([node("n1", gpus=2), queue("q"), pod_group("g", min_member=2), *gang("g", 2)])
    decisions = decide(state.snapshot(NOW), Configuration())
    first, second = decisions.binds
    changed = type(decisions)(
        operations=(*decisions.operations, Pipeline(second.task, second.job, "n2", "consolidation"))
    )
    assert changed.lasting_binds == ()
    assert decisions.lasting_binds == (first, second)


def test_what_is_moved_finds_its_new_place_kept_until_it_is_back() -> None:
    """`big` needs a whole node: `small` moves to the other one, where a newcomer would like to go as well."""
    state = state_of(
        [
            node("n1", gpus=4),
            node("n2", gpus=4),
            queue("q"),
            queue("a"),
            pod_group("fixed"),
            *running("fixed", 3, on="n1"),
            pod_group("small"),
            *running("small", 1, on="n2"),
            pod_group("big"),
            pod("big-0").of_group("big").gpu(4).build(),
        ]
    )
    decisions = cycle(state)
    assert [(each.task.key.name, each.moves_to) for each in decisions.evictions] == [("small-0", "n1")]
    assert waits_for(decisions) == {"small-0": "n1", "big-0": "n2"}
    state.put(pod_group("newcomer", queue="a"))
    state.put(gang("newcomer", 1)[0])
    assert bound(cycle(state)) == {}, "the newcomer took the place that small was to have"
    drop_named(state, Pod, "small-0")
    assert bound(cycle(state)) == {"big-0": "n2"}
    state.put(pod("small-1").of_group("small").gpu(1).build())
    assert bound(cycle(state)) == {"small-1": "n1"}


def test_a_place_is_not_kept_for_ever_for_pods_that_do_not_come_back() -> None:
    state = state_of(
        [
            node("n1", gpus=4),
            node("n2", gpus=4),
            queue("q"),
            pod_group("fixed"),
            *running("fixed", 3, on="n1"),
            pod_group("small"),
            *running("small", 1, on="n2"),
            pod_group("big"),
            pod("big-0").of_group("big").gpu(4).build(),
        ]
    )
    cycle(state)
    drop_named(state, Pod, "small-0")
    state.put(pod_group("newcomer"))
    state.put(gang("newcomer", 1)[0])
    state.put(pod("big-0").of_group("big").gpu(4).running_on("n2").build())
    assert bound(cycle(state, NOW + 1)) == {}
    assert bound(cycle(state, NOW + 1 + PATIENCE_SECONDS)) == {"newcomer-0": "n1"}


# ── nobody takes it back ──


def quarrel() -> ClusterState:
    """`preemptor` is entitled to the GPU that `victim` has."""
    return state_of(
        [
            node("n1", gpus=1),
            queue("a", quota=0),
            queue("b", quota=1),
            *PRIORITIES,
            pod_group("preemptor", queue="b"),
            *gang("preemptor", 1),
            pod_group("victim", queue="a"),
            *running("victim", 1),
        ]
    )


def swapped(state: ClusterState) -> ClusterState:
    """Both have what the other had."""
    assert evicted(cycle(state)) == ["victim-0"]
    drop_named(state, Pod, "victim-0")
    state.put(running("preemptor", 1)[0])
    state.put(pod("victim-1").of_group("victim").gpu(1).build())
    return state


def test_preemptions_are_remembered() -> None:
    snapshot = swapped(quarrel()).snapshot(NOW + 1)
    assert snapshot.preempted_by == {key("victim"): {key("preemptor")}}


@pytest.mark.parametrize("preemptors", [{"a": "c"}, {"a": "b", "b": "c"}], ids=["directly", "through others"])
def test_a_job_does_not_preempt_a_job_that_preempted_it(preemptors: Mapping[str, str]) -> None:
    """By priority `a` could have the GPU of `c`."""
    state = state_of([node("n1", gpus=1), queue("q"), *PRIORITIES, pod_group("a", priority="high"), *gang("a", 1)])
    state.put(pod_group("c", priority="low"))
    state.put(running("c", 1)[0])
    pairs = tuple((key(job), (key(other),)) for job, other in preemptors.items())
    state.own.commit(Commitments(preempted_by=pairs), NOW)
    assert evicted(cycle(state, NOW)) == []
    assert evicted(cycle(state, NOW + REMEMBERED_SECONDS)) == ["c-0"]


def test_the_right_turns_with_the_queues() -> None:
    state = swapped(quarrel())
    state.put(queue("a", quota=1))
    state.put(queue("b", quota=0))
    assert evicted(cycle(state, NOW + 1)) == ["preemptor-0"]


def test_a_change_of_a_queues_status_is_no_change_of_its_right() -> None:
    state = swapped(quarrel())
    seen = queue("a", quota=0)
    state.put(msgspec.structs.replace(seen, metadata=msgspec.structs.replace(seen.metadata, resourceVersion="9")))
    assert state.snapshot(NOW + 1).preempted_by


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.put(priority_class("low", 10)),
        lambda state: state.put(node("n1", gpus=1)),
        lambda state: state.put(topology("zones", "zone")),
        lambda state: state.put(pod_group("preemptor", queue="b")),
        lambda state: drop_named(state, PriorityClass, "unknown"),
        lambda state: drop_named(state, Topology, "unknown"),
        lambda state: drop_named(state, Queue, "unknown"),
        lambda state: drop_named(state, Node, "unknown"),
    ],
    ids=["priority", "node", "topology", "job", "no priority", "no topology", "no queue", "no node"],
)
def test_what_is_told_twice_is_no_change(change: Callable[..., Any]) -> None:
    state = quarrel()
    state.put(topology("zones", "zone"))
    swapped(state)
    change(state)
    assert state.snapshot(NOW + 1).preempted_by


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.put(priority_class("low", 11)),
        lambda state: state.put(node("n1", gpus=2)),
        lambda state: state.put(topology("zones", "zone", "rack")),
        lambda state: state.put(pod_group("preemptor", queue="b", priority="low")),
        lambda state: drop_named(state, PriorityClass, "low"),
        lambda state: drop_named(state, Topology, "zones"),
        lambda state: drop_named(state, Queue, "a"),
        lambda state: drop_named(state, Node, "n1"),
    ],
    ids=["priority", "node", "topology", "job", "no priority", "no topology", "no queue", "no node"],
)
def test_what_is_remembered_is_void_when_the_situation_is_another_one(change: Callable[..., Any]) -> None:
    state = quarrel()
    state.put(topology("zones", "zone"))
    swapped(state)
    change(state)
    assert state.snapshot(NOW + 1).preempted_by == {}


def test_what_is_remembered_of_a_job_goes_with_it() -> None:
    state = swapped(quarrel())
    drop_named(state, PodGroup, "preemptor")
    assert state.snapshot(NOW + 1).preempted_by == {}


def test_with_a_job_goes_what_stood_between_others_because_of_it() -> None:
    """`b` took the place of `a`, and `c` that of `b`; when `b` ends, its queue has room for `a`, at the cost of `c`."""
    state = state_of([node("n1", gpus=1), queue("q"), *PRIORITIES, pod_group("a", priority="high"), *gang("a", 1)])
    for each in (pod_group("b"), pod_group("c", priority="low"), running("c", 1)[0]):
        state.put(each)
    state.own.commit(Commitments(preempted_by=((key("a"), (key("b"),)), (key("b"), (key("c"),)))), NOW)
    assert evicted(cycle(state)) == []
    drop_named(state, PodGroup, "b")
    assert evicted(cycle(state)) == ["c-0"]


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_preemptions_are_remembered_longer_each_time(rounds: int) -> None:
    state = swapped(quarrel())
    history = state._preemptions
    decisions = decide(quarrel().snapshot(NOW), Configuration())
    now = NOW
    for _ in range(rounds - 1):
        history._came_back.add(key("victim"))
        now += 1
        history.record(decisions, now)
    seconds = REMEMBERED_SECONDS * 2 ** (rounds - 1)
    assert history.preempted_by(now + seconds - 1)
    assert not history.preempted_by(now + seconds)


def test_where_shares_depend_on_past_usage_the_time_does_not_grow() -> None:
    state = swapped(quarrel())
    history = state._preemptions
    back = decide(_turned(), Configuration())
    assert [(each.job.key.name, present(each.preemptor).key.name) for each in back.evictions] == [
        ("preemptor", "victim")
    ]
    again = decide(quarrel().snapshot(NOW), Configuration())
    for decisions in (back, again):
        history.record(decisions, NOW + REMEMBERED_SECONDS, usage_based=True)
    assert not history.preempted_by(NOW + 2 * REMEMBERED_SECONDS)


def _turned() -> Snapshot:
    """The same two jobs, with the rights of their queues the other way round."""
    state = swapped(quarrel())
    state.put(queue("a", quota=1))
    state.put(queue("b", quota=0))
    return state.snapshot(NOW)


# ── own writes count until they are seen ──


def test_an_eviction_counts_from_its_decision_until_it_is_seen_or_withdrawn() -> None:
    state = preemption()
    cycle(state)
    (task,) = state.snapshot(NOW).jobs[key("low")].tasks
    assert task.status.name == "RELEASING"
    state.put(running("low", 1)[0])  # an old word about it
    (task,) = state.snapshot(NOW).jobs[key("low")].tasks
    assert task.status.name == "RELEASING"
    state.own.withdraw_eviction(key("low-0"))
    (task,) = state.snapshot(NOW).jobs[key("low")].tasks
    assert task.status.name == "RUNNING"


def test_another_pod_of_that_name_is_not_the_one_that_was_evicted() -> None:
    state = preemption()
    cycle(state)
    fresh = running("low", 1)[0]
    state.put(msgspec.structs.replace(fresh, metadata=msgspec.structs.replace(fresh.metadata, uid="other")))
    (task,) = state.snapshot(NOW).jobs[key("low")].tasks
    assert task.status.name == "RUNNING"


def test_a_note_on_a_group_counts_until_it_is_seen_and_no_longer() -> None:
    state = preemption()
    group = pod_group("low", priority="low")
    state.put(group)
    annotation = "kai.scheduler/last-start-timestamp"
    state.own.write_note(group, annotation, format_time(NOW))
    assert state.snapshot(NOW).jobs[key("low")].history.last_started == NOW
    state.put(group)  # an old word about it
    assert state.snapshot(NOW).jobs[key("low")].history.last_started == NOW
    seen = msgspec.structs.replace(group.metadata, annotations={annotation: format_time(NOW)})
    state.put(msgspec.structs.replace(group, metadata=seen))
    state.put(group)  # somebody took it away
    assert state.snapshot(NOW).jobs[key("low")].history.last_started is None


def test_a_note_that_could_not_be_written_is_forgotten() -> None:
    state = preemption()
    group = pod_group("low", priority="low")
    state.put(group)
    state.own.write_note(group, "kai.scheduler/stale-podgroup-timestamp", format_time(NOW))
    state.own.withdraw_note(key("low"), "kai.scheduler/stale-podgroup-timestamp")
    assert state.snapshot(NOW).jobs[key("low")].history.stale_since is None


# ── in the long run ──


@given(st.integers(0, 2**32))
@example(52)  # two that quarrel, while known objects are sent again
@example(4690)  # one in the middle of a chain ends
@example(7653)  # another pod of a job has the place
@settings(max_examples=CLUSTERS, deadline=None)
def test_random_clusters_come_to_rest_with_every_promise_kept(seed: int) -> None:
    follow(seed)


@given(st.integers(0, 2**32))
@settings(max_examples=CLUSTERS // 2, deadline=None)
def test_so_do_those_with_shared_gpus_and_minimum_run_times(seed: int) -> None:
    follow(seed, varied=True)


@given(st.integers(0, 2**32))
@settings(max_examples=CLUSTERS // 2, deadline=None)
def test_so_do_those_where_searches_go_on_beside_placing(seed: int) -> None:
    follow(seed, varied=bool(seed % 2), beside=True)


def test_jobs_that_were_passed_over_are_remembered_apart_from_preemptions_and_kept_in_files_as_before() -> None:
    recorded = Commitments(preempted_by=((key("a"), (key("a"), key("b"))), (key("c"), (key("c"),))))
    assert b'"takers":[[["default","a"],[["default","a"],["default","b"]]]' in msgspec.json.encode(recorded)
    state = state_of([queue("q"), *PRIORITIES, pod_group("a"), pod_group("b"), pod_group("c")])
    state.own.commit(recorded, NOW)
    snapshot = state.snapshot(NOW + 1)
    assert snapshot.preempted_by == {key("a"): {key("b")}}
    assert snapshot.passed_over == {key("a"), key("c")}
    assert state.own.commitments(NOW + 1) == recorded
    memory = state.memory(NOW + 1)
    assert [(each.victim.name, each.preemptor.name) for each in memory.preemptions] == [
        ("a", "a"), ("a", "b"), ("c", "c"),
    ]  # fmt: skip
    assert b'"displacements":[[["default","a"],["default","a"],' in msgspec.json.encode(memory)
    drop_named(state, PodGroup, "c")
    assert state.snapshot(NOW + 1).passed_over == {key("a")}
    assert state.snapshot(NOW + REMEMBERED_SECONDS).passed_over == frozenset()
    other = state_of([queue("q"), *PRIORITIES, pod_group("a"), pod_group("b"), pod_group("c")])
    other.restore(memory, NOW + 1)
    assert other.snapshot(NOW + 1).passed_over == {key("a"), key("c")}
    other.put(priority_class("low", 11))
    assert other.snapshot(NOW + 1).passed_over == frozenset()
