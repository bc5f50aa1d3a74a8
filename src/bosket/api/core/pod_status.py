"""What has become of a pod and its containers."""

from __future__ import annotations

from bosket.api.core.container import ResourceRequirements
from bosket.api.core.persistent_volume import VolumeHealthCondition
from bosket.api.object import Wire
from bosket.api.quantity import Quantity


class PodCondition(Wire):
    """One observed aspect of a pod."""

    type: str
    status: str
    observedGeneration: int = 0
    lastProbeTime: str | None = None
    lastTransitionTime: str | None = None
    reason: str = ""
    message: str = ""


class PodIP(Wire):
    """An address of a pod."""

    ip: str


class HostIP(Wire):
    """An address of a pod's node."""

    ip: str


class ContainerStateWaiting(Wire):
    """A container that doesn't run yet."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(Wire):
    """A container that runs."""

    startedAt: str | None = None


class ContainerStateTerminated(Wire):
    """A container that has ended."""

    exitCode: int
    signal: int = 0
    reason: str = ""
    message: str = ""
    startedAt: str | None = None
    finishedAt: str | None = None
    containerID: str = ""


class ContainerState(Wire):
    """Exactly one of waiting, running and terminated."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ResourceHealth(Wire):
    """The health of one device."""

    resourceID: str
    health: str = ""
    message: str | None = None


class ResourceStatus(Wire):
    """The health of the devices behind one resource of a container."""

    name: str
    resources: tuple[ResourceHealth, ...] = ()


class LinuxContainerUser(Wire):
    """The Linux user that a container's first process got."""

    uid: int
    gid: int
    supplementalGroups: tuple[int, ...] = ()


class ContainerUser(Wire):
    """The user that a container's first process got."""

    linux: LinuxContainerUser | None = None


class ImageVolumeStatus(Wire):
    """Which image a volume really holds."""

    imageRef: str = ""


class VolumeStatus(Wire):
    """How a volume of a particular kind was mounted."""

    image: ImageVolumeStatus | None = None


class VolumeMountStatus(Wire):
    """How a volume was mounted."""

    name: str
    mountPath: str
    readOnly: bool = False
    recursiveReadOnly: str | None = None
    volumeStatus: VolumeStatus | None = None


class ContainerStatus(Wire):
    """What has become of one container."""

    name: str
    ready: bool
    restartCount: int
    image: str
    imageID: str
    state: ContainerState = ContainerState()
    lastState: ContainerState = ContainerState()
    containerID: str = ""
    started: bool | None = None
    allocatedResources: dict[str, Quantity] = {}
    resources: ResourceRequirements | None = None
    volumeMounts: tuple[VolumeMountStatus, ...] = ()
    user: ContainerUser | None = None
    allocatedResourcesStatus: tuple[ResourceStatus, ...] = ()
    stopSignal: str | None = None


class PodResourceClaimStatus(Wire):
    """Which ResourceClaim was made for a claim of the pod."""

    name: str
    resourceClaimName: str | None = None


class ContainerExtendedResourceRequest(Wire):
    """A container's extended resource and the device request that serves it."""

    containerName: str
    resourceName: str
    requestName: str


class PodExtendedResourceClaimStatus(Wire):
    """The ResourceClaim made to serve a pod's extended resources."""

    resourceClaimName: str
    requestMappings: tuple[ContainerExtendedResourceRequest, ...] = ()


class NodeAllocatableMappedResources(Wire):
    """Node resources that a claim takes by a mapping of its devices."""

    name: str
    quantity: Quantity | None = None


class NodeAllocatableOverheadResources(Wire):
    """Node resources that a claim takes as overhead."""

    name: str
    perPod: Quantity | None = None
    perContainer: Quantity | None = None


class NodeAllocatableResourceClaimStatus(Wire):
    """Node resources that a claim of the pod takes."""

    resourceClaimName: str
    containers: tuple[str, ...] = ()
    mapping: tuple[NodeAllocatableMappedResources, ...] = ()
    overhead: tuple[NodeAllocatableOverheadResources, ...] = ()


class PodVolumeHealth(Wire):
    """The health of one of a pod's volumes."""

    name: str
    healthConditions: tuple[VolumeHealthCondition, ...] = ()
    lastTransitionTime: str | None = None


class PodStatus(Wire):
    """What is known about a pod that runs, ran or waits."""

    observedGeneration: int = 0
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    message: str = ""
    reason: str = ""
    nominatedNodeName: str = ""
    hostIP: str = ""
    hostIPs: tuple[HostIP, ...] = ()
    podIP: str = ""
    podIPs: tuple[PodIP, ...] = ()
    startTime: str | None = None
    initContainerStatuses: tuple[ContainerStatus, ...] = ()
    containerStatuses: tuple[ContainerStatus, ...] = ()
    qosClass: str = ""
    ephemeralContainerStatuses: tuple[ContainerStatus, ...] = ()
    resize: str = ""
    resourceClaimStatuses: tuple[PodResourceClaimStatus, ...] = ()
    extendedResourceClaimStatus: PodExtendedResourceClaimStatus | None = None
    allocatedResources: dict[str, Quantity] = {}
    resources: ResourceRequirements | None = None
    nodeAllocatableResourceClaimStatuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
    volumeHealth: tuple[PodVolumeHealth, ...] = ()
