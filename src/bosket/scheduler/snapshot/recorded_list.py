"""The lists of objects in a snapshot file: what each is called, what it holds, how the live state takes it in.

A kind is added here, and is then read (`recorded`) and written (`recording`); `ClusterState.objects` must know it.
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
from bosket.scheduler.snapshot.redaction import (
    bare,
    bare_bind_request,
    bare_claim,
    bare_device_class,
    bare_pod,
    bare_storage_class,
    bare_volume,
)
from bosket.scheduler.snapshot.state import ClusterState


@dataclass(frozen=True, slots=True)
class RecordedList:
    """One list of a snapshot file."""

    kind: type[KubeObject]
    put: Callable[[ClusterState, Any], None]
    sharded: bool = False  #: whether only those of the scheduler's own node pool count
    redact: Callable[[Any], KubeObject] = bare  #: what of an object is written down


#: By name, in the order in which they are read: pods last, because they are judged by what else is there.
LISTS: Final[Mapping[str, RecordedList]] = {
    "nodes": RecordedList(Node, ClusterState.put_node, sharded=True),
    "nodeResourceTopologies": RecordedList(NodeResourceTopology, ClusterState.put_node_topology),
    "priorityClasses": RecordedList(PriorityClass, ClusterState.put_priority_class),
    "queues": RecordedList(Queue, ClusterState.put_queue, sharded=True),
    "topologies": RecordedList(Topology, ClusterState.put_topology),
    "podGroups": RecordedList(PodGroup, ClusterState.put_pod_group, sharded=True),
    "namespaces": RecordedList(Namespace, ClusterState.put_namespace),  # Bosket's own; KAI records none
    "configMaps": RecordedList(ConfigMap, ClusterState.put_config_map),
    "storageClasses": RecordedList(StorageClass, ClusterState.put_storage_class, redact=bare_storage_class),
    "persistentVolumes": RecordedList(PersistentVolume, ClusterState.put_volume, redact=bare_volume),
    "persistentVolumeClaims": RecordedList(PersistentVolumeClaim, ClusterState.put_claim),
    "csiStorageCapacities": RecordedList(CSIStorageCapacity, ClusterState.put_storage_capacity),
    "csiDrivers": RecordedList(CSIDriver, ClusterState.put_csi_driver),
    "csiNodes": RecordedList(CSINode, ClusterState.put_csi_node),  # Bosket's own
    "deviceClasses": RecordedList(DeviceClass, ClusterState.put_device_class, redact=bare_device_class),
    "deviceTaintRules": RecordedList(DeviceTaintRule, ClusterState.put_taint_rule),  # Bosket's own
    "resourceSlices": RecordedList(ResourceSlice, ClusterState.put_resource_slice),
    "resourceClaims": RecordedList(ResourceClaim, ClusterState.put_resource_claim, redact=bare_claim),
    "bindRequests": RecordedList(BindRequest, ClusterState.put_bind_request, redact=bare_bind_request),
    "podDisruptionBudgets": RecordedList(PodDisruptionBudget, ClusterState.put_budget),
    "pods": RecordedList(Pod, ClusterState.put_pod, redact=bare_pod),
}
