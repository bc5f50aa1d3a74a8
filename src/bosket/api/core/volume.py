"""Volumes of a pod."""

from __future__ import annotations

from bosket.api.core.container import ObjectFieldSelector, ResourceFieldSelector
from bosket.api.core.persistent_volume import HostPathVolumeSource, NFSVolumeSource, PersistentVolumeClaimTemplate
from bosket.api.core.reference import LocalObjectReference
from bosket.api.core.vendor_volume import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    AzureFileVolumeSource,
    CephFSVolumeSource,
    CinderVolumeSource,
    FCVolumeSource,
    FlexVolumeSource,
    FlockerVolumeSource,
    GCEPersistentDiskVolumeSource,
    GitRepoVolumeSource,
    GlusterfsVolumeSource,
    ISCSIVolumeSource,
    PhotonPersistentDiskVolumeSource,
    PortworxVolumeSource,
    QuobyteVolumeSource,
    RBDVolumeSource,
    ScaleIOVolumeSource,
    StorageOSVolumeSource,
    VsphereVirtualDiskVolumeSource,
)
from bosket.api.object import LabelSelector, Wire
from bosket.api.quantity import Quantity


class KeyToPath(Wire):
    """A key, and the file it becomes."""

    key: str
    path: str
    mode: int | None = None
    user: int | None = None


class EmptyDirVolumeSource(Wire):
    """An empty directory that lives as long as the pod."""

    medium: str = ""
    sizeLimit: Quantity | None = None
    mode: int | None = None


class SecretVolumeSource(Wire):
    """A Secret as files."""

    secretName: str = ""
    items: tuple[KeyToPath, ...] = ()
    defaultMode: int | None = None
    optional: bool | None = None
    defaultUser: int | None = None


class ConfigMapVolumeSource(Wire):
    """A ConfigMap as files."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    defaultMode: int | None = None
    optional: bool | None = None
    defaultUser: int | None = None


class DownwardAPIVolumeFile(Wire):
    """A field of the pod as a file."""

    path: str
    fieldRef: ObjectFieldSelector | None = None
    resourceFieldRef: ResourceFieldSelector | None = None
    mode: int | None = None
    user: int | None = None


class DownwardAPIVolumeSource(Wire):
    """Fields of the pod as files."""

    items: tuple[DownwardAPIVolumeFile, ...] = ()
    defaultMode: int | None = None
    defaultUser: int | None = None


class DownwardAPIProjection(Wire):
    """Fields of the pod as files of a projected volume."""

    items: tuple[DownwardAPIVolumeFile, ...] = ()


class SecretProjection(Wire):
    """A Secret as files of a projected volume."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool | None = None


class ConfigMapProjection(Wire):
    """A ConfigMap as files of a projected volume."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool | None = None


class ServiceAccountTokenProjection(Wire):
    """A service account's token as a file of a projected volume."""

    path: str
    audience: str = ""
    expirationSeconds: int | None = None
    user: int | None = None


class ClusterTrustBundleProjection(Wire):
    """Trust anchors as a file of a projected volume."""

    path: str
    name: str | None = None
    signerName: str | None = None
    labelSelector: LabelSelector | None = None
    optional: bool | None = None
    user: int | None = None


class PodCertificateProjection(Wire):
    """A key and certificate of the pod as files of a projected volume."""

    signerName: str = ""
    keyType: str = ""
    maxExpirationSeconds: int | None = None
    credentialBundlePath: str = ""
    keyPath: str = ""
    certificateChainPath: str = ""
    userAnnotations: dict[str, str] = {}
    user: int | None = None


class VolumeProjection(Wire):
    """One source of a projected volume."""

    secret: SecretProjection | None = None
    downwardAPI: DownwardAPIProjection | None = None
    configMap: ConfigMapProjection | None = None
    serviceAccountToken: ServiceAccountTokenProjection | None = None
    clusterTrustBundle: ClusterTrustBundleProjection | None = None
    podCertificate: PodCertificateProjection | None = None


class ProjectedVolumeSource(Wire):
    """Several sources in one directory."""

    sources: tuple[VolumeProjection, ...] | None = ()
    defaultMode: int | None = None
    defaultUser: int | None = None


class PersistentVolumeClaimVolumeSource(Wire):
    """A claim in the pod's namespace."""

    claimName: str
    readOnly: bool = False


class CSIVolumeSource(Wire):
    """A volume that a CSI driver makes for this pod alone."""

    driver: str
    readOnly: bool | None = None
    fsType: str | None = None
    volumeAttributes: dict[str, str] = {}
    nodePublishSecretRef: LocalObjectReference | None = None


class EphemeralVolumeSource(Wire):
    """A claim that is made for this pod and goes with it."""

    volumeClaimTemplate: PersistentVolumeClaimTemplate | None = None


class ImageVolumeSource(Wire):
    """The files of an image."""

    reference: str = ""
    pullPolicy: str = ""


class Volume(Wire):
    """A named volume of a pod: exactly one of its sources is set."""

    name: str
    hostPath: HostPathVolumeSource | None = None
    emptyDir: EmptyDirVolumeSource | None = None
    gcePersistentDisk: GCEPersistentDiskVolumeSource | None = None
    awsElasticBlockStore: AWSElasticBlockStoreVolumeSource | None = None
    gitRepo: GitRepoVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    nfs: NFSVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    glusterfs: GlusterfsVolumeSource | None = None
    persistentVolumeClaim: PersistentVolumeClaimVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    flexVolume: FlexVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    cephfs: CephFSVolumeSource | None = None
    flocker: FlockerVolumeSource | None = None
    downwardAPI: DownwardAPIVolumeSource | None = None
    fc: FCVolumeSource | None = None
    azureFile: AzureFileVolumeSource | None = None
    configMap: ConfigMapVolumeSource | None = None
    vsphereVolume: VsphereVirtualDiskVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    azureDisk: AzureDiskVolumeSource | None = None
    photonPersistentDisk: PhotonPersistentDiskVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    portworxVolume: PortworxVolumeSource | None = None
    scaleIO: ScaleIOVolumeSource | None = None
    storageos: StorageOSVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    image: ImageVolumeSource | None = None
