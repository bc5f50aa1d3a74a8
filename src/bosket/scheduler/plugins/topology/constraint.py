"""What topology constraints of pod groups mean on the nodes that there are: which topology, which of its levels."""

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
        """The topology of a group that has a constraint, and its levels; a reason where there are none such."""
        constraint = group.topology
        assert constraint is not None
        topologies = self._session.snapshot.topologies
        tree = topologies.get(constraint.topology)
        if tree is None:
            return TopologyUnusable.unknown(_where(job, group), constraint.topology, list(topologies))
        levels = _levels(tree, constraint, job, group)
        return levels if isinstance(levels, TopologyUnusable) else (self._capacity(tree), levels)

    def may_have_room(self, constraint: TopologyConstraint, tasks: Sequence[Task], on: Mask) -> bool:
        """Whether the domain that all these nodes are in could take the tasks, as far as sums tell.

        KAI asks that before it looks at levels, and so has no code for a level that can't be followed where there is.
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
        """How many pods of which class its domains could take."""
        found = self._by_class.get(tree.name)
        if found is None:
            found = self._by_class[tree.name] = ClassCapacity(self._session, tree)
        return found

    def has_one_domain(self, constraint: TopologyConstraint) -> bool:
        """Whether all nodes are in one domain of the next narrower level than the one that is required.

        KAI looks at nothing wider then, and finds none of the required level.
        """
        tree = self._session.snapshot.topologies.get(constraint.topology)
        number = tree.number_of(constraint.required) if tree is not None else None
        if tree is None or number is None or constraint.preferred or number + 1 == len(tree.levels):
            return False
        return len(tree.levels[number + 1].names) == 1


def _where(job: JobState, group: PodSet | SubGroupSet) -> str:
    """The object and the field that have the constraint."""
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
        # A preferred level that is wider than the required one is never looked at, as if it weren't there.
        return unknown("preferred", constraint.preferred, tree.labels[max(required - 1, 0) :])
    return preferred, required
