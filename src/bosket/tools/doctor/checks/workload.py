"""Pods and pod groups that can't run as they are: unknown queues, groups, sub-groups and priorities, closed gates.

A finding about many pods is reported once for their namespace. What may be a passing state is reported after a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from bosket.api import keys
from bosket.api.condition import find_condition
from bosket.api.core import Node, Pod
from bosket.api.gang import has_minimum
from bosket.api.kai import BindRequest, PodGroup
from bosket.api.object import KubeObject, ObjectKey
from bosket.api.scheduling_k8s import PriorityClass
from bosket.api.time import time_or_zero
from bosket.tools.doctor.finding import Finding, Severity, counted, named, some
from bosket.tools.doctor.installation import Installation

#: What a controller hasn't done by then, it doesn't do.
_PATIENCE_SECONDS: Final = 120.0
#: The same for what others have to do: users, operators, autoscalers.
_LONG_PATIENCE_SECONDS: Final = 600.0


def check_queues(installation: Installation) -> Iterator[Finding]:
    """Queue labels of pods; of those that have a group, the group's queue counts."""
    label, groups = installation.queue_label, {group.key for group in installation.bundle.of(PodGroup)}
    unlabelled: dict[str, list[Pod]] = {}
    unknown: dict[tuple[str, str], list[Pod]] = {}
    for pod in installation.own_pods:
        if _group_key(pod) in groups or keys.SKIP_PODGROUPER_ANNOTATION in pod.metadata.annotations:
            continue
        queue = pod.metadata.labels.get(label)
        if queue is None:
            if not _has_owner(pod) and keys.PROJECT_LABEL not in pod.metadata.labels:
                unlabelled.setdefault(pod.metadata.namespace, []).append(pod)
        elif queue not in installation.queues:
            unknown.setdefault((pod.metadata.namespace, queue), []).append(pod)
    for (namespace, queue), pods in unknown.items():
        yield Finding(
            "pod-queue-unknown",
            Severity.ERROR,
            named(pods[0]),
            f"metadata.labels[{label}]",
            f'there is no queue "{queue}", which keeps {_told(pods)} waiting',
            "create the queue, or correct the label of the workload",
            f"kubectl label pod -n {namespace} {pods[0].metadata.name} {label}={keys.DEFAULT_QUEUE} --overwrite",
        )
    for namespace, pods in unlabelled.items():
        there = keys.DEFAULT_QUEUE in installation.queues
        goes = f"goes to {keys.DEFAULT_QUEUE}" if there else f"waits for {keys.DEFAULT_QUEUE}, which isn't there"
        yield Finding(
            "pod-queue-missing",
            Severity.INFO if there else Severity.ERROR,
            named(pods[0]),
            f"metadata.labels[{label}]",
            f"work without a queue {goes}: {_told(pods)}",
            "label the workload with its queue",
            f"kubectl label pod -n {namespace} {pods[0].metadata.name} {label}=…",
        )


def check_groups(installation: Installation) -> Iterator[Finding]:
    """Pods that belong to no group, or to one that isn't there; groups that never get enough pods."""
    groups = {group.key: group for group in installation.bundle.of(PodGroup)}
    members: dict[ObjectKey, list[Pod]] = {}
    ungrouped: dict[str, list[Pod]] = {}
    for pod in installation.own_pods:
        key = _group_key(pod)
        if key is None:
            if _is_pending(pod) and _is_older(installation, pod, _PATIENCE_SECONDS):
                ungrouped.setdefault(pod.metadata.namespace, []).append(pod)
            continue
        members.setdefault(key, []).append(pod)
        group = groups.get(key)
        if group is None:
            if _is_pending(pod) and _is_older(installation, pod, _PATIENCE_SECONDS):
                yield Finding(
                    "pod-group-missing",
                    Severity.ERROR,
                    named(pod),
                    f"metadata.annotations[{keys.POD_GROUP_ANNOTATION}]",
                    f"there is no pod group {key}, so the pod isn't scheduled",
                    "create the pod group, or remove the annotation so that the pod grouper makes one",
                    f"kubectl annotate pod -n {key.namespace} {pod.metadata.name} {keys.POD_GROUP_ANNOTATION}-",
                )
            continue
        yield from _check_subgroup(pod, group)
    for namespace, pods in ungrouped.items():
        skipped = keys.SKIP_PODGROUPER_ANNOTATION in pods[0].metadata.annotations
        yield Finding(
            "pod-without-group",
            Severity.ERROR,
            named(pods[0]),
            f"metadata.annotations[{keys.POD_GROUP_ANNOTATION}]",
            f"no pod group was made for {_told(pods)}, and nothing is scheduled without"
            + (f": they say {keys.SKIP_PODGROUPER_ANNOTATION}" if skipped else ""),
            f"name a pod group in the annotation {keys.POD_GROUP_ANNOTATION}"
            if skipped
            else "see whether the pod grouper runs, and what its events on the pods say",
            f"kubectl get events -n {namespace} --field-selector involvedObject.name={pods[0].metadata.name}",
        )
    for key, group in groups.items():
        yield from _check_size(installation, group, members.get(key, []))


