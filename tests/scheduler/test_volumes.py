"""Where a pod's volumes let it go."""

from collections.abc import Sequence

import msgspec
import pytest

from bosket.api.core import EphemeralVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim, Volume
from bosket.api.object import KubeObject, LabelSelector, ObjectMeta, OwnerReference
from bosket.api.storage import StorageClass
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.testing.build import node, pod, pod_group, queue
from bosket.testing.cluster import NOW, drop_named, placements, reasons, state_of
from tests.scheduler.storage import LOCAL, NODES, ONE_POD, claim, member, one, storage_class, volume

# Claims that are bound


def test_a_pod_goes_where_its_volume_can_be_reached() -> None:
    assert placements(one(NODES, volume("disk", "b"), claim(volume="disk"), member("data").build())) == {"g-0": "b1"}


def test_no_node_that_reaches_the_volume_is_the_reason() -> None:
    decisions = one(NODES, volume("disk", "c"), claim(volume="disk"), member("data").build())
    assert placements(decisions) == {}
    assert "2 node(s) didn't match PersistentVolume's node affinity." in reasons(decisions)["g"]


def test_all_volumes_must_be_reached() -> None:
    objects = [volume("x", "a", "b"), volume("y", "b"), claim("left", "x"), claim("right", "y")]
    assert placements(one(NODES, objects, member("left", "right").build())) == {"g-0": "b1"}


def test_a_volume_says_by_labels_in_which_zones_it_is() -> None:
    label = "topology.kubernetes.io/zone"
    nodes = [node("a1", labels={label: "a"}), node("b1", labels={label: "b"}), node("c1", labels={label: "c"})]
    zoned = volume("disk", labels={label: "b__c"})
    assert placements(one(nodes, zoned, claim(volume="disk"), member("data").build())) == {"g-0": "b1"}
    decisions = one(nodes[:1], zoned, claim(volume="disk"), member("data").build())
    assert "1 node(s) had no available volume zone." in reasons(decisions)["g"]
    assert placements(one(node("bare"), zoned, claim(volume="disk"), member("data").build())) == {"g-0": "bare"}
    old = volume("disk", labels={"failure-domain.beta.kubernetes.io/zone": "b"})
    assert placements(one(nodes, old, claim(volume="disk"), member("data").build())) == {"g-0": "b1"}


def test_a_volume_that_is_gone_keeps_every_node_away() -> None:
    decisions = one(NODES, claim(volume="disk"), member("data").build())
    expected = "2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)."
    assert expected in reasons(decisions)["g"]


# Claims that make a pod fit nowhere


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([], 'persistentvolumeclaim "data" not found'),
        (
            [claim(volume="disk", phase="Lost")],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "disk"',
        ),
        ([claim(deletionTimestamp="2026-01-01T00:00:00Z")], 'persistentvolumeclaim "data" is being deleted'),
        (
            [claim()],
            'pod has unbound immediate PersistentVolumeClaims: persistentvolumeclaim "data": spec.storageClassName: '
            'there is no class "slow"',
        ),
        ([claim(), storage_class(mode="Immediate")], "pod has unbound immediate PersistentVolumeClaims"),
    ],
)
def test_claims_that_let_a_pod_run_nowhere_are_the_reason(objects: Sequence[KubeObject], expected: str) -> None:
    decisions = one(NODES, volume("disk"), objects, member("data").build())
    assert placements(decisions) == {}
    reported = f"Scheduling conditions were not met for pod default/g-0:\nVolumeBinding: {expected}.\n"
    assert reported in reasons(decisions)["g"]


def test_a_claim_that_names_its_volume_but_is_not_bound_yet_is_waited_for() -> None:
    named = msgspec.structs.replace(claim(volume="disk"), metadata=ObjectMeta(name="data", namespace="default"))
    decisions = one(NODES, volume("disk"), storage_class(), named, member("data").build())
    assert "pod has unbound immediate PersistentVolumeClaims" in reasons(decisions)["g"]


# Claims that are bound when the pod has a node


def test_a_volume_is_made_only_where_its_class_allows_it() -> None:
    objects = [storage_class("slow", "b"), claim()]
    assert placements(one(NODES, objects, member("data").build())) == {"g-0": "b1"}
    assert placements(one(NODES, storage_class(), claim(), member("data").build())) == {"g-0": "a1"}
    decisions = one(NODES, storage_class("slow", "c"), claim(), member("data").build())
    assert "2 node(s) didn't find available persistent volumes to bind." in reasons(decisions)["g"]


def test_a_volume_that_is_being_made_for_a_node_ties_the_pod_to_it() -> None:
    being_made = claim(annotations={"volume.kubernetes.io/selected-node": "b1"})
    assert placements(one(NODES, storage_class(), being_made, member("data").build())) == {"g-0": "b1"}


def test_where_nothing_is_made_a_volume_must_be_there() -> None:
    free = volume("disk", "b", phase="Available")
    assert placements(one(NODES, LOCAL, free, claim(), member("data").build())) == {"g-0": "b1"}
    decisions = one(NODES, LOCAL, claim(), member("data").build())
    assert "2 node(s) didn't find available persistent volumes to bind." in reasons(decisions)["g"]


