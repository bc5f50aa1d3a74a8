"""What pods take from each other: free volumes, room for new ones, and places to attach them."""

from typing import Any

import msgspec
import pytest

from bosket.api.core import AWSElasticBlockStoreVolumeSource, CSIPersistentVolumeSource, ObjectReference, Pod
from bosket.api.core.persistent_volume import PersistentVolume, PersistentVolumeClaim
from bosket.api.object import KubeObject
from bosket.api.storage import CSIDriver, CSINode, CSIStorageCapacity
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.model.bind_request import bind_request_for
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.recording.redaction import bare_volume
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.volumes.storage_driver import attachment_of
from bosket.testing.build import node, pod_group, queue
from bosket.testing.cluster import NOW, Objects, configured, decided, drop_named, placements, reasons, state_of
from tests.scheduler.storage import (
    LOCAL,
    NODES,
    capacity,
    claim,
    csi_driver,
    csi_node,
    member,
    one,
    storage_class,
    volume,
)

NOTHING_LEFT = "node(s) didn't find available persistent volumes to bind."
TOO_MANY = "node(s) exceed max volume count."
NO_SPACE = "node(s) did not have enough free storage."


def chosen(decisions: Decisions) -> dict[str, dict[str, str]]:
    return {bind.task.key.name: dict(bind.volumes) for bind in decisions.binds}


def free(name: str, *zones: str, **fields: Any) -> PersistentVolume:
    return volume(name, *zones, phase="Available", **fields)


def users(count: int, *, groups: bool = True) -> list[KubeObject]:
    """Pods with a claim each."""
    objects = []
    for number in range(count):
        group = f"g{number}" if groups else "g"
        objects += [claim(f"data-{number}"), member(f"data-{number}", name=f"p{number}", group=group).build()]
        objects += [pod_group(group)] if groups else []
    return objects


# Free volumes


def test_a_free_volume_goes_to_one_claim_of_a_cycle() -> None:
    decisions = one(NODES, LOCAL, free("disk", "a"), users(2))
    assert chosen(decisions) == {"p0": {"data-0": "disk"}}
    assert f"2 {NOTHING_LEFT}" in reasons(decisions)["g1"]


def test_each_claim_gets_the_smallest_volume_that_suits_it() -> None:
    disks = [free("large", "a", size="9Gi"), free("small", "a"), free("medium", "a", size="2Gi")]
    assert chosen(one(NODES, LOCAL, disks, users(3))) == {
        "p0": {"data-0": "small"},
        "p1": {"data-1": "medium"},
        "p2": {"data-2": "large"},
    }


def test_claims_of_one_pod_get_different_volumes() -> None:
    pair = [claim("left"), claim("right", size="2Gi"), member("right", "left").build()]
    disks = [free("one", "a", size="5Gi"), free("two", "b", size="2Gi"), free("three", "b", size="3Gi")]
    decisions = one(NODES, LOCAL, disks, pair)
    assert placements(decisions) == {"g-0": "b1"}
    assert chosen(decisions) == {"g-0": {"left": "two", "right": "three"}}


def test_a_gang_without_enough_volumes_gets_none_and_leaves_them_to_others() -> None:
    gang: list[Objects] = [pod_group("g", min_member=3), users(3, groups=False), claim("data"), pod_group("z")]
    alone = member("data", name="z-0", group="z").build()
    decisions = decided(queue("q"), NODES, LOCAL, [free("x", "a"), free("y", "b")], *gang, alone)
    assert chosen(decisions) == {"z-0": {"data": "x"}}


def test_where_no_volume_is_left_one_is_made_if_the_class_can() -> None:
    decisions = one(NODES, storage_class("slow", "b"), free("disk", "a"), users(2))
    assert placements(decisions) == {"p0": "a1", "p1": "b1"}
    assert chosen(decisions) == {"p0": {"data-0": "disk"}, "p1": {"data-1": ""}}


def test_a_volume_that_is_promised_to_a_claim_goes_to_no_other() -> None:
    reference = ObjectReference(name="data-1", namespace="default")
    decisions = one(NODES, LOCAL, free("disk", "b", claimRef=reference), users(2))
    assert chosen(decisions) == {"p1": {"data-1": "disk"}}
    assert placements(decisions) == {"p1": "b1"}


