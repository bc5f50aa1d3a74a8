"""storage.k8s.io/v1: classes and drivers of volumes, and what they can do where."""

from __future__ import annotations

from bosket.api.core.affinity import TopologySelectorTerm
from bosket.api.core.persistent_volume import PersistentVolumeSpec
from bosket.api.object import KubeObject, LabelSelector, Wire
from bosket.api.quantity import Quantity


class StorageClass(KubeObject):
    """How volumes of one sort are made; `volumeBindingMode` says whether to wait for a pod."""

    provisioner: str = ""
    parameters: dict[str, str] = {}
    reclaimPolicy: str | None = None
    mountOptions: tuple[str, ...] = ()
    allowVolumeExpansion: bool | None = None
    volumeBindingMode: str | None = None
    allowedTopologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeAttachmentSource(Wire):
    """The volume to attach."""

    persistentVolumeName: str | None = None
    inlineVolumeSpec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(Wire):
    """The volume, the node and the driver of an attachment."""

    attacher: str = ""
    source: VolumeAttachmentSource | None = None
    nodeName: str = ""


class VolumeError(Wire):
    """Why attaching or detaching failed last."""

    time: str | None = None
    message: str = ""
    errorCode: int | None = None


class VolumeAttachmentStatus(Wire):
    """Whether a volume is attached."""

    attached: bool = False
    attachmentMetadata: dict[str, str] = {}
    attachError: VolumeError | None = None
    detachError: VolumeError | None = None


class VolumeAttachment(KubeObject):
    """A request to attach a volume to a node."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()


class CSITokenRequest(Wire):
    """A service account token that a driver wants."""

    audience: str
    expirationSeconds: int | None = None


class CSIDriverSpec(Wire):
    """What a CSI driver needs and can do."""

    attachRequired: bool | None = None
    podInfoOnMount: bool | None = None
    volumeLifecycleModes: tuple[str, ...] = ()
    storageCapacity: bool | None = None
    fsGroupPolicy: str | None = None
    tokenRequests: tuple[CSITokenRequest, ...] = ()
    requiresRepublish: bool | None = None
    seLinuxMount: bool | None = None
    nodeAllocatableUpdatePeriodSeconds: int | None = None
    serviceAccountTokenInSecrets: bool | None = None
    preventPodSchedulingIfMissing: bool | None = None


class CSIDriver(KubeObject):
    """A CSI driver of the cluster."""

    spec: CSIDriverSpec = CSIDriverSpec()


class VolumeNodeResources(Wire):
    """How many volumes of a driver fit on a node."""

    count: int | None = None


class CSINodeDriver(Wire):
    """A driver on one node."""

    name: str
    nodeID: str
    topologyKeys: tuple[str, ...] | None = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Wire):
    """The drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] | None = ()


class StorageHealthCondition(Wire):
    """One observed aspect of a node's storage."""

    status: str
    reason: str
    message: str = ""
    accessMode: str | None = None
    volumeMode: str | None = None
    lastTransitionTime: str | None = None


class StorageHealth(Wire):
    """The health of a driver's storage on one node."""

    name: str
    healthConditions: tuple[StorageHealthCondition, ...] = ()


class CSINodeStatus(Wire):
    """How the storage of a node is."""

    storageHealth: tuple[StorageHealth, ...] = ()


class CSINode(KubeObject):
    """What CSI drivers know of a node; named as the node."""

    spec: CSINodeSpec = CSINodeSpec()
    status: CSINodeStatus = CSINodeStatus()


class CSIStorageCapacity(KubeObject):
    """How much room a storage class has in one part of the cluster."""

    nodeTopology: LabelSelector | None = None
    storageClassName: str = ""
    capacity: Quantity | None = None
    maximumVolumeSize: Quantity | None = None


class VolumeAttributesClass(KubeObject):
    """Attributes of volumes that can be changed while they are used."""

    driverName: str = ""
    parameters: dict[str, str] = {}
