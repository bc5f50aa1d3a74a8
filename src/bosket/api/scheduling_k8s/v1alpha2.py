"""scheduling.k8s.io/v1alpha2 (Kubernetes 1.36): the scheduler reads PodGroups; a Workload holds templates of them."""

from __future__ import annotations

from bosket.api.object import Condition, KubeObject, Wire
from bosket.api.scheduling_k8s.part import (
    ControllerReference,
    PodGroupResourceClaim,
    PodGroupResourceClaimStatus,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
)


class PodGroupTemplate(Wire):
    """What a PodGroup of a workload looks like."""

    name: str
    schedulingPolicy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    schedulingConstraints: PodGroupSchedulingConstraints | None = None
    resourceClaims: tuple[PodGroupResourceClaim, ...] = ()
    disruptionMode: str | None = None
    priorityClassName: str = ""
    priority: int | None = None


class WorkloadSpec(Wire):
    """The templates of a workload's groups, and what it was made for."""

    controllerRef: ControllerReference | None = None
    podGroupTemplates: tuple[PodGroupTemplate, ...] = ()


class Workload(KubeObject):
    """Templates of pod groups."""

    spec: WorkloadSpec = WorkloadSpec()


class WorkloadPodGroupTemplateReference(Wire):
    """A template of a workload."""

    workloadName: str
    podGroupTemplateName: str


class PodGroupTemplateReference(Wire):
    """The template that a group was made from."""

    workload: WorkloadPodGroupTemplateReference | None = None


class PodGroupSpec(Wire):
    """How the pods of a group are scheduled; `disruptionMode` is "Pod" or "PodGroup"."""

    podGroupTemplateRef: PodGroupTemplateReference | None = None
    schedulingPolicy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    schedulingConstraints: PodGroupSchedulingConstraints | None = None
    resourceClaims: tuple[PodGroupResourceClaim, ...] = ()
    disruptionMode: str | None = None
    priorityClassName: str = ""
    priority: int | None = None


class PodGroupStatus(Wire):
    """How far a group has come."""

    conditions: tuple[Condition, ...] = ()
    resourceClaimStatuses: tuple[PodGroupResourceClaimStatus, ...] = ()


class PodGroup(KubeObject):
    """Pods that are scheduled together."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()