def test_pods_of_one_claim_go_where_its_volume_is() -> None:
    shared = [claim("data", modes=("ReadWriteMany",)), pod_group("h")]
    pods = [member("data").build(), member("data", name="h-0", group="h").only_on("zone", "b").build()]
    disks = [
        free("x", "a", accessModes=("ReadWriteMany",)),
        free("y", "b", accessModes=("ReadWriteMany",), size="2Gi"),
    ]
    assert set(placements(one(NODES, LOCAL, disks, shared, pods)).values()) == {"b1"}
    pods[0] = member("data").only_on("zone", "a").build()
    assert len(placements(one(NODES, LOCAL, disks, shared, pods))) == 1


@pytest.mark.parametrize(("mode", "together"), [("ReadWriteOnce", True), ("ReadWriteMany", False)])
def test_pods_of_one_claim_wait_for_one_volume_on_one_node_if_it_can_be_used_there_alone(
    mode: str, together: bool
) -> None:
    nodes = [node("a1", cpu="1", zone="a"), node("b1", cpu="1", zone="b")]
    pods = [member("data").build(), member("data", name="h-0", group="h").build()]
    decisions = one(nodes, storage_class(), claim("data", modes=(mode,)), pod_group("h"), pods)
    assert len(placements(decisions)) == (1 if together else 2)


# Pods that are being bound


def test_what_a_pod_that_is_being_bound_will_have_is_not_offered_to_others() -> None:
    first = [claim("data-0"), member("data-0", name="p0", group="g0").build(), pod_group("g0")]
    disks = [free("disk", "a"), free("disk-2", "a")]
    state = state_of([queue("q"), *NODES, LOCAL, *disks, *first])
    (bind,) = decide(state.snapshot(NOW), Configuration()).binds
    request = bind_request_for(bind)
    assert request.metadata.annotations["bosket.dev/volumes"] == '{"data-0":"disk"}'
    state.own.assume_bind_request(request)
    for each in users(3)[3:]:
        state.put(each)
    decisions = decide(state.snapshot(NOW), Configuration())
    assert chosen(decisions) == {"p1": {"data-1": "disk-2"}}
    state.own.withdraw_bind_request(request.key)
    assert chosen(decide(state.snapshot(NOW), Configuration())) == {
        "p0": {"data-0": "disk"},
        "p1": {"data-1": "disk-2"},
    }


def test_a_pod_waits_for_the_volume_that_is_made_for_another_user_of_its_claim() -> None:
    shared = claim("data", modes=("ReadWriteMany",))
    state = state_of([queue("q"), pod_group("g"), *NODES, storage_class(), shared, member("data").build()])
    (bind,) = decide(state.snapshot(NOW), Configuration()).binds
    state.own.assume_bind_request(bind_request_for(bind))
    state.put(pod_group("h"))
    state.put(member("data", name="h-0", group="h").only_on("zone", "b").build())
    assert placements(decide(state.snapshot(NOW), Configuration())) == {}
    state.put(volume("made"))
    state.put(claim("data", "made", modes=("ReadWriteMany",)))
    assert placements(decide(state.snapshot(NOW), Configuration())) == {"h-0": "b1"}


# Places to attach volumes


def bound_users(count: int, node_name: str | None = None, start: int = 0) -> list[KubeObject]:
    """Pods with a bound claim each."""
    objects = []
    for number in range(start, start + count):
        pod = member(f"data-{number}", name=f"p{number}", group=f"g{number}")
        objects += [volume(f"disk-{number}", driver="example.com/disk"), claim(f"data-{number}", f"disk-{number}")]
        objects += [pod_group(f"g{number}"), (pod.running_on(node_name) if node_name else pod).build()]
    return objects


def test_a_node_attaches_only_so_many_volumes() -> None:
    decisions = one(NODES, storage_class(), csi_node("a1", 2), csi_node("b1", 1), bound_users(4))
    assert sorted(placements(decisions).values()) == ["a1", "a1", "b1"]
    (waiting,) = reasons(decisions).values()
    assert f"2 {TOO_MANY}" in waiting


def test_volumes_that_are_attached_already_count_and_those_of_other_drivers_do_not() -> None:
    limits = [csi_node("a1", 2), csi_node("b1", 2, "example.com/other")]
    decisions = one(NODES, storage_class(), limits, bound_users(2, "a1"), bound_users(2, start=2))
    assert placements(decisions) == {"p2": "b1", "p3": "b1"}


