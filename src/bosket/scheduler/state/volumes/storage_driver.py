"""StorageDrivers: what CSI drivers report: how many volumes a node can attach, and how much can be provisioned where.

Read by `Volumes`. In-tree volume plugins are gone from Kubernetes: their names mean the CSI driver that replaced them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from bosket.api.core import PersistentVolume
from bosket.api.object import ObjectKey
from bosket.api.quantity import InvalidQuantity, to_int
from bosket.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from bosket.kube.selector import InvalidSelector, label_selector
from bosket.scheduler.model.volume import Attachment, Room

#: By name of an in-tree provisioner: the driver that does its work.
SUCCESSORS: Final[Mapping[str, str]] = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}


def driver_of(storage_class: StorageClass) -> str:
    """The driver that makes volumes of a class."""
    return SUCCESSORS.get(storage_class.provisioner, storage_class.provisioner)


def attachment_of(volume: PersistentVolume) -> Attachment | None:
    """The volume as its driver knows it; None for volumes that no driver attaches."""
    spec = volume.spec
    if spec.csi is not None:
        return Attachment(spec.csi.driver, spec.csi.volumeHandle)
    if spec.awsElasticBlockStore is not None:
        return Attachment(SUCCESSORS["kubernetes.io/aws-ebs"], spec.awsElasticBlockStore.volumeID)
    if spec.gcePersistentDisk is not None:
        return Attachment(SUCCESSORS["kubernetes.io/gce-pd"], spec.gcePersistentDisk.pdName)
    if spec.azureDisk is not None:
        return Attachment(SUCCESSORS["kubernetes.io/azure-disk"], spec.azureDisk.diskURI)
    if spec.cinder is not None:
        return Attachment(SUCCESSORS["kubernetes.io/cinder"], spec.cinder.volumeID)
    if spec.vsphereVolume is not None:
        return Attachment(SUCCESSORS["kubernetes.io/vsphere-volume"], spec.vsphereVolume.volumePath)
    if spec.portworxVolume is not None:
        return Attachment(SUCCESSORS["kubernetes.io/portworx-volume"], spec.portworxVolume.volumeID)
    return None


class StorageDrivers:
    """CSINodes, CSIDrivers and CSIStorageCapacities, as far as decisions depend on them."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self.nodes: dict[str, CSINode] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self.capacities: dict[ObjectKey, CSIStorageCapacity] = {}
        self.unread: set[ObjectKey] = set()  #: capacities whose node selector can't be read
        self._limits: dict[str, dict[str, int]] = {}  # driver → node → how many volumes
        self._frozen: Mapping[str, Mapping[str, int]] | None = None
        self._rooms: dict[str, dict[ObjectKey, Room]] = {}  # storage class → what there is

    # Nodes: how many volumes they attach

    def put_node(self, node: CSINode) -> None:
        self.drop_node(node.metadata.name)
        self.nodes[node.metadata.name] = node
        for index, driver in enumerate(node.spec.drivers or ()):
            count = driver.allocatable.count if driver.allocatable is not None else None
            if count is None:
                continue
            if count < 0:
                field = f"spec.drivers[{index}].allocatable.count"
                self._report(f"CSINode {node.metadata.name}: {field} is {count}; expected 0 or more, it is no limit")
                continue
            self._limits.setdefault(driver.name, {})[node.metadata.name] = count
            self._frozen = None

    def drop_node(self, name: str) -> None:
        if self.nodes.pop(name, None) is None:
            return
        for driver, limits in list(self._limits.items()):
            if limits.pop(name, None) is not None:
                self._frozen = None
            if not limits:
                del self._limits[driver]

    def limits(self) -> Mapping[str, Mapping[str, int]]:
        """By driver and node, for those with a limit. The same object while nothing changes."""
        if self._frozen is None:
            self._frozen = {driver: dict(limits) for driver, limits in self._limits.items()}
        return self._frozen

    @property
    def limited(self) -> frozenset[str]:
        """Drivers with a limit somewhere."""
        return frozenset(self._limits)

    # Drivers: how much they can make

    def rooms(self, storage_class: StorageClass) -> tuple[Room, ...] | None:
        """All there is for a class; None where the driver doesn't say how much it can make."""
        driver = self.drivers.get(driver_of(storage_class))
        if driver is None or not driver.spec.storageCapacity:
            return None
        rooms = self._rooms.get(storage_class.metadata.name, {})
        return tuple(rooms[key] for key in sorted(rooms))

    def put_capacity(self, capacity: CSIStorageCapacity) -> None:
        self.drop_capacity(capacity.key)
        self.capacities[capacity.key] = capacity
        if capacity.nodeTopology is None:  # a capacity without a selector belongs to no node
            return
        try:
            nodes = label_selector(capacity.nodeTopology)
        except InvalidSelector as error:
            self.unread.add(capacity.key)
            self._report(f"CSIStorageCapacity {capacity.key}: nodeTopology: {error}; it is left out")
            return
        total, largest = self._bytes(capacity, "capacity"), self._bytes(capacity, "maximumVolumeSize")
        if total is None and largest is None:
            return
        most = total if largest is None else largest
        rooms = self._rooms.setdefault(capacity.storageClassName, {})
        rooms[capacity.key] = Room(str(capacity.key), nodes, most or 0, total or 0)

    def drop_capacity(self, key: ObjectKey) -> None:
        self.unread.discard(key)
        before = self.capacities.pop(key, None)
        if before is not None:
            self._rooms.get(before.storageClassName, {}).pop(key, None)

    def _bytes(self, capacity: CSIStorageCapacity, field: str) -> int | None:
        quantity = getattr(capacity, field)
        if quantity is None:
            return None
        try:
            return to_int(quantity)
        except InvalidQuantity as error:
            self._report(f"CSIStorageCapacity {capacity.key}: {field}: {error}; it counts as 0")
            return 0
