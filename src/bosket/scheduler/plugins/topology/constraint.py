"""Constraints: which topology and which levels the constraints of pod groups mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.job import PodSet, SubGroupSet, TopologyConstraint
from bosket.scheduler.model.node import Mask
from bosket.scheduler.model.reason import TopologyUnusable
from bosket.scheduler.model.task import Task
from bosket.scheduler.model.topology import TopologyTree
from bosket.scheduler.plugins.topology.capacity import Demand, TreeCapacity
from bosket.scheduler.plugins.topology.class_capacity import ClassCapacity

Levels = tuple[int, int]  #: the numbers of the narrowest and the widest level that will do


class Constraints:
    """The topologies of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # By topology.
        self._capacities: dict[str, TreeCapacity] = {}
        self._by_class: dict[str, ClassCapacity] = {}

    def resolve(self, job: JobState, group: PodSet | SubGroupSet) -> tuple[TreeCapacity, Levels] | TopologyUnusable:
        """The topology of a group's constraint, and its levels; or the reason why there is none."""
        constraint = group.topology
        assert constraint is not None
        topologies = self._session.snapshot.topologies
        tree = topologies.get(constraint.topology)
        if tree is None:
            return TopologyUnusable.unknown(_where(job, group), constraint.topology, list(topologies))
        levels = _levels(tree, constraint, job, group)
        return levels if isinstance(levels, TopologyUnusable) else (self._capacity(tree), levels)

    def may_have_room(self, constraint: TopologyConstraint, tasks: Sequence[Task], on: Mask) -> bool:
        """Whether the domain that contains all these nodes could hold the tasks, by sums.

        KAI asks this before it looks at levels, so it has no reason code for an unknown level where there is room.
        """
        tree = self._session.snapshot.topologies.get(constraint.topology)
        if tree is None:
            return False
        preferred = tree.number_of(constraint.preferred) if constraint.preferred else None
        narrowest = len(tree.levels) - 1 if preferred is None else preferred
        level, domain = tree.common_domain(np.flatnonzero(on & tree.inside), narrowest)
        demand = Demand(tasks, len(self._session.snapshot.resource_names))
        return bool(self._capacity(tree).fits(demand, level)[domain])

    def _capacity(self, tree: TopologyTree) -> TreeCapacity:
        found = self._capacities.get(tree.name)
        if found is None:
            found = self._capacities[tree.name] = TreeCapacity(self._session.nodes, tree)
        return found

    def by_class(self, tree: TopologyTree) -> ClassCapacity:
        """The class capacity of a topology."""
        found = self._by_class.get(tree.name)
        if found is None:
            found = self._by_class[tree.name] = ClassCapacity(self._session, tree)
        return found

    def has_one_domain(self, constraint: TopologyConstraint) -> bool:
        """Whether all nodes are in one domain of the level below the required one.

        KAI considers nothing wider then, and finds no domain of the required level.
        """
        tree = self._session.snapshot.topologies.get(constraint.topology)
        number = tree.number_of(constraint.required) if tree is not None else None
        if tree is None or number is None or constraint.preferred or number + 1 == len(tree.levels):
            return False
        return len(tree.levels[number + 1].names) == 1


def _where(job: JobState, group: PodSet | SubGroupSet) -> str:
    """Object and field of the constraint, for messages."""
    parent = "spec" if group is job.job.root else f"spec.subGroups[{group.name}]"
    return f"PodGroup {job.job.key}: {parent}.topologyConstraint"


def _levels(
    tree: TopologyTree, constraint: TopologyConstraint, job: JobState, group: PodSet | SubGroupSet
) -> Levels | TopologyUnusable:
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
        # A preferred level that is wider than the required one has no effect.
        return unknown("preferred", constraint.preferred, tree.labels[max(required - 1, 0) :])
    return preferred, required
