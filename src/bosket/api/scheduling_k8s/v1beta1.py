"""scheduling.k8s.io/v1beta1 (Kubernetes 1.37): as v1alpha2, with groups of groups and disruption modes as objects."""

from __future__ import annotations

from bosket.api.object import Condition, KubeObject, Wire
from bosket.api.scheduling_k8s.part import (
    ControllerReference,
    PodGroupResourceClaim,
    PodGroupResourceClaimStatus,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    TopologyConstraint,
)


class SingleDisruptionMode(Wire):
    """Pods are disrupted one by one; it has no settings."""


class AllDisruptionMode(Wire):
    """Pods are disrupted together; it has no settings."""


class DisruptionMode(Wire):
    """Exactly one of single and all."""

    single: SingleDisruptionMode | None = None
    all: AllDisruptionMode | None = None


class PodGroupTemplate(Wire):
    """What a PodGroup of a workload looks like."""

    name: str
    schedulingPolicy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    schedulingConstraints: PodGroupSchedulingConstraints | None = None
    resourceClaims: tuple[PodGroupResourceClaim, ...] = ()
    disruptionMode: DisruptionMode | None = None
    priorityClassName: str = ""
    priority: int | None = None
    preemptionPolicy: str | None = None


class CompositeBasicSchedulingPolicy(Wire):
    """Groups are scheduled one by one; it has no settings."""


class CompositeGangSchedulingPolicy(Wire):
    """At least `minGroupCount` groups are scheduled together or none."""

    minGroupCount: int


class CompositePodGroupSchedulingPolicy(Wire):
    """Exactly one of basic and gang."""

    basic: CompositeBasicSchedulingPolicy | None = None
    gang: CompositeGangSchedulingPolicy | None = None


class CompositePodGroupSchedulingConstraints(Wire):
    """Where the groups of a group must be together."""

    topology: tuple[TopologyConstraint, ...] = ()


class SingleCompositeDisruptionMode(Wire):
    """Groups are disrupted one by one; it has no settings."""


class AllCompositeDisruptionMode(Wire):
    """Groups are disrupted together; it has no settings."""


class CompositeDisruptionMode(Wire):
    """Exactly one of single and all."""

    single: SingleCompositeDisruptionMode | None = None
    all: AllCompositeDisruptionMode | None = None


class CompositePodGroupTemplate(Wire):
    """What a group of groups of a workload looks like."""

    name: str
    schedulingPolicy: CompositePodGroupSchedulingPolicy = CompositePodGroupSchedulingPolicy()
    schedulingConstraints: CompositePodGroupSchedulingConstraints | None = None
    disruptionMode: CompositeDisruptionMode | None = None
    priorityClassName: str = ""
    priority: int | None = None
    preemptionPolicy: str | None = None
    podGroupTemplates: tuple[PodGroupTemplate, ...] = ()
    compositePodGroupTemplates: tuple[CompositePodGroupTemplate, ...] = ()


class WorkloadSpec(Wire):
    """The templates of a workload's groups, and what it was made for."""

    controllerRef: ControllerReference | None = None
    podGroupTemplates: tuple[PodGroupTemplate, ...] = ()
    compositePodGroupTemplates: tuple[CompositePodGroupTemplate, ...] = ()


class Workload(KubeObject):
    """Templates of pod groups."""

    spec: WorkloadSpec = WorkloadSpec()


class WorkloadReference(Wire):
    """The template that a group was made from."""

    workloadName: str
    templateName: str


class PodGroupSpec(Wire):
    """How the pods of a group are scheduled."""

    parentCompositePodGroupName: str | None = None
    workloadRef: WorkloadReference | None = None
    schedulingPolicy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    schedulingConstraints: PodGroupSchedulingConstraints | None = None
    resourceClaims: tuple[PodGroupResourceClaim, ...] = ()
    disruptionMode: DisruptionMode | None = None
    priorityClassName: str = ""
    priority: int | None = None
    preemptionPolicy: str | None = None


class PodGroupStatus(Wire):
    """How far a group has come."""

    conditions: tuple[Condition, ...] = ()
    resourceClaimStatuses: tuple[PodGroupResourceClaimStatus, ...] = ()


class PodGroup(KubeObject):
    """Pods that are scheduled together."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()
