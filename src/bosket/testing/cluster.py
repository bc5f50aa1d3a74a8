"""A cluster as a list of objects, decided on in one call: what most tests of decisions begin with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.table import resource_of
from bosket.scheduler.configuration.configuration import DEFAULT_PLUGINS, Configuration, SearchBudgets
from bosket.scheduler.configuration.settings import Settings
from bosket.scheduler.decide import decide
from bosket.scheduler.model.decisions import Decisions, Pipeline
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.state.cluster_state import ClusterState

NOW = 1.75e9

#: One object of a cluster, or several.
Objects = KubeObject | Iterable[KubeObject]


def state_of(objects: Iterable[KubeObject]) -> ClusterState:
    """A live state that has seen these objects, in this order."""
    state = ClusterState()
    for each in objects:
        state.put(each)
    return state


def drop_named(state: ClusterState, kind: type[KubeObject], name: str, namespace: str = "default") -> None:
    """Tells the state that an object is gone of which only the name is at hand."""
    metadata = ObjectMeta(name=name, namespace=namespace if resource_of(kind).namespaced else "")
    state.handlers(kind).drop(KubeObject(metadata=metadata))


def snapshot_of(*objects: Objects, now: float = NOW) -> Snapshot:
    """A snapshot of these objects; lists of objects are flattened."""
    flat: list[KubeObject] = []
    for each in objects:
        flat += [each] if isinstance(each, KubeObject) else each
    return state_of(flat).snapshot(now)


def decided(*objects: Objects, now: float = NOW, configuration: Configuration | None = None) -> Decisions:
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