def _check_subgroup(pod: Pod, group: PodGroup) -> Iterator[Finding]:
    name = pod.metadata.labels.get(keys.SUBGROUP_LABEL)
    parents = {each.parent for each in group.spec.subGroups}
    leaves = [each.name for each in group.spec.subGroups if each.name not in parents]
    if not name or name in leaves or (not leaves and name == keys.DEFAULT_SUBGROUP):
        return
    yield Finding(
        "pod-subgroup-unknown",
        Severity.ERROR,
        named(pod),
        f"metadata.labels[{keys.SUBGROUP_LABEL}]",
        f'pod group {group.key} has no sub-group "{name}" that holds pods (it has {some(leaves) or "none"}), so the '
        "pod isn't scheduled",
        "correct the label, or add the sub-group",
        f"kubectl label pod -n {group.metadata.namespace} {pod.metadata.name} {keys.SUBGROUP_LABEL}=… --overwrite",
    )


def _check_size(installation: Installation, group: PodGroup, pods: list[Pod]) -> Iterator[Finding]:
    counts: dict[str, int] = {}
    for pod in pods:
        part = pod.metadata.labels.get(keys.SUBGROUP_LABEL, "")
        counts[part] = counts.get(part, 0) + 1
    if not pods or has_minimum(group.spec, counts) or not _is_older(installation, group, _LONG_PATIENCE_SECONDS):
        return
    if any(pod.spec.nodeName for pod in pods):
        return  # it ran, or runs: its pods come and go
    wanted = "its sub-groups ask for" if group.spec.subGroups else f"minMember ({group.spec.minMember})"
    yield Finding(
        "podgroup-incomplete",
        Severity.WARNING,
        named(group),
        "spec.minSubGroup" if group.spec.subGroups else "spec.minMember",
        f"it has {counted(len(pods), 'pod')}, fewer than {wanted}: it doesn't start before the others come",
        "see why the workload's controller makes no more pods, or lower the minimum",
        f"kubectl describe podgroups.scheduling.run.ai -n {group.metadata.namespace} {group.metadata.name}",
    )


def check_priorities(installation: Installation) -> Iterator[Finding]:
    """Pod groups that name a priority class which isn't there."""
    known = {each.metadata.name for each in installation.bundle.of(PriorityClass)}
    missing: dict[str, list[PodGroup]] = {}
    for group in installation.bundle.of(PodGroup):
        name = group.spec.priorityClassName
        if name and name not in known:
            missing.setdefault(name, []).append(group)
    for name, groups in missing.items():
        yield Finding(
            "priority-class-missing",
            Severity.WARNING,
            named(groups[0]),
            "spec.priorityClassName",
            f'there is no PriorityClass "{name}", so the default one counts for {counted(len(groups), "pod group")} '
            f"({some(group.key for group in groups)}), which can be preempted then",
            "create the class, or name another",
            f"kubectl create priorityclass {name} --value=…",
        )


