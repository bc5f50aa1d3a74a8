"""The live state changes with every event only what the event touches, and equals a state made anew."""

import gc
import weakref
from collections.abc import Sequence
from functools import partial
from operator import mul

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.core import Node, Pod
from bosket.api.kai import BindRequest, BindRequestSpec, BindRequestStatus, PodGroupStatus, SchedulingCondition
from bosket.api.kai.podgroup import PodGroup
from bosket.api.object import KubeObject, ObjectMeta
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.model.verdict import MOST, VerdictMemory
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, drop_named, placements, snapshot_of, state_of
from tests.scheduler.affinity import away, term


def request(pod_name: str, node_name: str, phase: str = "", attempts: int = 0, limit: int | None = None) -> BindRequest:
    return BindRequest(
        metadata=ObjectMeta(name=pod_name, namespace="default"),
        spec=BindRequestSpec(podName=pod_name, selectedNode=node_name, backoffLimit=limit),
        status=BindRequestStatus(phase=phase, failedAttempts=attempts),
    )


def test_nothing_changed_means_the_very_same_snapshot() -> None:
    state = state_of([node("n1"), queue("q"), pod_group("g"), *gang("g", 1)])
    first = state.snapshot(NOW)
    assert state.snapshot(NOW + 5) is first
    state.put(pod("other").gpu(1).running_on("n1").build())
    assert state.snapshot(NOW + 6) is not first


def test_a_node_heartbeat_changes_nothing() -> None:
    state = state_of([node("n1"), queue("q")])
    first = state.snapshot(NOW)
    state.put(
        msgspec.structs.replace(
            node("n1"), metadata=ObjectMeta(name="n1", labels=node("n1").metadata.labels, resourceVersion="9")
        ),
    )
    assert state.snapshot(NOW) is first


def test_a_pod_with_a_bind_request_holds_its_node_and_is_not_decided_on_again() -> None:
    state = state_of([node("n1", gpus=1), queue("q"), pod_group("g"), *gang("g", 1), request("g-0", "n1")])
    snapshot = state.snapshot(NOW)
    assert snapshot.nodes.idle[2, 0] == 0
    assert placements(decide(snapshot, Configuration())) == {}


def test_a_failed_bind_request_is_dead_and_its_pod_pending_again() -> None:
    objects = [node("n1"), queue("q"), pod_group("g"), *gang("g", 1)]
    state = state_of([*objects, request("g-0", "n1", "Failed")])
    snapshot = state.snapshot(NOW)
    assert [r.metadata.name for r in snapshot.dead_bind_requests] == ["g-0"]
    assert placements(decide(snapshot, Configuration())) == {"g-0": "n1"}
    retrying = state_of([*objects, request("g-0", "n1", "Failed", attempts=1, limit=3)])
    assert retrying.snapshot(NOW).dead_bind_requests == ()


def test_a_bind_request_dies_with_its_node_and_lives_when_the_node_is_seen_late() -> None:
    state = state_of([request("g-0", "n1"), queue("q"), pod_group("g"), *gang("g", 1)])
    assert len(state.snapshot(NOW).dead_bind_requests) == 1
    state.put(node("n1"))
    assert state.snapshot(NOW).dead_bind_requests == ()
    drop_named(state, Node, "n1")
    assert len(state.snapshot(NOW).dead_bind_requests) == 1


def test_a_pod_with_a_nonsensical_request_is_reported_and_left_out() -> None:
    reported: list[str] = []
    state = ClusterState(report=reported.append)
    for each in [node("n1"), queue("q"), pod_group("g"), pod_group("bad"), *gang("g", 1)]:
        state.put(each)
    state.put(pod("bad-0").asks("cpu", "three").of_group("bad").build())
    assert placements(decide(state.snapshot(NOW), Configuration())) == {"g-0": "n1"}
    assert "default/bad-0" in reported[0]
    assert "three" in reported[0]


def test_resources_seen_for_the_first_time_later_are_counted() -> None:
    state = state_of([node("n1"), queue("q")])
    state.snapshot(NOW)
    fpga = node("n2")
    amounts = {**fpga.status.allocatable, "example.com/fpga": "2"}
    state.put(msgspec.structs.replace(fpga, status=msgspec.structs.replace(fpga.status, allocatable=amounts)))
    state.put(pod_group("g"))
    state.put(pod("g-0").asks("example.com/fpga", "1").of_group("g").build())
    assert placements(decide(state.snapshot(NOW), Configuration())) == {"g-0": "n2"}


