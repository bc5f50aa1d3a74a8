"""Keeps the pods of a gang, or of a part of it, close together: in one domain of a topology, or as near as possible.

For each group with a constraint, domains that could hold all its pods are tried one after the other: the narrowest
level first, of each level the fullest domain first. What stands in the facts as KAI's is kept; where all nodes are in
one narrow domain, wider ones that contain it will do as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.extension import NodeSubsets
from bosket.scheduler.framework.job_state import NOWHERE, JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.job import PodSet, SubGroupSet, TopologyConstraint
from bosket.scheduler.model.node import Mask
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, Task
from bosket.scheduler.model.topology import OUTSIDE, TopologyLevel, TopologyTree
from bosket.scheduler.plugins.score import TOPOLOGY
from bosket.scheduler.plugins.topology.capacity import Capacity, Demand
from bosket.scheduler.reason import DomainShort, DomainsShort, TopologyUnsatisfied, TopologyUnusable

#: Domains of the preferred level get scores from 1 to this, the emptiest the most.
BEST_SCORE = 10


class Topology:
    """Registers the choice of domains."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        if session.snapshot.topologies:
            session.node_subsets.add(_Domains(session))
        else:
            session.node_subsets.add(_NoTopologies())


class _NoTopologies:
    """There are none: whoever asks for one is told so."""

    def __call__(
        self, job: JobState, group: PodSet | SubGroupSet, tasks: Sequence[Task], on: Mask
    ) -> NodeSubsets | TopologyUnusable | None:
        del job, tasks, on
        return TopologyUnusable.unknown(group.topology.topology) if group.topology is not None else None


class _Domains:
    def __init__(self, session: Session) -> None:
        self._session = session

    def __call__(
        self, job: JobState, group: PodSet | SubGroupSet, tasks: Sequence[Task], on: Mask
    ) -> NodeSubsets | TopologyUnusable | TopologyUnsatisfied | None:
        constraint = group.topology
        if constraint is None:
            return None
        tree = self._session.snapshot.topologies.get(constraint.topology)
        if tree is None:
            return TopologyUnusable.unknown(constraint.topology)
        levels = _levels(tree, constraint, group.name)
        if isinstance(levels, TopologyUnusable):
            return levels
        return _Choice(self._session, job, group, tree, levels).find(tasks, on & tree.inside)


def _levels(tree: TopologyTree, constraint: TopologyConstraint, group: str) -> tuple[int, int] | TopologyUnusable:
    """The numbers of the narrowest and the widest level that will do."""
    if not constraint.required and not constraint.preferred:
        return TopologyUnusable.without_level(tree.name, group)
    required = tree.number_of(constraint.required) if constraint.required else 0
    if required is None:
        return TopologyUnusable.unknown_level(tree.name, group, "required", constraint.required)
    preferred = tree.number_of(constraint.preferred) if constraint.preferred else required
    if preferred is None or preferred < required:
        # A preferred level that is wider than the required one is never looked at, as if it weren't there.
        return TopologyUnusable.unknown_level(tree.name, group, "preferred", constraint.preferred)
    return preferred, required


