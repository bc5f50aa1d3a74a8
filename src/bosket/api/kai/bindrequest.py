"""scheduling.run.ai/v1alpha2 BindRequest: the scheduler's decision about one pod, which the binder carries out.

Its name and namespace are the pod's; the pod owns it.
"""

from __future__ import annotations

from typing import ClassVar

from bosket.api.core import ContainerExtendedResourceRequest
from bosket.api.crd_marks import AGE, Column, Int32
from bosket.api.object import KubeObject, Wire
from bosket.api.quantity import Quantity
from bosket.api.resource import Resource
from bosket.api.resource_k8s import AllocationResult, DeviceRequest


class ReceivedGPU(Wire):
    """GPUs that a pod gets."""

    count: int = 0
    """How many devices."""
    portion: str = ""
    """Part of each device, as a decimal number such as "0.50"."""


class ResourceClaimAllocation(Wire):
    """What is allocated to one of the pod's resource claims."""

    name: str = ""
    """The claim's name in the pod's spec, not that of the ResourceClaim."""
    allocation: AllocationResult | None = None


class ExtendedResourceClaimAllocation(Wire):
    """What is allocated to the claim that stands for extended resources backed by a DeviceClass."""

    allocation: AllocationResult | None = None
    deviceRequests: tuple[DeviceRequest, ...] = ()
    """Requests by container, for the claim's spec."""
    containerMappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    """Which request serves which container's extended resource."""


class NUMAZonePlacement(Wire):
    """What a pod is expected to use of one NUMA zone."""

    zone: str
    amount: dict[str, Quantity]


class BindRequestSpec(Wire):
    """The decision: which pod, which node, which devices."""

    podName: str = ""
    selectedNode: str = ""
    receivedResourceType: str = ""
    """Regular, Fraction or MigInstance."""
    receivedGPU: ReceivedGPU | None = None
    selectedGPUGroups: tuple[str, ...] = ()
    """Groups of shared GPUs that the pod joins; for the type Fraction."""
    resourceClaimAllocations: tuple[ResourceClaimAllocation, ...] = ()
    extendedResourceClaimAllocation: ExtendedResourceClaimAllocation | None = None
    predictedNUMAZones: tuple[NUMAZonePlacement, ...] = ()
    backoffLimit: Int32 | None = None
    """Tries after which the binder gives up."""


class BindRequestStatus(Wire):
    """What has come of it."""

    phase: str = ""
    """Empty when fresh, then Pending, Succeeded or Failed."""
    reason: str = ""
    failedAttempts: Int32 = 0


class BindRequest(KubeObject):
    """The scheduler's decision about one pod, for the binder to carry out."""

    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("Pod", ".spec.podName"),
        Column("Node", ".spec.selectedNode"),
        Column("Phase", ".status.phase"),
        Column("Failures", ".status.failedAttempts", "integer", priority=1),
        Column("Reason", ".status.reason", priority=1),
        AGE,
    )

    spec: BindRequestSpec = BindRequestSpec()
    status: BindRequestStatus = BindRequestStatus()


BIND_REQUEST = Resource(
    "scheduling.run.ai", "v1alpha2", "BindRequest", "bindrequests", BindRequest, subresources=("status",)
)
