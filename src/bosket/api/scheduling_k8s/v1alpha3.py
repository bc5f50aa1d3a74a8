"""scheduling.k8s.io/v1alpha3 (Kubernetes 1.37): as v1beta1, and groups of groups, which no later version has yet."""

from __future__ import annotations

from bosket.api.object import Condition, KubeObject, Wire
from bosket.api.scheduling_k8s import v1beta1
from bosket.api.scheduling_k8s.v1beta1 import (
    CompositeDisruptionMode,
    CompositePodGroupSchedulingConstraints,
    CompositePodGroupSchedulingPolicy,
    WorkloadReference,
)


class Workload(v1beta1.Workload):
    """Templates of pod groups."""


class PodGroup(v1beta1.PodGroup):
    """Pods that are scheduled together."""


class CompositePodGroupSpec(Wire):
    """How the groups of a group are scheduled."""

    parentCompositePodGroupName: str | None = None
    workloadRef: WorkloadReference | None = None
    schedulingPolicy: CompositePodGroupSchedulingPolicy = CompositePodGroupSchedulingPolicy()
    schedulingConstraints: CompositePodGroupSchedulingConstraints | None = None
    disruptionMode: CompositeDisruptionMode | None = None
    priorityClassName: str = ""
    priority: int | None = None
    preemptionPolicy: str | None = None


class CompositePodGroupStatus(Wire):
    """How far a group of groups has come."""

    conditions: tuple[Condition, ...] = ()


class CompositePodGroup(KubeObject):
    """Groups that are scheduled together."""

    spec: CompositePodGroupSpec = CompositePodGroupSpec()
    status: CompositePodGroupStatus = CompositePodGroupStatus()
