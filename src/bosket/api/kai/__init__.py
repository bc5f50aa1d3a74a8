"""KAI's custom resources, one module each; `RESOURCES` lists the kinds."""

from bosket.api.kai.bindrequest import (
    BIND_REQUEST,
    BindRequest,
    BindRequestSpec,
    BindRequestStatus,
    ExtendedResourceClaimAllocation,
    NUMAZonePlacement,
    ReceivedGPU,
    ResourceClaimAllocation,
)
from bosket.api.kai.podgroup import (
    POD_GROUP,
    PodGroup,
    PodGroupCondition,
    PodGroupResourcesStatus,
    PodGroupSpec,
    PodGroupStatus,
    QueueDetails,
    SchedulingCondition,
    SubGroup,
    TopologyConstraint,
    UnschedulableDetails,
    UnschedulableExplanation,
)
from bosket.api.kai.queue import (
    QUEUE,
    UNLIMITED,
    Queue,
    QueueCondition,
    QueueResource,
    QueueResources,
    QueueSpec,
    QueueStatus,
)
from bosket.api.resource import AnyResource

RESOURCES: tuple[AnyResource, ...] = (QUEUE, POD_GROUP, BIND_REQUEST)

__all__ = [
    "BIND_REQUEST",
    "POD_GROUP",
    "QUEUE",
    "RESOURCES",
    "UNLIMITED",
    "BindRequest",
    "BindRequestSpec",
    "BindRequestStatus",
    "ExtendedResourceClaimAllocation",
    "NUMAZonePlacement",
    "PodGroup",
    "PodGroupCondition",
    "PodGroupResourcesStatus",
    "PodGroupSpec",
    "PodGroupStatus",
    "Queue",
    "QueueCondition",
    "QueueDetails",
    "QueueResource",
    "QueueResources",
    "QueueSpec",
    "QueueStatus",
    "ReceivedGPU",
    "ResourceClaimAllocation",
    "SchedulingCondition",
    "SubGroup",
    "TopologyConstraint",
    "UnschedulableDetails",
    "UnschedulableExplanation",
]