@pytest.mark.parametrize(
    "unsuitable",
    [
        volume("disk", "b", phase="Bound"),
        volume("disk", "b", phase="Available", size="1Mi"),
        volume("disk", "b", phase="Available", storage_class="fast"),
        volume("disk", "b", phase="Available", volumeMode="Block"),
        volume("disk", "b", phase="Available", accessModes=("ReadOnlyMany",)),
        volume("disk", "b", phase="Available", claimRef=ObjectReference(name="other", namespace="default")),
    ],
    ids=["bound", "small", "class", "mode", "access", "promised"],
)
def test_a_volume_that_does_not_suit_the_claim_is_none(unsuitable: PersistentVolume) -> None:
    assert placements(one(NODES, LOCAL, unsuitable, claim(), member("data").build())) == {}


def test_a_claim_may_select_volumes_by_their_labels() -> None:
    picky = claim()
    picky = msgspec.structs.replace(
        picky, spec=msgspec.structs.replace(picky.spec, selector=LabelSelector(matchLabels={"speed": "high"}))
    )
    free = [volume("x", "a", phase="Available"), volume("y", "b", phase="Available", labels={"speed": "high"})]
    assert placements(one(NODES, LOCAL, free, picky, member("data").build())) == {"g-0": "b1"}


# Claims of a pod's own, and of one pod at a time


def test_a_claim_made_for_the_pod_is_named_after_it_and_must_be_its_own() -> None:
    volumes = (Volume(name="scratch", ephemeral=EphemeralVolumeSource()),)
    own = pod("g-0").cpu("1").of_group("g").with_spec(volumes=volumes).build()
    owner = OwnerReference(apiVersion="v1", kind="Pod", name="g-0", uid=own.metadata.uid, controller=True)
    assert placements(one(NODES, volume(), claim("g-0-scratch", "disk", ownerReferences=(owner,)), own)) == {
        "g-0": "a1"
    }
    waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "g-0-scratch"'
    assert waiting in reasons(one(NODES, own))["g"]
    reported = reasons(one(NODES, volume(), claim("g-0-scratch", "disk"), own))["g"]
    assert "PVC default/g-0-scratch was not created for pod default/g-0 (pod is not owner)" in reported


def test_a_claim_of_one_pod_at_a_time_is_not_given_to_a_second_pod() -> None:
    objects = [volume(), claim(volume="disk", modes=ONE_POD)]
    assert placements(one(NODES, objects, member("data").build())) == {"g-0": "a1"}
    user = member("data", name="user").running_on("a1").build()
    reported = reasons(one(NODES, objects, user, member("data").build()))["g"]
    assert "PersistentVolumeClaim with the same name and ReadWriteOncePod access mode" in reported


def test_a_claim_of_one_pod_at_a_time_is_not_given_to_two_pods_of_one_cycle() -> None:
    objects = [volume(), claim(volume="disk", modes=ONE_POD), pod_group("h")]
    pods = [member("data").build(), member("data", name="h-0", group="h").build()]
    assert len(placements(one(NODES, objects, pods))) == 1


# The live state


def test_what_a_pod_waits_for_may_come_in_any_order() -> None:
    state = state_of([queue("q"), pod_group("g"), *NODES, member("data").build()])

    def now() -> dict[str, str]:
        return placements(decide(state.snapshot(NOW), Configuration()))

    assert now() == {}
    state.put(claim())
    state.put(storage_class("slow", "c"))
    assert now() == {}
    state.put(storage_class("slow", "b"))
    assert now() == {"g-0": "b1"}
    state.put(claim(volume="disk"))
    assert now() == {}
    state.put(volume("disk", "a"))
    assert now() == {"g-0": "a1"}
    state.put(volume("disk", "b"))
    assert now() == {"g-0": "b1"}
    drop_named(state, PersistentVolume, "disk")
    assert now() == {}
    state.put(volume("disk", "a"))
    drop_named(state, PersistentVolumeClaim, "data")
    assert now() == {}
    state.put(LOCAL)
    state.put(claim())
    assert now() == {}
    state.put(volume("disk", "b", phase="Available"))
    assert now() == {"g-0": "b1"}
    drop_named(state, StorageClass, "slow")
    assert now() == {}


def test_a_change_that_means_nothing_to_a_pod_changes_no_snapshot() -> None:
    state = state_of([queue("q"), pod_group("g"), *NODES, volume(), claim(volume="disk"), member("data").build()])
    before = state.snapshot(NOW)
    state.put(msgspec.structs.replace(claim(volume="disk"), apiVersion=""))
    state.put(volume())
    state.put(claim("other"))
    assert state.snapshot(NOW) is before


def test_pods_whose_claims_ask_for_the_same_are_alike() -> None:
    members = [member(f"data-{i}", name=f"g-{i}").build() for i in range(5)]
    claims = [claim(f"data-{i}") for i in range(5)]
    state = state_of([queue("q"), pod_group("g"), *NODES, storage_class(), *claims, *members])
    (job,) = state.snapshot(NOW).jobs.values()
    assert len({task.pod_class for task in job.tasks}) == 1
