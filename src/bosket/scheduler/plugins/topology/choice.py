"""The choice of domains for one group of tasks, in the order in which they are to be tried.

Called for every group with a constraint whenever its tasks are to be placed. As in KAI, only the narrowest domain that
all nodes on offer are in is looked at, and what is inside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.extension import NodeSubsets
from bosket.scheduler.framework.job_state import NOWHERE, JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.job import PodSet, SubGroupSet
from bosket.scheduler.model.node import Mask
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, Task
from bosket.scheduler.model.topology import OUTSIDE
from bosket.scheduler.plugins.score import TOPOLOGY
from bosket.scheduler.plugins.topology.capacity import Demand, TreeCapacity
from bosket.scheduler.plugins.topology.shortage import Shortage
from bosket.scheduler.reason import DomainsShort, LevelTooWide, Scarcity, TopologyUnsatisfied

#: Domains of the preferred level get scores from 1 to this, the emptiest the most.
BEST_SCORE = 10


class Choice:
    """The search for domains, for one group."""

    def __init__(
        self,
        session: Session,
        job: JobState,
        group: PodSet | SubGroupSet,
        capacity: TreeCapacity,
        levels: tuple[int, int],
    ) -> None:
        """`levels`: the narrowest and the widest that will do."""
        assert group.topology is not None
        self._session, self._job, self._group = session, job, group
        self._tree, self._capacity = capacity.tree, capacity
        self._constraint = group.topology
        self._narrowest, self._widest = levels

    def find(self, tasks: Sequence[Task], on: Mask) -> NodeSubsets | TopologyUnsatisfied:
        """Domains for the tasks, of these nodes."""
        tree, capacity = self._tree, self._capacity
        demand = Demand(tasks, len(self._session.snapshot.resource_names))
        if not tree.inside.any():
            return self._unsatisfied(f"no node has the labels of all its levels: {', '.join(tree.labels)}")
        start, domain = self._start(np.flatnonzero(on & tree.inside))
        if not capacity.fits(demand, start)[domain]:
            where = "the cluster" if not start else tree.levels[start].names[domain]
            missing = Shortage(self._session, capacity, demand).scarcest(start, domain)
            return self._unsatisfied(f"not enough resources in {where} to allocate the job", scarcest=missing)
        inside = tree.below(start, domain)
        allowed = self._domains_beside_others(tasks)
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
        """The narrowest domain that all these nodes are in, no narrower than the preferred level."""
        found = (0, 0)
        narrowest = self._narrowest if self._constraint.preferred else len(self._tree.levels) - 1
        for number in range(1, narrowest + 1 if len(rows) else 0):
            domains = self._tree.levels[number].of_row[rows]
            if (domains != domains[0]).any():
                break
            found = (number, int(domains[0]))
        return found

    def _ranks(self, demand: Demand, start: int) -> list[NDArray[np.intp]]:
        """By level: the place of each domain when those of one parent stand side by side, the fullest first."""
        ranks: list[NDArray[np.intp]] = []
        for number, level in enumerate(self._tree.levels[: self._narrowest + 1]):
            by_name = np.arange(len(level.names))
            order = by_name
            if number > start:
                order = np.lexsort((by_name, -self._capacity.fullness(demand, number), ranks[-1][level.parents]))
            place = np.empty(len(order), dtype=np.intp)
            place[order] = by_name
            ranks.append(place)
        return ranks

    def _domains_beside_others(self, tasks: Sequence[Task]) -> list[Mask]:
        """By level: (domain,), whether the group may go there, given where others of it are.

        As in KAI, only the pod sets of which tasks are to be placed count.
        """
        levels = self._tree.levels
        everywhere = [np.ones(len(level.names), dtype=bool) for level in levels]
        if not self._constraint.required:
            return everywhere
        if self._job.only_set is not None and not self._job.only_set.active:
            return everywhere
        names = {self._job.pod_set(task).name for task in tasks}
        pod_sets = [each for each in self._group.pod_sets() if each.name in names and self._job.in_set(each).active]
        if not pod_sets:
            return everywhere
        standing = (self._job.standing(task) for each in pod_sets for task in each.tasks)
        rows = [stands.row for stands in standing if stands.status in ACTIVE_ALLOCATED]
        there = {int(levels[self._widest].of_row[row]) for row in rows if row != NOWHERE} - {OUTSIDE}
        return self._tree.below(self._widest, *there)

    def _scores(self, inside: Sequence[Mask], ranks: Sequence[NDArray[np.intp]]) -> NDArray[np.float64]:
        """(node,): by the order of the preferred level's domains; others aren't looked at."""
        level = self._tree.levels[self._narrowest]
        domains = sorted(np.flatnonzero(inside[self._narrowest]).tolist(), key=ranks[self._narrowest].__getitem__)
        # The last place is for nodes outside, whose number is -1.
        by_domain = np.full(len(level.names) + 1, -np.inf)
        for place, domain in enumerate(domains, start=1):
            by_domain[domain] = np.floor(place / len(domains) * BEST_SCORE) * TOPOLOGY
        return by_domain[level.of_row]

    def _shortage(self, demand: Demand, start: tuple[int, int], allowed: Mask) -> DomainsShort | LevelTooWide | None:
        """What the domains of the required level lack; None when there are none to lack anything."""
        if not allowed.any():
            return None
        if start[0] > self._widest:
            narrower = self._tree.levels[start[0]]
            return LevelTooWide(self._constraint.required, narrower.names[start[1]], narrower.label)
        candidates = np.flatnonzero(allowed & self._tree.below(*start)[self._widest])
        if not len(candidates):
            candidates = np.flatnonzero(allowed)
        shortage = Shortage(self._session, self._capacity, demand)
        return shortage.of_level(self._widest, self._constraint.required, candidates)

    def _unsatisfied(
        self,
        because: str,
        shortage: DomainsShort | LevelTooWide | None = None,
        scarcest: Scarcity | None = None,
    ) -> TopologyUnsatisfied:
        job = self._job.job
        group = self._group.name if job.group.spec.subGroups else ""
        required = self._constraint.required
        return TopologyUnsatisfied(self._tree.name, required, job.key, group, because, shortage, scarcest)
