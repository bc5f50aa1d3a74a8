"""Builders for claims, volumes and drivers."""

from __future__ import annotations

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
from bosket.api.object import LabelSelector, ObjectMeta
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
from bosket.testing.build import node, pod, pod_group, queue
from bosket.testing.cluster import decided

NODES = [node("a1", zone="a"), node("b1", zone="b")]
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
ONE_POD = ("ReadWriteOncePod",)


def one(*objects):
    return decided(queue("q"), pod_group("g"), *objects)


def member(*claims, name="g-0", group="g"):
    volumes = tuple(
        Volume(name=claim, persistentVolumeClaim=PersistentVolumeClaimVolumeSource(claimName=claim)) for claim in claims
    )
    return pod(name).cpu("1").of_group(group).with_spec(volumes=volumes)


def claim(name="data", volume="", storage_class="slow", *, phase="", annotations=None, size="1Gi", modes=(), **meta):
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


def volume(name="disk", *zones, storage_class="slow", phase="Bound", size="1Gi", labels=None, driver="", **spec):
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


def storage_class(name="slow", *zones, mode="WaitForFirstConsumer", provisioner="example.com/disk"):
    requirement = TopologySelectorLabelRequirement(key="zone", values=zones)
    allowed = (TopologySelectorTerm(matchLabelExpressions=(requirement,)),) if zones else ()
    return StorageClass(
        metadata=ObjectMeta(name=name), provisioner=provisioner, volumeBindingMode=mode, allowedTopologies=allowed
    )


LOCAL = storage_class(provisioner="kubernetes.io/no-provisioner")
DRIVER = "example.com/disk"


def csi_node(name, count, driver=DRIVER):
    """A node that attaches so many volumes of a driver."""
    drivers = (CSINodeDriver(name=driver, nodeID=name, allocatable=VolumeNodeResources(count=count)),)
    return CSINode(metadata=ObjectMeta(name=name), spec=CSINodeSpec(drivers=drivers))


def csi_driver(name=DRIVER, *, tells_capacity=True):
    return CSIDriver(metadata=ObjectMeta(name=name), spec=CSIDriverSpec(storageCapacity=tells_capacity))


def capacity(name, zone, amount, *, storage_class="slow", largest=None):
    topology = LabelSelector(matchLabels={"zone": zone}) if zone is not None else None
    return CSIStorageCapacity(
        metadata=ObjectMeta(name=name, namespace="storage"),
        nodeTopology=topology,
        storageClassName=storage_class,
        capacity=amount,
        maximumVolumeSize=largest,
    )
