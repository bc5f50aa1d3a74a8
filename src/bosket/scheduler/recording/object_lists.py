"""The lists of objects in a snapshot file: name and kind of each.

A kind that is added here is read (`recorded`) and written (`writer`); `ClusterState` must handle it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bosket.api.core import ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from bosket.api.kai import BindRequest, PodGroup, Queue, Topology
from bosket.api.node_topology import NodeResourceTopology
from bosket.api.object import KubeObject
from bosket.api.policy import PodDisruptionBudget
from bosket.api.resource_k8s import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from bosket.api.scheduling_k8s import PriorityClass
from bosket.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from bosket.scheduler.recording.redaction import (
    bare,
    bare_bind_request,
    bare_claim,
    bare_device_class,
    bare_pod,
    bare_storage_class,
    bare_volume,
)


@dataclass(frozen=True, slots=True)
class RecordedList:
    """One list of a snapshot file."""

    kind: type[KubeObject]
    sharded: bool = False  #: whether only those of the scheduler's own node pool count
    redact: Callable[[Any], KubeObject] = bare  #: what of an object is written down


#: By name, in the order in which they are read: pods last, because they are judged by what else is there.
LISTS: Final[Mapping[str, RecordedList]] = {
    "nodes": RecordedList(Node, sharded=True),
    "nodeResourceTopologies": RecordedList(NodeResourceTopology),
    "priorityClasses": RecordedList(PriorityClass),
    "queues": RecordedList(Queue, sharded=True),
    "topologies": RecordedList(Topology),
    "podGroups": RecordedList(PodGroup, sharded=True),
    "namespaces": RecordedList(Namespace),  # Bosket's own; KAI records none
    "configMaps": RecordedList(ConfigMap),
    "storageClasses": RecordedList(StorageClass, redact=bare_storage_class),
    "persistentVolumes": RecordedList(PersistentVolume, redact=bare_volume),
    "persistentVolumeClaims": RecordedList(PersistentVolumeClaim),
    "csiStorageCapacities": RecordedList(CSIStorageCapacity),
    "csiDrivers": RecordedList(CSIDriver),
    "csiNodes": RecordedList(CSINode),  # Bosket's own
    "deviceClasses": RecordedList(DeviceClass, redact=bare_device_class),
    "deviceTaintRules": RecordedList(DeviceTaintRule),  # Bosket's own
    "resourceSlices": RecordedList(ResourceSlice),
    "resourceClaims": RecordedList(ResourceClaim, redact=bare_claim),
    "bindRequests": RecordedList(BindRequest, redact=bare_bind_request),
    "podDisruptionBudgets": RecordedList(PodDisruptionBudget),
    "pods": RecordedList(Pod, redact=bare_pod),
}
