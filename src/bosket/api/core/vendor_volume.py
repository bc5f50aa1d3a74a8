"""Volume sources of particular storage vendors, in pods and in persistent volumes.

Most are served by CSI drivers now; the names live on in manifests, and scheduling still compares some of them.
"""

from __future__ import annotations

from bosket.api.core.reference import LocalObjectReference, ObjectReference, SecretReference
from bosket.api.object import Wire


class AWSElasticBlockStoreVolumeSource(Wire):
    """An AWS EBS disk."""

    volumeID: str
    fsType: str = ""
    partition: int = 0
    readOnly: bool = False


class AzureDiskVolumeSource(Wire):
    """An Azure data disk."""

    diskName: str
    diskURI: str
    cachingMode: str | None = None
    fsType: str | None = None
    readOnly: bool | None = None
    kind: str | None = None


class AzureFileVolumeSource(Wire):
    """An Azure file share, used by a pod."""

    secretName: str
    shareName: str
    readOnly: bool = False


class AzureFilePersistentVolumeSource(Wire):
    """An Azure file share."""

    secretName: str
    shareName: str
    readOnly: bool = False
    secretNamespace: str | None = None


class CephFSVolumeSource(Wire):
    """A Ceph file system, used by a pod."""

    monitors: tuple[str, ...] = ()
    path: str = ""
    user: str = ""
    secretFile: str = ""
    secretRef: LocalObjectReference | None = None
    readOnly: bool = False


class CephFSPersistentVolumeSource(Wire):
    """A Ceph file system."""

    monitors: tuple[str, ...] = ()
    path: str = ""
    user: str = ""
    secretFile: str = ""
    secretRef: SecretReference | None = None
    readOnly: bool = False


class CinderVolumeSource(Wire):
    """An OpenStack disk, used by a pod."""

    volumeID: str
    fsType: str = ""
    readOnly: bool = False
    secretRef: LocalObjectReference | None = None


class CinderPersistentVolumeSource(Wire):
    """An OpenStack disk."""

    volumeID: str
    fsType: str = ""
    readOnly: bool = False
    secretRef: SecretReference | None = None


class FCVolumeSource(Wire):
    """A Fibre Channel disk."""

    targetWWNs: tuple[str, ...] = ()
    lun: int | None = None
    fsType: str = ""
    readOnly: bool = False
    wwids: tuple[str, ...] = ()


class FlexVolumeSource(Wire):
    """A volume of an exec-based driver, used by a pod."""

    driver: str
    fsType: str = ""
    secretRef: LocalObjectReference | None = None
    readOnly: bool = False
    options: dict[str, str] = {}


class FlexPersistentVolumeSource(Wire):
    """A volume of an exec-based driver."""

    driver: str
    fsType: str = ""
    secretRef: SecretReference | None = None
    readOnly: bool = False
    options: dict[str, str] = {}


class FlockerVolumeSource(Wire):
    """A Flocker dataset."""

    datasetName: str = ""
    datasetUUID: str = ""


class GCEPersistentDiskVolumeSource(Wire):
    """A Google persistent disk."""

    pdName: str
    fsType: str = ""
    partition: int = 0
    readOnly: bool = False


class GitRepoVolumeSource(Wire):
    """A git repository at one revision."""

    repository: str
    revision: str = ""
    directory: str = ""


class GlusterfsVolumeSource(Wire):
    """A Gluster file system, used by a pod."""

    endpoints: str
    path: str
    readOnly: bool = False


class GlusterfsPersistentVolumeSource(Wire):
    """A Gluster file system."""

    endpoints: str
    path: str
    readOnly: bool = False
    endpointsNamespace: str | None = None


class ISCSIVolumeSource(Wire):
    """An iSCSI disk, used by a pod."""

    targetPortal: str
    iqn: str
    lun: int
    iscsiInterface: str = ""
    fsType: str = ""
    readOnly: bool = False
    portals: tuple[str, ...] = ()
    chapAuthDiscovery: bool = False
    chapAuthSession: bool = False
    secretRef: LocalObjectReference | None = None
    initiatorName: str | None = None


class ISCSIPersistentVolumeSource(Wire):
    """An iSCSI disk."""

    targetPortal: str
    iqn: str
    lun: int
    iscsiInterface: str = ""
    fsType: str = ""
    readOnly: bool = False
    portals: tuple[str, ...] = ()
    chapAuthDiscovery: bool = False
    chapAuthSession: bool = False
    secretRef: SecretReference | None = None
    initiatorName: str | None = None


class PhotonPersistentDiskVolumeSource(Wire):
    """A Photon disk."""

    pdID: str
    fsType: str = ""


class PortworxVolumeSource(Wire):
    """A Portworx volume."""

    volumeID: str
    fsType: str = ""
    readOnly: bool = False


class QuobyteVolumeSource(Wire):
    """A Quobyte volume."""

    registry: str
    volume: str
    readOnly: bool = False
    user: str = ""
    group: str = ""
    tenant: str = ""


class RBDVolumeSource(Wire):
    """A Ceph block device, used by a pod."""

    image: str
    monitors: tuple[str, ...] = ()
    fsType: str = ""
    pool: str = ""
    user: str = ""
    keyring: str = ""
    secretRef: LocalObjectReference | None = None
    readOnly: bool = False


class RBDPersistentVolumeSource(Wire):
    """A Ceph block device."""

    image: str
    monitors: tuple[str, ...] = ()
    fsType: str = ""
    pool: str = ""
    user: str = ""
    keyring: str = ""
    secretRef: SecretReference | None = None
    readOnly: bool = False


class ScaleIOVolumeSource(Wire):
    """A ScaleIO volume, used by a pod."""

    gateway: str
    system: str
    secretRef: LocalObjectReference | None = None
    sslEnabled: bool = False
    protectionDomain: str = ""
    storagePool: str = ""
    storageMode: str = ""
    volumeName: str = ""
    fsType: str = ""
    readOnly: bool = False


class ScaleIOPersistentVolumeSource(Wire):
    """A ScaleIO volume."""

    gateway: str
    system: str
    secretRef: SecretReference | None = None
    sslEnabled: bool = False
    protectionDomain: str = ""
    storagePool: str = ""
    storageMode: str = ""
    volumeName: str = ""
    fsType: str = ""
    readOnly: bool = False


class StorageOSVolumeSource(Wire):
    """A StorageOS volume, used by a pod."""

    volumeName: str = ""
    volumeNamespace: str = ""
    fsType: str = ""
    readOnly: bool = False
    secretRef: LocalObjectReference | None = None


class StorageOSPersistentVolumeSource(Wire):
    """A StorageOS volume."""

    volumeName: str = ""
    volumeNamespace: str = ""
    fsType: str = ""
    readOnly: bool = False
    secretRef: ObjectReference | None = None


class VsphereVirtualDiskVolumeSource(Wire):
    """A vSphere disk."""

    volumePath: str
    fsType: str = ""
    storagePolicyName: str = ""
    storagePolicyID: str = ""