def test_a_volume_that_several_pods_use_is_attached_once() -> None:
    shared = [volume("disk", driver="example.com/disk"), claim("data", "disk")]
    pods = [member("data", name=f"p{n}", group=f"g{n}").build() for n in range(3)]
    groups = [pod_group(f"g{n}") for n in range(3)]
    decisions = one(NODES[:1], storage_class(), csi_node("a1", 1), shared, groups, pods)
    assert len(placements(decisions)) == 3


def test_volumes_that_are_yet_to_be_made_need_a_place_too() -> None:
    decisions = one(NODES[:1], storage_class(), csi_node("a1", 1), users(2))
    assert placements(decisions) == {"p0": "a1"}
    assert TOO_MANY in reasons(decisions)["g1"]


def test_volumes_of_the_in_tree_plugins_are_attached_by_their_successors() -> None:
    legacy = storage_class(provisioner="kubernetes.io/aws-ebs")
    decisions = one(NODES[:1], legacy, csi_node("a1", 1, "ebs.csi.aws.com"), users(2))
    assert placements(decisions) == {"p0": "a1"}


def test_a_place_is_free_again_when_the_pod_is_gone() -> None:
    state = state_of([queue("q"), *NODES[:1], csi_node("a1", 1), *bound_users(1, "a1"), *bound_users(1, start=1)])
    assert placements(decide(state.snapshot(NOW), Configuration())) == {}
    drop_named(state, Pod, "p0")
    assert placements(decide(state.snapshot(NOW), Configuration())) == {"p1": "a1"}


def test_a_limit_that_changes_makes_a_new_snapshot() -> None:
    state = state_of([queue("q"), *NODES[:1], csi_node("a1", 0), *bound_users(1)])
    assert placements(decide(state.snapshot(NOW), Configuration())) == {}
    state.put(csi_node("a1", 1))
    assert placements(decide(state.snapshot(NOW), Configuration())) == {"p0": "a1"}
    state.put(csi_node("a1", 0))
    drop_named(state, CSINode, "a1")
    assert placements(decide(state.snapshot(NOW), Configuration())) == {"p0": "a1"}


# What drivers can make


def test_a_volume_is_made_only_where_its_driver_has_enough_left() -> None:
    rooms = [capacity("x", "a", "500Mi"), capacity("y", "b", "1Gi")]
    data = [claim(), member("data").build()]
    assert placements(one(NODES, storage_class(), csi_driver(), rooms, data)) == {"g-0": "b1"}
    silent = csi_driver(tells_capacity=False)
    assert placements(one(NODES, storage_class(), silent, rooms, data)) == {"g-0": "a1"}
    decisions = one(NODES, storage_class(), csi_driver(), data)
    assert f"2 {NO_SPACE}" in reasons(decisions)["g"]


def test_the_largest_volume_counts_where_the_driver_says_it() -> None:
    rooms = [capacity("x", "a", "9Gi", largest="500Mi"), capacity("y", "b", "1Mi", largest="1Gi")]
    decisions = one(NODES, storage_class(), csi_driver(), rooms, claim(), member("data").build())
    assert placements(decisions) == {"g-0": "b1"}


@pytest.mark.parametrize(
    "useless",
    [capacity("x", None, "9Gi"), capacity("x", "a", None), capacity("x", "a", "9Gi", storage_class="fast")],
    ids=["no node", "nothing said", "another class"],
)
def test_room_for_nobody_is_none(useless: CSIStorageCapacity) -> None:
    assert placements(one(NODES, storage_class(), csi_driver(), useless, claim(), member("data").build())) == {}


@pytest.mark.parametrize(("counted", "placed"), [(False, 2), (True, 1)])
def test_what_is_left_is_counted_down_within_a_cycle_only_if_that_is_asked_for(counted: bool, placed: int) -> None:
    rooms = [capacity("x", "a", "1536Mi")]
    decisions = decided(
        [queue("q"), *NODES, storage_class(), csi_driver(), *rooms, *users(2)],
        configuration=configured("allocate", schedule_csi_storage=counted),
    )
    assert len(placements(decisions)) == placed


def test_what_pods_that_are_being_bound_have_made_is_counted_too() -> None:
    configuration = configured("allocate", schedule_csi_storage=True)
    state = state_of([queue("q"), *NODES, storage_class(), csi_driver(), capacity("x", "a", "1536Mi"), *users(1)])
    (bind,) = decide(state.snapshot(NOW), configuration).binds
    state.own.assume_bind_request(bind_request_for(bind))
    for each in users(2)[3:]:
        state.put(each)
    decisions = decide(state.snapshot(NOW), configuration)
    assert placements(decisions) == {}
    assert NO_SPACE in reasons(decisions)["g1"]


