"""Persistent volumes and the claims on them."""

from __future__ import annotations

from bosket.api.core.affinity import NodeSelector
from bosket.api.core.reference import ObjectReference, SecretReference, TypedLocalObjectReference, TypedObjectReference
from bosket.api.core.vendor_volume import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    AzureFilePersistentVolumeSource,
    CephFSPersistentVolumeSource,
    CinderPersistentVolumeSource,
    FCVolumeSource,
    FlexPersistentVolumeSource,
    FlockerVolumeSource,
    GCEPersistentDiskVolumeSource,
    GlusterfsPersistentVolumeSource,
    ISCSIPersistentVolumeSource,
    PhotonPersistentDiskVolumeSource,
    PortworxVolumeSource,
    QuobyteVolumeSource,
    RBDPersistentVolumeSource,
    ScaleIOPersistentVolumeSource,
    StorageOSPersistentVolumeSource,
    VsphereVirtualDiskVolumeSource,
)
from bosket.api.object import KubeObject, LabelSelector, ObjectMeta, Wire
from bosket.api.quantity import Quantity


class HostPathVolumeSource(Wire):
    """A path of the node."""

    path: str
    type: str | None = None


class NFSVolumeSource(Wire):
    """An NFS export."""

    server: str
    path: str
    readOnly: bool = False


class LocalVolumeSource(Wire):
    """A disk of one node."""

    path: str
    fsType: str | None = None


class CSIPersistentVolumeSource(Wire):
    """A volume of a CSI driver."""

    driver: str
    volumeHandle: str
    readOnly: bool = False
    fsType: str = ""
    volumeAttributes: dict[str, str] = {}
    controllerPublishSecretRef: SecretReference | None = None
    nodeStageSecretRef: SecretReference | None = None
    nodePublishSecretRef: SecretReference | None = None
    controllerExpandSecretRef: SecretReference | None = None
    nodeExpandSecretRef: SecretReference | None = None


class VolumeNodeAffinity(Wire):
    """Which nodes can reach a volume."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Wire):
    """What a volume is, how large, and who may have it."""

    capacity: dict[str, Quantity] = {}
    gcePersistentDisk: GCEPersistentDiskVolumeSource | None = None
    awsElasticBlockStore: AWSElasticBlockStoreVolumeSource | None = None
    hostPath: HostPathVolumeSource | None = None
    glusterfs: GlusterfsPersistentVolumeSource | None = None
    nfs: NFSVolumeSource | None = None
    rbd: RBDPersistentVolumeSource | None = None
    iscsi: ISCSIPersistentVolumeSource | None = None
    cinder: CinderPersistentVolumeSource | None = None
    cephfs: CephFSPersistentVolumeSource | None = None
    fc: FCVolumeSource | None = None
    flocker: FlockerVolumeSource | None = None
    flexVolume: FlexPersistentVolumeSource | None = None
    azureFile: AzureFilePersistentVolumeSource | None = None
    vsphereVolume: VsphereVirtualDiskVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    azureDisk: AzureDiskVolumeSource | None = None
    photonPersistentDisk: PhotonPersistentDiskVolumeSource | None = None
    portworxVolume: PortworxVolumeSource | None = None
    scaleIO: ScaleIOPersistentVolumeSource | None = None
    local: LocalVolumeSource | None = None
    storageos: StorageOSPersistentVolumeSource | None = None
    csi: CSIPersistentVolumeSource | None = None
    accessModes: tuple[str, ...] = ()
    claimRef: ObjectReference | None = None
    persistentVolumeReclaimPolicy: str = ""
    storageClassName: str = ""
    mountOptions: tuple[str, ...] = ()
    volumeMode: str | None = None
    nodeAffinity: VolumeNodeAffinity | None = None
    volumeAttributesClassName: str | None = None


class PersistentVolumeStatus(Wire):
    """Whether a volume is bound."""

    phase: str = ""
    message: str = ""
    reason: str = ""
    lastPhaseTransitionTime: str | None = None


class PersistentVolume(KubeObject):
    """A piece of storage in the cluster."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class VolumeResourceRequirements(Wire):
    """How much storage a claim asks for."""

    limits: dict[str, Quantity] = {}
    requests: dict[str, Quantity] = {}


class PersistentVolumeClaimSpec(Wire):
    """What storage is asked for."""

    accessModes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    volumeName: str = ""
    storageClassName: str | None = None
    volumeMode: str | None = None
    dataSource: TypedLocalObjectReference | None = None
    dataSourceRef: TypedObjectReference | None = None
    volumeAttributesClassName: str | None = None


class PersistentVolumeClaimCondition(Wire):
    """One observed aspect of a claim."""

    type: str
    status: str
    lastProbeTime: str | None = None
    lastTransitionTime: str | None = None
    reason: str = ""
    message: str = ""


class ModifyVolumeStatus(Wire):
    """How far a change of a volume's attributes class has come."""

    status: str
    targetVolumeAttributesClassName: str = ""


class VolumeHealthCondition(Wire):
    """One observed aspect of a volume's health."""

    status: str
    reason: str
    message: str = ""


class VolumeHealthStatus(Wire):
    """The health of a volume as its driver reports it."""

    healthConditions: tuple[VolumeHealthCondition, ...] = ()
    lastTransitionTime: str | None = None


class PersistentVolumeClaimStatus(Wire):
    """What a claim has got."""

    phase: str = ""
    accessModes: tuple[str, ...] = ()
    capacity: dict[str, Quantity] = {}
    conditions: tuple[PersistentVolumeClaimCondition, ...] = ()
    allocatedResources: dict[str, Quantity] = {}
    allocatedResourceStatuses: dict[str, str] = {}
    currentVolumeAttributesClassName: str | None = None
    modifyVolumeStatus: ModifyVolumeStatus | None = None
    healthStatus: VolumeHealthStatus | None = None


class PersistentVolumeClaim(KubeObject):
    """A request for storage by a user."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class PersistentVolumeClaimTemplate(Wire):
    """A claim made together with the pod that uses it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