def check_waiting(installation: Installation) -> Iterator[Finding]:
    """Pods whose gates nobody opens, and pods of which the scheduler says nothing."""
    gated: dict[str, list[Pod]] = {}
    silent: list[Pod] = []
    decided = {request.key for request in installation.bundle.of(BindRequest)}
    for pod in installation.own_pods:
        if not _is_pending(pod):
            continue
        if pod.spec.schedulingGates:
            if _is_older(installation, pod, _LONG_PATIENCE_SECONDS):
                gated.setdefault(pod.spec.schedulingGates[0].name, []).append(pod)
        elif (
            _group_key(pod) is not None
            and pod.key not in decided
            and find_condition(pod.status.conditions, "PodScheduled") is None
            and installation.bundle.now is not None
            and _is_older(installation, pod, _PATIENCE_SECONDS)
        ):
            silent.append(pod)
    for gate, pods in gated.items():
        yield Finding(
            "pod-gated",
            Severity.WARNING,
            named(pods[0]),
            "spec.schedulingGates",
            f'the gate "{gate}" holds back {_told(pods)}, and nobody has opened it',
            "see whether the controller that sets this gate runs",
            f"kubectl get pod -n {pods[0].metadata.namespace} {pods[0].metadata.name} "
            "-o jsonpath={.spec.schedulingGates}",
        )
    if silent:
        yield Finding(
            "scheduler-silent",
            Severity.ERROR,
            named(silent[0]),
            "status.conditions",
            f"no scheduler has decided on {_told(silent)}, or said why not",
            "see whether the scheduler of their shard runs",
            f"kubectl get pods,leases -n {installation.namespace}",
        )


def check_bind_requests(installation: Installation) -> Iterator[Finding]:
    """Decisions that can't be carried out, or that nobody carries out."""
    nodes = {node.metadata.name for node in installation.bundle.of(Node)}
    stuck: list[BindRequest] = []
    for request in installation.bundle.of(BindRequest):
        if request.status.phase == "Succeeded":
            continue
        if request.spec.selectedNode not in nodes:
            yield Finding(
                "bindrequest-node-missing",
                Severity.WARNING,
                named(request),
                "spec.selectedNode",
                f"there is no node {request.spec.selectedNode}, so the pod can't be bound to it",
                "delete the request, so that the scheduler decides anew",
                f"kubectl delete bindrequest -n {request.metadata.namespace} {request.metadata.name}",
            )
        elif request.status.phase == "Failed":
            yield Finding(
                "bindrequest-failed",
                Severity.WARNING,
                named(request),
                "status.phase",
                f"the pod couldn't be bound to {request.spec.selectedNode} "
                f"({counted(max(request.status.failedAttempts, 1), 'attempt')}): {request.status.reason or 'unknown'}",
                "fix what the reason names; the scheduler then decides anew",
                f"kubectl describe bindrequest -n {request.metadata.namespace} {request.metadata.name}",
            )
        elif installation.bundle.now is not None and _is_older(installation, request, _PATIENCE_SECONDS):
            stuck.append(request)
    if stuck:
        yield Finding(
            "bindrequest-pending",
            Severity.ERROR,
            named(stuck[0]),
            "status.phase",
            f"nobody carries out {counted(len(stuck), 'bind request')} ({some(each.key for each in stuck)}) of minutes "
            "ago",
            "see whether the binder runs",
            f"kubectl get pods,leases -n {installation.namespace}",
        )


def _group_key(pod: Pod) -> ObjectKey | None:
    name = pod.metadata.annotations.get(keys.POD_GROUP_ANNOTATION)
    return ObjectKey(pod.metadata.namespace, name) if name else None


def _has_owner(pod: Pod) -> bool:
    """Whether its queue may stand on its owner."""
    return bool(pod.metadata.ownerReferences)


def _is_pending(pod: Pod) -> bool:
    return pod.status.phase == "Pending" and not pod.spec.nodeName and pod.metadata.deletionTimestamp is None


def _is_older(installation: Installation, obj: KubeObject, seconds: float) -> bool:
    """Whether an object has been there for so long; where nobody knows the time, it has."""
    now = installation.bundle.now
    return now is None or now - time_or_zero(obj.metadata.creationTimestamp) > seconds


def _told(pods: Iterable[Pod]) -> str:
    listed = list(pods)
    return f"{counted(len(listed), 'pod')} ({some(pod.key for pod in listed)})"
