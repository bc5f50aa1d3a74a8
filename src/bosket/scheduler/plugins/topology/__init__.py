"""Keeps the pods of a gang, or of a part of it, close together: in one domain of a topology, or as near as possible.

For each group with a constraint, domains that could hold all its pods are tried one after the other: the narrowest
level first, of each level the fullest domain first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bosket.scheduler.framework.extension import NodeSubsets
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.job import PodSet, SubGroupSet, TopologyConstraint
from bosket.scheduler.model.node import Mask
from bosket.scheduler.model.task import Task
from bosket.scheduler.model.topology import TopologyTree
from bosket.scheduler.plugins.topology.capacity import TreeCapacity
from bosket.scheduler.plugins.topology.choice import Choice
from bosket.scheduler.reason import TopologyUnsatisfied, TopologyUnusable


class Topology:
    """Registers the choice of domains."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        session.node_subsets.add(_Domains(session))


class _Domains:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._capacities: dict[str, TreeCapacity] = {}  # by topology

    def __call__(
        self, job: JobState, group: PodSet | SubGroupSet, tasks: Sequence[Task], on: Mask
    ) -> NodeSubsets | TopologyUnusable | TopologyUnsatisfied | None:
        constraint = group.topology
        if constraint is None:
            return None
        topologies = self._session.snapshot.topologies
        tree = topologies.get(constraint.topology)
        if tree is None:
            return TopologyUnusable.unknown(_where(job, group), constraint.topology, list(topologies))
        levels = _levels(tree, constraint, job, group)
        if isinstance(levels, TopologyUnusable):
            return levels
        capacity = self._capacities.get(tree.name)
        if capacity is None:
            capacity = self._capacities[tree.name] = TreeCapacity(self._session.nodes, tree)
        return Choice(self._session, job, group, capacity, levels).find(tasks, on)


def _where(job: JobState, group: PodSet | SubGroupSet) -> str:
    """The object and the field that have the constraint."""
    parent = "spec" if group is job.job.root else f"spec.subGroups[{group.name}]"
    return f"PodGroup {job.job.key}: {parent}.topologyConstraint"


def _levels(
    tree: TopologyTree, constraint: TopologyConstraint, job: JobState, group: PodSet | SubGroupSet
) -> tuple[int, int] | TopologyUnusable:
    """The numbers of the narrowest and the widest level that will do."""
    where = _where(job, group)
    if not constraint.required and not constraint.preferred:
        return TopologyUnusable.without_level(where, tree.name, group.name)

    def unknown(kind: str, level: str, known: Sequence[str]) -> TopologyUnusable:
        return TopologyUnusable.unknown_level(where, tree.name, group.name, kind=kind, level=level, known=known)

    required = tree.number_of(constraint.required) if constraint.required else 0
    if required is None:
        return unknown("required", constraint.required, tree.labels)
    preferred = tree.number_of(constraint.preferred) if constraint.preferred else required
    if preferred is None or preferred < required:
        # A preferred level that is wider than the required one is never looked at, as if it weren't there.
        return unknown("preferred", constraint.preferred, tree.labels[max(required - 1, 0) :])
    return preferred, required