class _Choice:
    """The search for domains, for one group."""

    def __init__(
        self, session: Session, job: JobState, group: PodSet | SubGroupSet, tree: TopologyTree, levels: tuple[int, int]
    ) -> None:
        assert group.topology is not None
        self._session, self._job, self._group, self._tree = session, job, group, tree
        self._constraint = group.topology
        self._narrowest, self._widest = levels

    def find(self, tasks: Sequence[Task], on: Mask) -> NodeSubsets | TopologyUnsatisfied:
        """Domains for the tasks, of these nodes."""
        tree = self._tree
        start, start_domain = self._start(on)
        inside = tree.levels[start].nodes_of(start_domain)
        capacity = Capacity(self._session.nodes, Demand(tasks, len(self._session.snapshot.resource_names)), inside)
        if not capacity.fits(tree.levels[start])[start_domain]:
            where = "the cluster" if not start else tree.levels[start].names[start_domain]
            return self._unsatisfied(f"not enough resources in {where} to allocate the job")
        beside_others = self._nodes_beside_others()
        ranks = self._ranks(capacity, start)
        masks: list[Mask] = []
        for number in range(self._narrowest, self._widest - 1, -1):
            level = tree.levels[number]
            fitting = np.flatnonzero(capacity.fits(level) & _domains_of(level, inside & beside_others))
            masks += [on & level.nodes_of(each) for each in sorted(fitting.tolist(), key=ranks[number].__getitem__)]
        if not masks:
            return self._unsatisfied("", self._shortages(capacity, beside_others))
        return NodeSubsets(masks, self._scores(inside, ranks) if self._constraint.preferred else None)

    def _start(self, on: Mask) -> tuple[int, int]:
        """The narrowest domain that all nodes are in, no narrower than the preferred level."""
        found = (0, 0)
        for number, level in enumerate(self._tree.levels[1:], start=1):
            domains = np.unique(level.of_row[on])
            if len(domains) != 1 or (self._constraint.preferred and number > self._narrowest):
                break
            found = (number, int(domains[0]))
        return found

    def _ranks(self, capacity: Capacity, start: int) -> list[NDArray[np.intp]]:
        """By level: the place of each domain when those of one parent stand side by side, the fullest first."""
        ranks: list[NDArray[np.intp]] = []
        for number, level in enumerate(self._tree.levels):
            by_name = np.arange(len(level.names))
            order = by_name
            if number > start:
                order = np.lexsort((by_name, -capacity.fullness(level), ranks[-1][level.parents]))
            place = np.empty(len(order), dtype=np.intp)
            place[order] = by_name
            ranks.append(place)
        return ranks

    def _nodes_beside_others(self) -> Mask:
        """(node,): where the group may go, given where others of it are.

        KAI looks only at those parts of it that are to be placed, and tears a group apart whose parts come one by one.
        """
        inside = self._tree.inside
        if not self._constraint.required:
            return inside
        members = (task for each in self._group.pod_sets() for task in each.tasks)
        rows = [stands.row for stands in map(self._job.standing, members) if stands.status in ACTIVE_ALLOCATED]
        if not rows:
            return inside
        required = self._tree.levels[self._widest]
        there = {int(required.of_row[row]) for row in rows if row != NOWHERE} - {OUTSIDE}
        return np.asarray(np.isin(required.of_row, list(there)))

    def _scores(self, inside: Mask, ranks: Sequence[NDArray[np.intp]]) -> NDArray[np.float64]:
        """(node,): by the order of the preferred level's domains; others aren't looked at."""
        level = self._tree.levels[self._narrowest]
        domains = sorted(np.unique(level.of_row[inside]).tolist(), key=ranks[self._narrowest].__getitem__)
        by_domain = np.full(len(level.names), -np.inf)
        for place, domain in enumerate(domains, start=1):
            by_domain[domain] = np.floor(place / len(domains) * BEST_SCORE) * TOPOLOGY
        return np.where(inside, by_domain[level.of_row], -np.inf)

    def _shortages(self, capacity: Capacity, nodes: Mask) -> tuple[DomainShort, ...]:
        """What the domains of the widest level lack."""
        level, demand = self._tree.levels[self._widest], capacity.demand
        lacking = np.flatnonzero(~capacity.fits(level) & _domains_of(level, nodes)).tolist()
        if demand.is_uniform:
            pods = capacity.pods(level)
            return tuple(DomainShort(level.names[each], int(pods[each]), demand.count) for each in lacking)
        names, amounts = self._session.snapshot.resource_names, capacity.lacking(level)
        return tuple(
            DomainShort(
                level.names[each],
                resources=tuple(
                    (names[place], float(demand.total[place]), float(free[each]))
                    for place, free in amounts
                    if free[each] < demand.total[place]
                ),
            )
            for each in lacking
        )

    def _unsatisfied(self, because: str, domains: tuple[DomainShort, ...] = ()) -> TopologyUnsatisfied:
        job = self._job.job
        group = self._group.name if job.group.spec.subGroups else ""
        shortage = DomainsShort(domains) if domains else None
        return TopologyUnsatisfied(self._tree.name, self._constraint.required, job.key, group, because, shortage)


def _domains_of(level: TopologyLevel, nodes: Mask) -> Mask:
    """(domain,): whether some of these nodes are in it."""
    some = np.zeros(len(level.names), dtype=bool)
    some[level.of_row[nodes]] = True
    return some
