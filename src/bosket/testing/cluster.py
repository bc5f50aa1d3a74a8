"""A cluster as a list of objects, decided on in one call: what most tests of decisions begin with."""

from __future__ import annotations

from collections.abc import Iterable

from bosket.api.core import ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from bosket.api.kai import BindRequest, PodGroup, Queue
from bosket.api.object import KubeObject
from bosket.api.policy import PodDisruptionBudget
from bosket.api.scheduling_k8s import PriorityClass
from bosket.api.storage import StorageClass
from bosket.scheduler.decide import decide
from bosket.scheduler.decisions import Decisions
from bosket.scheduler.framework.configuration import Configuration
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
        case ConfigMap():
            state.put_config_map(obj)
        case PodDisruptionBudget():
            state.put_budget(obj)
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


def placements(decisions: Decisions) -> dict[str, str]:
    """Pod name → node, of what is bound at once."""
    return {bind.task.key.name: bind.node for bind in decisions.binds}


def reasons(decisions: Decisions) -> dict[str, str]:
    """Pod group name → why it waits."""
    return {waiting.job.key.name: waiting.text for waiting in decisions.waiting if waiting.reasons}