def test_rooms_come_and_go() -> None:
    state = state_of([queue("q"), pod_group("g"), *NODES, storage_class(), claim(), member("data").build()])

    def now() -> dict[str, str]:
        return placements(decide(state.snapshot(NOW), Configuration()))

    assert now() == {"g-0": "a1"}
    state.put(csi_driver())
    assert now() == {}
    state.put(capacity("x", "b", "5Gi"))
    assert now() == {"g-0": "b1"}
    state.put(capacity("x", "a", "5Gi"))
    assert now() == {"g-0": "a1"}
    drop_named(state, CSIStorageCapacity, "x", "storage")
    assert now() == {}
    drop_named(state, CSIDriver, "example.com/disk")
    assert now() == {"g-0": "a1"}


@pytest.mark.parametrize("in_tree", [False, True])
def test_a_recording_keeps_what_attaches_a_volume_and_nothing_else_of_how_it_is_mounted(in_tree: bool) -> None:
    secret = "hush"
    disk = volume("disk", driver="example.com/disk")
    source = CSIPersistentVolumeSource(driver="d", volumeHandle="h", volumeAttributes={"key": secret})
    spec = msgspec.structs.replace(disk.spec, csi=None if in_tree else source)
    if in_tree:
        spec = msgspec.structs.replace(
            spec, awsElasticBlockStore=AWSElasticBlockStoreVolumeSource(volumeID="vol-1", fsType=secret)
        )
    slim = bare_volume(msgspec.structs.replace(disk, spec=spec))
    assert attachment_of(slim) == (("ebs.csi.aws.com", "vol-1") if in_tree else ("d", "h"))
    assert secret not in str(slim)


# Pods stay alike


def test_pods_with_claims_of_their_own_share_a_class_though_each_gets_another_volume() -> None:
    disks = [free(f"disk-{n}", "a") for n in range(5)]
    state = state_of([queue("q"), *NODES, LOCAL, *disks, csi_node("a1", 9), *users(5)])
    tasks = [task for job in state.snapshot(NOW).jobs.values() for task in job.tasks]
    assert len({task.pod_class for task in tasks}) == 1
    state.put(free("too-small", "a", size="1Mi"))
    again = [task for job in state.snapshot(NOW).jobs.values() for task in job.tasks]
    assert {task.pod_class for task in again} == {task.pod_class for task in tasks}, "another offer, though it is none"


def test_pods_without_claims_are_told_nothing_of_volumes() -> None:
    snapshot = state_of([queue("q"), *NODES, csi_node("a1", 1), free("disk", "a"), LOCAL]).snapshot(NOW)
    assert not snapshot.volumes.contested


# Bad input


def reported(*objects: PersistentVolumeClaim) -> str:
    return reasons(one(NODES, LOCAL, free("disk", "a"), *objects, member("data").build()))["g"]


def test_a_claim_that_cannot_be_understood_is_named_with_its_field() -> None:
    assert 'persistentvolumeclaim "data": spec.resources.requests.storage: ' in reported(claim(size="much"))
    picky = claim()
    selector = {"matchExpressions": [{"key": "speed", "operator": "Faster", "values": ["x"]}]}
    picky = msgspec.convert(
        {**msgspec.to_builtins(picky), "spec": {"selector": selector, "storageClassName": "slow"}}, type(picky)
    )
    assert 'persistentvolumeclaim "data": spec.selector: ' in reported(picky)


def test_volumes_and_drivers_that_cannot_be_understood_are_reported_and_left_out() -> None:
    said: list[str] = []
    state = ClusterState(report=said.append)
    for each in [
        free("disk", "a", size="large"),
        capacity("x", "a", "much"),
        csi_node("a1", -1),
    ]:
        state.put(each)
    assert [text.split(": ")[:2] for text in said] == [
        ["PersistentVolume disk", "spec.capacity.storage"],
        ["CSIStorageCapacity storage/x", "capacity"],
        ["CSINode a1", "spec.drivers[0].allocatable.count is -1; expected 0 or more, it is no limit"],
    ]
    for each in [queue("q"), pod_group("g"), *NODES, LOCAL, claim(), member("data").build()]:
        state.put(each)
    assert placements(decide(state.snapshot(NOW), Configuration())) == {}
