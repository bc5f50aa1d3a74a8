"""scheduling.k8s.io/v1alpha1 (Kubernetes 1.35): a Workload lists its groups; pods name theirs by `spec.workloadRef`."""

from __future__ import annotations

from bosket.api.object import KubeObject, Wire
from bosket.api.scheduling_k8s.part import ControllerReference, PodGroupSchedulingPolicy


class PodGroup(Wire):
    """A group of a workload's pods."""

    name: str
    policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()


class WorkloadSpec(Wire):
    """The groups of a workload, and what it was made for."""

    controllerRef: ControllerReference | None = None
    podGroups: tuple[PodGroup, ...] = ()


class Workload(KubeObject):
    """Pods that are scheduled as groups."""

    spec: WorkloadSpec = WorkloadSpec()