def test_pods_on_nodes_that_are_not_ours_hold_nothing_of_their_queue() -> None:
    running = [pod_group("g"), pod("g-0").gpu(2).of_group("g").running_on("n1").build()]
    state = state_of([queue("q"), *running])
    assert state.snapshot(NOW).use["q"].allocated == (0, 0, 0)
    state.put(node("n1"))
    assert state.snapshot(NOW).use["q"].allocated == (2, 0, 0)
    drop_named(state, Node, "n1")
    assert state.snapshot(NOW).use["q"].allocated == (0, 0, 0)


def test_a_group_that_wants_one_try_per_node_pool_is_left_alone_after_it() -> None:
    tried = SchedulingCondition(type="UnschedulableOnNodePool", nodePool="default", transitionID="2")
    earlier = SchedulingCondition(type="UnschedulableOnNodePool", nodePool="other", transitionID="1")
    group = pod_group("g")
    status = PodGroupStatus(schedulingConditions=(tried, earlier))
    once = msgspec.structs.replace(group, spec=msgspec.structs.replace(group.spec, schedulingBackoff=1))
    for_ever = msgspec.structs.replace(group, spec=msgspec.structs.replace(group.spec, schedulingBackoff=-1))

    def bound(group: PodGroup) -> dict[str, str]:
        snapshot = snapshot_of([node("n1"), queue("q"), group, *gang("g", 1)])
        return placements(decide(snapshot, Configuration()))

    assert bound(msgspec.structs.replace(once, status=status)) == {}
    assert bound(once) == {"g-0": "n1"}
    assert bound(msgspec.structs.replace(for_ever, status=status)) == {"g-0": "n1"}
    elsewhere = PodGroupStatus(schedulingConditions=(earlier,))
    assert bound(msgspec.structs.replace(once, status=elsewhere)) == {"g-0": "n1"}


names = st.sampled_from(["p0", "p1", "p2", "p3"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("pending"), names),
        st.tuples(st.just("running"), names),
        st.tuples(st.just("leaving"), names),
        st.tuples(st.just("gone"), names),
        st.tuples(st.just("request"), names),
        st.tuples(st.just("unrequest"), names),
        st.tuples(st.just("node"), st.sampled_from(["n1", "n2"])),
        st.tuples(st.just("no node"), st.sampled_from(["n1", "n2"])),
    ),
    max_size=25,
)


@given(steps)
@settings(max_examples=150, deadline=None)
def test_any_sequence_of_events_ends_where_a_fresh_state_begins(events: Sequence[tuple[str, ...]]) -> None:
    live = state_of([queue("q"), pod_group("g", min_member=0)])
    there: dict[tuple[str, str], KubeObject] = {}
    for what, name in events:
        member = pod(name).gpu(1).of_group("g")
        match what:
            case "pending":
                there["pod", name] = member.build()
            case "running":
                there["pod", name] = member.running_on("n1").build()
            case "leaving":
                there["pod", name] = member.running_on("n2").being_deleted_at(NOW).build()
            case "request":
                there["request", name] = request(name, "n2")
            case "node":
                there["node", name] = node(name)
            case "gone":
                there.pop(("pod", name), None)
                drop_named(live, Pod, name)
            case "unrequest":
                gone = there.pop(("request", name), None)
                if gone is not None:
                    live.drop(gone)
            case "no node":
                there.pop(("node", name), None)
                drop_named(live, Node, name)
        for (_, at), each in there.items():
            if at == name:
                live.put(each)
        live.snapshot(NOW)
    fresh = snapshot_of([queue("q"), pod_group("g", min_member=0), *there.values()])
    ours = live.snapshot(NOW)
    assert ours.nodes.idle.tobytes() == fresh.nodes.idle.tobytes()
    assert ours.nodes.releasing.tobytes() == fresh.nodes.releasing.tobytes()
    assert ours.use["q"].allocated == fresh.use["q"].allocated
    assert [r.key for r in ours.dead_bind_requests] == [r.key for r in fresh.dead_bind_requests]
    assert placements(decide(ours, Configuration())) == placements(decide(fresh, Configuration()))


def test_a_pod_on_a_node_that_does_not_answer_holds_its_place() -> None:
    lost = pod("lost").gpu(1).running_on("n1").build()
    lost = msgspec.structs.replace(lost, status=msgspec.structs.replace(lost.status, phase="Unknown"))
    assert state_of([node("n1", gpus=1), lost]).snapshot(NOW).nodes.idle[2, 0] == 0


def test_amounts_that_nobody_can_count_leave_out_their_object_only() -> None:
    huge = node("huge")
    amounts = {**huge.status.allocatable, "cpu": "9" * 320}
    huge = msgspec.structs.replace(huge, status=msgspec.structs.replace(huge.status, allocatable=amounts))
    snapshot = snapshot_of(huge, node("n1"), queue("q"), pod_group("g"), gang("g", 1))
    assert snapshot.nodes.names == ["n1"]


