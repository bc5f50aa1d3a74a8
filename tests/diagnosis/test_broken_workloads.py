"""Each workload that can't run as it is is found: exactly that, where it is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from bosket.api import keys
from bosket.api.core import Namespace, Node, Pod, ServiceAccount
from bosket.api.kai import BindRequest, Config, PodGroup, Queue, SubGroup, Topology
from bosket.api.object import KubeObject
from bosket.api.time import format_time
from bosket.testing.build import gang, node, pod, pod_group, queue, topology, within
from bosket.tools.doctor.finding import Severity
from tests.diagnosis.installed import NOW, edited, findings, installed, queue_with, without
from tests.diagnosis.test_broken_queues_and_shards import only


def bind_request(name: str, target: str, age: float = 3600, **status: Any) -> BindRequest:
    document = {
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": format_time(NOW - age)},
        "spec": {"podName": name, "selectedNode": target},
        "status": status,
    }
    return msgspec.convert(document, BindRequest)


def untold(obj: Pod, age: float = 3600) -> Pod:
    """A pod of this age of which nobody has said anything."""
    meta = msgspec.structs.replace(obj.metadata, creationTimestamp=format_time(NOW - age))
    return msgspec.structs.replace(obj, metadata=meta)


# ── queues and groups ──


def test_a_pod_that_names_a_queue_which_is_not_there() -> None:
    found = only([*installed(), pod("lost").label(keys.QUEUE_LABEL, "nowhere").running_on("n1").build()])
    assert (found.code, found.object) == ("pod-queue-unknown", "Pod default/lost")


def test_a_pod_that_names_no_queue() -> None:
    unlabelled = pod("plain").running_on("n1").build()
    assert (only([*installed(), unlabelled]).code, only([*installed(), unlabelled]).severity) == (
        "pod-queue-missing",
        Severity.INFO,
    )
    found = findings([*without(installed(), Queue, "default-queue"), unlabelled])
    assert [(each.code, each.severity) for each in found] == [
        ("pod-queue-missing", Severity.ERROR),
        ("queue-default-missing", Severity.WARNING),
    ]


def test_a_pod_whose_group_is_not_there() -> None:
    found = only([*installed(), pod("member").label(keys.QUEUE_LABEL, "team").of_group("gone").build()])
    assert (found.code, found.field) == ("pod-group-missing", f"metadata.annotations[{keys.POD_GROUP_ANNOTATION}]")


def test_pods_that_nobody_groups_are_told_once() -> None:
    pods = [pod(f"p{i}").label(keys.QUEUE_LABEL, "team").build() for i in range(5)]
    found = only([*installed(), *pods])
    assert found.code == "pod-without-group"
    assert "5 pods (default/p0, default/p1, default/p2 and 2 more)" in found.problem


def test_a_pod_that_has_just_come_is_given_a_moment() -> None:
    young = untold(pod("p").label(keys.QUEUE_LABEL, "team").build(), age=5)
    assert findings([*installed(), young]) == []


def test_a_pod_in_a_sub_group_that_is_not_there() -> None:
    group = pod_group("g", queue="team", subgroups=(SubGroup(name="workers", minMember=1),))
    found = only([*installed(), group, *gang("g", 1, subgroup="worker"), *gang("g", 1, subgroup="workers")])
    assert (found.code, found.object) == ("pod-subgroup-unknown", "Pod default/g-worker-0")
    assert "it has workers" in found.problem


def test_a_gang_whose_pods_never_come() -> None:
    found = only([*installed(), pod_group("g", queue="team", min_member=4), *gang("g", 2)])
    assert (found.code, found.field) == ("podgroup-incomplete", "spec.minMember")


def test_a_priority_class_that_is_not_there() -> None:
    found = only([*installed(), pod_group("g", queue="team", priority="urgent"), *gang("g", 1)])
    assert (found.code, found.field) == ("priority-class-missing", "spec.priorityClassName")


# ── pods that wait ──


def test_a_gate_that_nobody_opens() -> None:
    gated = pod("g-0").of_group("g").gated_by("example.com/quota").build()
    found = only([*installed(), pod_group("g", queue="team"), gated])
    assert (found.code, found.field) == ("pod-gated", "spec.schedulingGates")


def test_pods_of_which_no_scheduler_says_anything() -> None:
    quiet = untold(pod("g-0").of_group("g").build())
    quiet = msgspec.structs.replace(
        quiet,
        status=msgspec.convert(
            {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}, type(quiet.status)
        ),
    )
    assert only([*installed(), pod_group("g", queue="team"), quiet]).code == "scheduler-silent"


def test_a_bind_request_for_a_node_that_is_gone() -> None:
    found = only([*installed(), bind_request("waits-0", "gone")])
    assert (found.code, found.field) == ("bindrequest-node-missing", "spec.selectedNode")


def test_a_bind_request_that_failed() -> None:
    found = only([*installed(), bind_request("waits-0", "n1", phase="Failed", reason="no device", failedAttempts=3)])
    assert found.code == "bindrequest-failed"
    assert "(3 attempts): no device" in found.problem


def test_bind_requests_that_nobody_carries_out() -> None:
    assert only([*installed(), bind_request("waits-0", "n1")]).code == "bindrequest-pending"
    assert findings([*installed(), bind_request("waits-0", "n1", age=1)]) == []


# ── sizes ──


def test_a_pod_that_is_larger_than_any_node() -> None:
    found = only([*installed(), pod_group("g", queue="default-queue"), *gang("g", 1, gpus=16)])
    assert (found.code, found.object) == ("pod-larger-than-nodes", "Pod default/g-0")
    assert "asks for 16 GPUs, and the largest node has 8 GPUs" in found.problem


def test_a_gang_that_is_larger_than_the_cluster() -> None:
    found = only([*installed(), pod_group("g", queue="default-queue", min_member=5), *gang("g", 5, gpus=8)])
    assert (found.code, found.object) == ("podgroup-larger-than-cluster", "PodGroup default/g")
    assert "40 GPUs at once, and all nodes of its shard have 32 GPUs" in found.problem


def test_a_gang_that_needs_only_some_of_its_sub_groups_fits() -> None:
    parts = tuple(SubGroup(name=f"p{i}", minMember=2) for i in range(3))
    group = pod_group("g", queue="default-queue", subgroups=parts, min_subgroup=2)
    pods = [each for i in range(3) for each in gang("g", 2, gpus=8, subgroup=f"p{i}")]
    assert findings([*installed(), group, *pods]) == []
    needing_all = edited([*installed(), group, *pods], PodGroup, "g", "spec.minSubGroup", None)
    assert only(needing_all).code == "podgroup-larger-than-cluster"


def test_a_gang_that_is_larger_than_its_queues_limit() -> None:
    found = only([*installed(), queue_with("small", limit=4), pod_group("g", queue="small"), *gang("g", 1, gpus=8)])
    assert (found.code, found.field) == ("podgroup-over-limit", "spec.queue")
    assert "queue small may use 4 GPUs at most" in found.problem
    assert found.command == (
        'kubectl patch queue small --type merge -p \'{"spec":{"resources":{"gpu":{"limit":8}}}}\''
    ), "the number that would do"


def test_a_gang_that_is_larger_than_the_limit_above_its_queue() -> None:
    objects = [*installed(), queue("p", quota=0, limit=4), queue("c", parent="p", quota=0)]
    found = only([*objects, pod_group("g", queue="c"), *gang("g", 1, gpus=8)])
    assert found.code == "podgroup-over-limit"
    assert "queue p" in found.problem


def test_work_that_cannot_be_preempted_and_exceeds_its_quota() -> None:
    found = only([*installed(), pod_group("g", queue="default-queue", priority="build"), *gang("g", 1)])
    assert (found.code, found.field) == ("podgroup-over-quota", "spec.preemptibility")


# ── topologies ──


def test_a_level_that_no_node_has() -> None:
    found = only([*installed(), topology("blocks", "block", "rack")])
    assert (found.code, found.field) == ("topology-level-on-no-node", "spec.levels[0].nodeLabel")


def test_nodes_outside_of_a_topology() -> None:
    found = only([*installed(), node("n9")])
    assert (found.code, found.severity) == ("topology-nodes-outside", Severity.INFO)


def test_a_topology_that_is_not_there() -> None:
    found = only(without(installed(), Topology))
    assert (found.code, found.object, found.field) == (
        "topology-unknown",
        "PodGroup default/runs",
        "spec.topologyConstraint.topology",
    )


@pytest.mark.parametrize("which", ["required", "preferred"])
def test_a_level_that_the_topology_lacks(which: str) -> None:
    group = pod_group("g", queue="team", topology=within("racks", **{which: "row"}))
    found = only([*installed(), group, *gang("g", 1)])
    assert (found.code, found.field) == ("topology-level-unknown", f"spec.topologyConstraint.{which}TopologyLevel")


# ── shared GPUs ──


def sharing(objects: list[KubeObject]) -> list[KubeObject]:
    """With GPU sharing on, a pod on half a GPU, and its reservation."""
    on = edited(objects, Config, "kai-config", "spec.admission", {"gpuSharing": True})
    half = pod("half").of_group("runs").shares_gpu(0.5).running_on("n1").in_gpu_groups("g1").build()
    reservation = pod("reservation", keys.RESERVATION_NAMESPACE).label("app", keys.RESERVATION_APP)
    reservation = replace(reservation, scheduler="default-scheduler").running_on("n1").in_gpu_groups("g1")
    return [*on, half, reservation.build()]


def test_shared_gpus_are_in_order() -> None:
    assert findings(sharing(installed())) == []


def test_pods_that_share_gpus_where_that_is_switched_off() -> None:
    found = only(edited(sharing(installed()), Config, "kai-config", "spec.admission", None))
    assert (found.code, found.field) == ("gpu-sharing-off", "spec.admission.gpuSharing")


def test_no_namespace_for_reservations() -> None:
    broken = without(sharing(installed()), Namespace, keys.RESERVATION_NAMESPACE)
    assert only(broken).code == "reservation-namespace-missing"


def test_no_service_account_for_reservations() -> None:
    broken = without(sharing(installed()), ServiceAccount, keys.RESERVATION_SERVICE_ACCOUNT)
    assert only(broken).code == "reservation-account-missing"


def test_nodes_that_do_not_say_how_large_their_gpus_are() -> None:
    broken = edited(sharing(installed()), Node, "n2", "metadata.labels", {"rack": "r0", "kubernetes.io/hostname": "n2"})
    assert (only(broken).code, only(broken).severity) == ("node-gpu-memory-unknown", Severity.WARNING)
    by_memory = pod("m").of_group("runs").gpu_memory(4000).build()
    assert [each.severity for each in findings([*broken, by_memory])] == [Severity.ERROR]


def test_a_reservation_that_nobody_uses() -> None:
    found = only(without(sharing(installed()), Pod, "half"))
    assert (found.code, found.object) == ("reservation-orphan", "Pod kai-resource-reservation/reservation")


def test_a_shared_gpu_that_nobody_reserves() -> None:
    found = only(without(sharing(installed()), Pod, "reservation"))
    assert (found.code, found.object, found.severity) == ("reservation-missing", "Pod default/half", Severity.ERROR)


def test_a_runtime_class_that_is_not_there() -> None:
    waiting = pod("part").of_group("runs").shares_gpu(0.5).with_spec(runtimeClassName="nvidia").build()
    found = only([*sharing(installed()), waiting])
    assert (found.code, found.field) == ("runtime-class-missing", "spec.runtimeClassName")


def scaling_pod(age: float, source: str) -> Pod:
    made = pod("scaling", keys.SCALE_ADJUST_NAMESPACE).label("app", keys.SCALING_POD_APP).gpu(1)
    made = made.label("shared-gpu-pod-name", source).label("shared-gpu-pod-namespace", "default")
    return untold(replace(made, scheduler="default-scheduler").build(), age)


def test_a_scaling_pod_for_a_pod_that_is_gone() -> None:
    assert only([*installed(), scaling_pod(60, "gone")]).code == "scaling-pod-orphan"


def test_a_scaling_pod_for_which_no_node_comes() -> None:
    assert findings([*installed(), scaling_pod(60, "waits-0")]) == []
    assert only([*installed(), scaling_pod(3600, "waits-0")]).code == "scaling-pod-pending"


def test_an_object_that_does_not_fit_its_kind() -> None:
    found = only(installed(), malformed=("Queue odd: Expected `float`, got `str` - at `$.spec`",))
    assert (found.code, found.object) == ("object-malformed", "Queue odd")
