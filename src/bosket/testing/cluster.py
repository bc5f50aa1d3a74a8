"""A cluster as a list of objects, decided on in one call: what most tests of decisions begin with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from bosket.api.core import ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from bosket.api.kai import BindRequest, PodGroup, Queue, Topology
from bosket.api.node_topology import NodeResourceTopology
from bosket.api.object import KubeObject
from bosket.api.policy import PodDisruptionBudget
from bosket.api.resource_k8s import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from bosket.api.scheduling_k8s import PriorityClass
from bosket.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from bosket.scheduler.decide import decide
from bosket.scheduler.decisions import Decisions, Pipeline
from bosket.scheduler.framework.configuration import DEFAULT_PLUGINS, Configuration, SearchBudgets
from bosket.scheduler.framework.settings import Settings
from bosket.scheduler.snapshot.snapshot import Snapshot
from bosket.scheduler.snapshot.state import ClusterState

NOW = 1.75e9


def state_of(objects: Iterable[KubeObject]) -> ClusterState:
    """A live state that has seen these objects, in this order."""
    state = ClusterState()
    for each in objects:
        put(state, each)
    return state


def put(state: ClusterState, obj: KubeObject) -> None:
    """Shows the state a new or changed object."""
    match obj:
        case Pod():
            state.put_pod(obj)
        case Node():
            state.put_node(obj)
        case Queue():
            state.put_queue(obj)
        case PodGroup():
            state.put_pod_group(obj)
        case BindRequest():
            state.put_bind_request(obj)
        case PriorityClass():
            state.put_priority_class(obj)
        case Namespace():
            state.put_namespace(obj)
        case PersistentVolumeClaim():
            state.put_claim(obj)
        case PersistentVolume():
            state.put_volume(obj)
        case StorageClass():
            state.put_storage_class(obj)
        case CSINode():
            state.put_csi_node(obj)
        case CSIDriver():
            state.put_csi_driver(obj)
        case CSIStorageCapacity():
            state.put_storage_capacity(obj)
        case ConfigMap():
            state.put_config_map(obj)
        case ResourceClaim():
            state.put_resource_claim(obj)
        case ResourceSlice():
            state.put_resource_slice(obj)
        case DeviceClass():
            state.put_device_class(obj)
        case DeviceTaintRule():
            state.put_taint_rule(obj)
        case PodDisruptionBudget():
            state.put_budget(obj)
        case Topology():
            state.put_topology(obj)
        case NodeResourceTopology():
            state.put_node_topology(obj)
        case _:
            raise TypeError(f"the scheduler doesn't look at objects like {type(obj).__name__}")


def drop(state: ClusterState, obj: KubeObject) -> None:
    """Tells the state that an object is gone."""
    match obj:
        case Pod():
            state.drop_pod(obj.key)
        case Node():
            state.drop_node(obj.metadata.name)
        case Queue():
            state.drop_queue(obj.metadata.name)
        case PodGroup():
            state.drop_pod_group(obj.key)
        case BindRequest():
            state.drop_bind_request(obj)
        case PriorityClass():
            state.drop_priority_class(obj.metadata.name)
        case PodDisruptionBudget():
            state.drop_budget(obj.key)
        case NodeResourceTopology():
            state.drop_node_topology(obj.metadata.name)
        case ResourceClaim():
            state.drop_resource_claim(obj.key)
        case ResourceSlice():
            state.drop_resource_slice(obj.metadata.name)
        case DeviceClass():
            state.drop_device_class(obj.metadata.name)
        case DeviceTaintRule():
            state.drop_taint_rule(obj.metadata.name)
        case _:
            raise TypeError(f"the scheduler doesn't look at objects like {type(obj).__name__}")


def snapshot_of(*objects: KubeObject | Iterable[KubeObject], now: float = NOW) -> Snapshot:
    """A snapshot of these objects; lists of objects are flattened."""
    flat: list[KubeObject] = []
    for each in objects:
        flat += [each] if isinstance(each, KubeObject) else each
    return state_of(flat).snapshot(now)


def decided(
    *objects: KubeObject | Iterable[KubeObject], now: float = NOW, configuration: Configuration | None = None
) -> Decisions:
    """What the scheduler does with these objects."""
    return decide(snapshot_of(*objects, now=now), configuration or Configuration())


def configured(
    *actions: str,
    arguments: Mapping[str, Mapping[str, str]] | None = None,
    budgets: SearchBudgets | None = None,
    **settings: Any,
) -> Configuration:
    """These actions with the default plugins; `arguments` by plugin, the rest as in `Settings`."""
    plugins = [replace(each, arguments=(arguments or {}).get(each.name, each.arguments)) for each in DEFAULT_PLUGINS]
    return Configuration(
        actions=actions,
        plugins=tuple(plugins),
        settings=Settings(**settings),
        search_budgets=budgets or SearchBudgets(),
    )


def placements(decisions: Decisions) -> dict[str, str]:
    """Pod name → node, of what is bound at once."""
    return {bind.task.key.name: bind.node for bind in decisions.binds}


def evictions(decisions: Decisions) -> dict[str, str]:
    """Pod name → the pod group for which it goes, or moves; nothing when it goes on its own account."""
    return {each.task.key.name: each.preemptor.key.name if each.preemptor else "" for each in decisions.evictions}


def pipelines(decisions: Decisions) -> dict[str, str]:
    """Pod name → node, of those that wait for what is being released there, as it stands at the end."""
    return {task.key.name: each.node for task, each in decisions.outcome.items() if isinstance(each, Pipeline)}


def reasons(decisions: Decisions) -> dict[str, str]:
    """Pod group name → why it waits."""
    return {waiting.job.key.name: waiting.text for waiting in decisions.waiting if waiting.reasons}
