"""Builders for claims, volumes and drivers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bosket.api.core import (
    CSIPersistentVolumeSource,
    LocalVolumeSource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeClaimVolumeSource,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    Volume,
    VolumeNodeAffinity,
    VolumeResourceRequirements,
)
from bosket.api.object import KubeObject, LabelSelector, ObjectMeta
from bosket.api.quantity import Quantity
from bosket.api.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIStorageCapacity,
    StorageClass,
    VolumeNodeResources,
)
from bosket.scheduler.model.decisions import Decisions
from bosket.testing.build import PodBuilder, node, pod, pod_group, queue
from bosket.testing.cluster import decided

NODES = [node("a1", zone="a"), node("b1", zone="b")]
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
ONE_POD = ("ReadWriteOncePod",)


def one(*objects: KubeObject | Iterable[KubeObject]) -> Decisions:
    return decided(queue("q"), pod_group("g"), *objects)


def member(*claims: str, name: str = "g-0", group: str = "g") -> PodBuilder:
    volumes = tuple(
        Volume(name=claim, persistentVolumeClaim=PersistentVolumeClaimVolumeSource(claimName=claim)) for claim in claims
    )
    return pod(name).cpu("1").of_group(group).with_spec(volumes=volumes)


def claim(
    name: str = "data",
    volume: str = "",
    storage_class: str = "slow",
    *,
    phase: str = "",
    annotations: dict[str, str] | None = None,
    size: Quantity = "1Gi",
    modes: tuple[str, ...] = (),
    **meta: Any,
) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name, namespace="default", annotations=(BOUND if volume else {}) | (annotations or {}), **meta
        ),
        spec=PersistentVolumeClaimSpec(
            volumeName=volume,
            storageClassName=storage_class,
            accessModes=modes or ("ReadWriteOnce",),
            resources=VolumeResourceRequirements(requests={"storage": size}),
        ),
        status=PersistentVolumeClaimStatus(phase=phase or ("Bound" if volume else "Pending")),
    )


def volume(
    name: str = "disk",
    *zones: str,
    storage_class: str = "slow",
    phase: str = "Bound",
    size: Quantity = "1Gi",
    labels: dict[str, str] | None = None,
    driver: str = "",
    **spec: Any,
) -> PersistentVolume:
    requirement = NodeSelectorRequirement(key="zone", operator="In", values=zones)
    term = NodeSelectorTerm(matchExpressions=(requirement,))
    affinity = VolumeNodeAffinity(required=NodeSelector(nodeSelectorTerms=(term,))) if zones else None
    spec.setdefault("accessModes", ("ReadWriteOnce",))
    return PersistentVolume(
        metadata=ObjectMeta(name=name, labels=labels or {}),
        spec=PersistentVolumeSpec(
            nodeAffinity=affinity,
            storageClassName=storage_class,
            capacity={"storage": size},
            local=LocalVolumeSource(path="/disk") if not driver else None,
            csi=CSIPersistentVolumeSource(driver=driver, volumeHandle=name) if driver else None,
            **spec,
        ),
        status=PersistentVolumeStatus(phase=phase),
    )


def storage_class(
    name: str = "slow", *zones: str, mode: str = "WaitForFirstConsumer", provisioner: str = "example.com/disk"
) -> StorageClass:
    requirement = TopologySelectorLabelRequirement(key="zone", values=zones)
    allowed = (TopologySelectorTerm(matchLabelExpressions=(requirement,)),) if zones else ()
    return StorageClass(
        metadata=ObjectMeta(name=name), provisioner=provisioner, volumeBindingMode=mode, allowedTopologies=allowed
    )


LOCAL = storage_class(provisioner="kubernetes.io/no-provisioner")
DRIVER = "example.com/disk"


def csi_node(name: str, count: int | None, driver: str = DRIVER) -> CSINode:
    """A node that attaches so many volumes of a driver."""
    drivers = (CSINodeDriver(name=driver, nodeID=name, allocatable=VolumeNodeResources(count=count)),)
    return CSINode(metadata=ObjectMeta(name=name), spec=CSINodeSpec(drivers=drivers))


def csi_driver(name: str = DRIVER, *, tells_capacity: bool = True) -> CSIDriver:
    return CSIDriver(metadata=ObjectMeta(name=name), spec=CSIDriverSpec(storageCapacity=tells_capacity))


def capacity(
    name: str,
    zone: str | None,
    amount: Quantity | None,
    *,
    storage_class: str = "slow",
    largest: Quantity | None = None,
) -> CSIStorageCapacity:
    topology = LabelSelector(matchLabels={"zone": zone}) if zone is not None else None
    return CSIStorageCapacity(
        metadata=ObjectMeta(name=name, namespace="storage"),
        nodeTopology=topology,
        storageClassName=storage_class,
        capacity=amount,
        maximumVolumeSize=largest,
    )
