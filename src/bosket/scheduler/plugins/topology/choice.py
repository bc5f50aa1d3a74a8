"""Choice: the domains for one group of tasks, in the order in which they are tried.

Called for every group with a constraint whenever its tasks are placed. As in KAI, only the narrowest domain that
contains all offered nodes is considered, with its sub-domains; for jobs whose estimates are ignored, no domain narrower
than the required level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.extension import NodeSubsets
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.job import PodSet, SubGroupSet
from bosket.scheduler.model.node import NOWHERE, Mask
from bosket.scheduler.model.reason import DomainsShort, Scarcity, TopologyUnsatisfied
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, Task
from bosket.scheduler.model.topology import OUTSIDE, TopologyTree
from bosket.scheduler.plugins.score import TOPOLOGY
from bosket.scheduler.plugins.topology.capacity import Demand, TreeCapacity
from bosket.scheduler.plugins.topology.constraint import Levels
from bosket.scheduler.plugins.topology.shortage import Shortage

#: Scores of domains of the preferred level run from 1 to this; the emptiest gets the most.
BEST_SCORE = 10


class Choice:
    """The search for domains of one group."""

    def __init__(
        self,
        session: Session,
        job: JobState,
        group: PodSet | SubGroupSet,
        capacity: TreeCapacity,
        levels: Levels,
    ) -> None:
        """`levels`: the narrowest and the widest allowed."""
        assert group.topology is not None
        self._session, self._job, self._group = session, job, group
        self._tree, self._capacity = capacity.tree, capacity
        self._constraint = group.topology
        self._narrowest, self._widest = levels

    def find(self, tasks: Sequence[Task], on: Mask) -> NodeSubsets | TopologyUnsatisfied:
        """The domains for the tasks, among these nodes."""
        tree, capacity = self._tree, self._capacity
        demand = Demand(tasks, len(self._session.snapshot.resource_names))
        if not tree.inside.any():
            return self._unsatisfied(f"no node has the labels of all its levels: {', '.join(tree.labels)}")
        start, domain = self._start(np.flatnonzero(on & tree.inside))
        may_differ = (
            self._session.outcome.ignores_estimates(self._job) and capacity.fullness(demand, start)[domain] <= 1
        )
        if not capacity.fits(demand, start)[domain] and not may_differ:
            where = "the cluster" if not start else tree.levels[start].names[domain]
            missing = Shortage(self._session, capacity, demand).scarcest(start, domain)
            return self._unsatisfied(f"not enough resources in {where} to allocate the job", scarcest=missing)
        inside = tree.below(start, domain)
        allowed = domains_beside_others(self._job, self._group, tree, self._widest, tasks)
        ranks = self._ranks(demand, start)
        domains: list[tuple[int, int]] = []
        for level in range(self._narrowest, max(self._widest, start) - 1, -1):
            fitting = np.flatnonzero(capacity.fits(demand, level) & inside[level] & allowed[level])
            domains += [(level, each) for each in sorted(fitting.tolist(), key=ranks[level].__getitem__)]
        if not domains:
            return self._unsatisfied("", self._shortage(demand, (start, domain), allowed[self._widest]))
        return NodeSubsets(
            self._masks(domains, on), self._scores(inside, ranks) if self._constraint.preferred else None
        )

    def _masks(self, domains: Sequence[tuple[int, int]], on: Mask) -> Iterator[Mask]:
        return (on & self._tree.levels[level].nodes_of(domain) for level, domain in domains)

    def _start(self, rows: NDArray[np.intp]) -> tuple[int, int]:
        """The narrowest domain that contains all these nodes, no narrower than the preferred level.

        Without a preferred level KAI goes on below the required level, too, and then finds no domain of that level
        although all nodes are in one. That is followed in the first cycle in which a job is tried.
        """
        is_capped = self._constraint.preferred or self._session.outcome.ignores_estimates(self._job)
        return self._tree.common_domain(rows, self._narrowest if is_capped else len(self._tree.levels) - 1)

    def _ranks(self, demand: Demand, start: int) -> list[NDArray[np.intp]]:
        """By level: the place of each domain when those of one parent stand side by side, the fullest first."""
        ranks: list[NDArray[np.intp]] = []
        for number, level in enumerate(self._tree.levels[: self._narrowest + 1]):
            by_name = np.arange(len(level.names))
            order = by_name
            if number > start:
                order = np.lexsort((by_name, -self._capacity.fullness(demand, number), ranks[-1][level.parents]))
            rank = np.empty(len(order), dtype=np.intp)
            rank[order] = by_name
            ranks.append(rank)
        return ranks

    def _scores(self, inside: Sequence[Mask], ranks: Sequence[NDArray[np.intp]]) -> NDArray[np.float64]:
        """(node,): by the order of the domains of the preferred level."""
        level = self._tree.levels[self._narrowest]
        domains = sorted(np.flatnonzero(inside[self._narrowest]).tolist(), key=ranks[self._narrowest].__getitem__)
        # The last index is for nodes outside every domain, whose number is -1.
        by_domain = np.full(len(level.names) + 1, -np.inf)
        for rank, domain in enumerate(domains, start=1):
            by_domain[domain] = np.floor(rank / len(domains) * BEST_SCORE) * TOPOLOGY
        return by_domain[level.of_row]

    def _shortage(self, demand: Demand, start: tuple[int, int], allowed: Mask) -> DomainsShort | None:
        """What the domains of the required level lack; None if there are no domains."""
        if not allowed.any():
            return None
        candidates = np.flatnonzero(allowed)
        if start[0] <= self._widest and len(inside := np.flatnonzero(allowed & self._tree.below(*start)[self._widest])):
            candidates = inside
        shortage = Shortage(self._session, self._capacity, demand)
        return shortage.of_level(self._widest, self._constraint.required, candidates)

    def _unsatisfied(
        self,
        because: str,
        shortage: DomainsShort | None = None,
        scarcest: Scarcity | None = None,
    ) -> TopologyUnsatisfied:
        job = self._job.job
        group = self._group.name if job.group.spec.subGroups else ""
        required = self._constraint.required
        return TopologyUnsatisfied(self._tree.name, required, job.key, group, because, shortage, scarcest)


def domains_beside_others(
    job: JobState, group: PodSet | SubGroupSet, tree: TopologyTree, widest: int, tasks: Sequence[Task]
) -> list[Mask]:
    """By level: (domain,), whether a group may be there, given where its running tasks are.

    `widest`: the required level; `tasks`: those to be placed. As in KAI, only the pod sets of these tasks count.
    """
    levels = tree.levels
    everywhere = [np.ones(len(level.names), dtype=bool) for level in levels]
    if group.topology is None or not group.topology.required:
        return everywhere
    if job.only_set is not None and not job.only_set.active:
        return everywhere
    names = {job.pod_set(task).name for task in tasks}
    pod_sets = [each for each in group.pod_sets() if each.name in names and job.in_set(each).active]
    if not pod_sets:
        return everywhere
    placements = (job.placement(task) for each in pod_sets for task in each.tasks)
    rows = [each.row for each in placements if each.status in ACTIVE_ALLOCATED]
    there = {int(levels[widest].of_row[row]) for row in rows if row != NOWHERE} - {OUTSIDE}
    return tree.below(widest, *there)