def test_an_older_version_of_a_bind_request_changes_nothing() -> None:
    def version(number: str, phase: str) -> BindRequest:
        each = request("g-0", "n1", phase)
        return msgspec.structs.replace(
            each, metadata=msgspec.structs.replace(each.metadata, uid="u", resourceVersion=number)
        )

    state = state_of([node("n1"), queue("q"), pod_group("g"), *gang("g", 1), version("12", "Failed")])
    state.put(version("9", ""))
    assert len(state.snapshot(NOW).dead_bind_requests) == 1


def test_verdicts_about_classes_that_are_long_gone_are_not_kept_for_ever() -> None:
    memory = VerdictMemory()
    for number in range(10 * MOST):
        assert memory.recall(1, "double", number, partial(mul, 2, number)) == 2 * number
    assert len(memory) <= MOST + 1


def test_who_left_a_node_of_another_shard_is_forgotten_also_when_nodes_come_at_the_same_time() -> None:
    state = state_of([node("n"), pod("p").gpu(1).running_on("elsewhere").build()])
    assert set(state.snapshot(NOW).residents) == {"elsewhere"}
    drop_named(state, Pod, "p")
    state.put(node("m"))
    assert set(state.snapshot(NOW).residents) == set()


def test_a_failed_bind_of_a_pod_that_is_gone_holds_nobody_back() -> None:
    group = [node("n1"), queue("q"), pod_group("g")]
    state = state_of([*group, *gang("g", 1)])
    former = pod("g-0").build()
    state.drop(former)
    state.own.back_off(former.key, former.metadata.uid, NOW)
    (again,) = gang("g", 1)
    state.put(msgspec.structs.replace(again, metadata=msgspec.structs.replace(again.metadata, uid="another")))
    assert not state.snapshot(NOW).backing_off


def test_a_state_that_nobody_needs_goes_without_waiting_for_the_garbage_collector() -> None:
    """It may hold tens of thousands of pods, and replays make one after the other."""
    state = state_of([node("n1"), queue("q"), pod_group("g"), *gang("g", 1)])
    state.snapshot(NOW)
    gone = weakref.ref(state)
    gc.disable()
    try:
        del state
        assert gone() is None
    finally:
        gc.enable()


def rewritten(written: Pod, version: str, **status: str) -> Pod:
    """The same pod, as it is after another write."""
    metadata = msgspec.structs.replace(written.metadata, resourceVersion=version)
    return msgspec.structs.replace(written, metadata=metadata, status=msgspec.structs.replace(written.status, **status))


def test_a_running_pod_that_is_written_without_a_change_is_no_news() -> None:
    running = pod("g-0").gpu(1).of_group("g").running_on("n1").build()
    state = state_of([node("n1"), queue("q"), pod_group("g"), running])
    first = state.snapshot(NOW)
    state.put(rewritten(running, "7"))
    assert state.snapshot(NOW) is first
    assert [each.metadata.resourceVersion for each in state.objects(Pod)] == ["7"]
    state.put(rewritten(running, "8", phase="Succeeded"))
    assert state.snapshot(NOW).nodes.idle[2, 0] == 8


def test_of_a_pod_that_waits_the_newest_version_is_decided_on() -> None:
    """What is said of it is written for that version, and refused for an older one."""
    (waiting,) = gang("g", 1)
    state = state_of([node("n1"), queue("q"), pod_group("g"), waiting])
    state.snapshot(NOW)
    state.put(rewritten(waiting, "7"))
    (job,) = state.snapshot(NOW).unsettled
    assert [task.pod.metadata.resourceVersion for task in job.tasks] == ["7"]


def test_preparing_a_snapshot_bit_by_bit_gives_the_same_and_hides_no_change() -> None:
    objects = [node("n1"), queue("q"), pod_group("g"), *gang("g", 2)]
    state, other = state_of(objects), state_of(objects)
    for _ in state.warm_up():
        pass
    first = state.snapshot(NOW)
    assert placements(decide(first, Configuration())) == placements(decide(other.snapshot(NOW), Configuration()))
    state.put(pod("more").gpu(1).running_on("n1").build())
    for _ in state.warm_up():
        pass
    second = state.snapshot(NOW)
    assert second is not first
    assert second.nodes.idle[2, 0] == first.nodes.idle[2, 0] - 1


def test_a_pod_that_is_stuck_stays_so_when_others_begin_to_select_it() -> None:
    stuck = pod("stuck").gpu(4).label("app", "x").running_on("n1").being_deleted_at(NOW - 3600).build()
    choosy = pod("g-0").cpu("1").of_group("g").with_spec(affinity=away(term(app="x"))).build()
    state = state_of([node("n1"), queue("q"), pod_group("g"), stuck, choosy])
    assert state.snapshot(NOW).nodes.releasing[2, 0] == 0
