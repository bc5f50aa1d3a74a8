"""What domains of a topology have free, and how many pods of a kind they could take: sums over nodes, level by level.

Nothing is simulated here: a domain that can't hold a gang by these sums is ruled out, the others are tried in earnest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.ledger import NodeLedger
from bosket.scheduler.model.node import Mask
from bosket.scheduler.model.resource import CPU, GPU, MEMORY, PODS, Vector
from bosket.scheduler.model.task import Task
from bosket.scheduler.model.topology import TopologyLevel

#: How full a domain counts that has nothing of what is asked for.
NOTHING_THERE = 1000.0


class Demand:
    """What tasks ask for, of which all are to go into one domain."""

    def __init__(self, tasks: Sequence[Task], width: int) -> None:
        """`width`: how many resources there are."""
        self.count = len(tasks)
        self.total: Vector = np.zeros(width)
        self.most: Vector = np.zeros(width)
        users = np.zeros(width, dtype=np.intp)
        for task in tasks:
            request = task.pod_class.demand_by(None)
            self.total[: len(request)] += request
            self.most[: len(request)] = np.maximum(self.most[: len(request)], request)
            users[: len(request)] += request > 0
        users[[CPU, MEMORY]] = self.count
        #: whether they are alike enough to be counted in pods; otherwise amounts are added up
        self.is_uniform = bool(((users == 0) | (users == self.count)).all())

    def pods_by_node(self, ledger: NodeLedger) -> NDArray[np.float64]:
        """(node,): how many of the largest of them it could take."""
        asked = np.flatnonzero(self.most > 0)
        if not len(np.setdiff1d(asked, [PODS])):
            return np.full(ledger.idle.shape[1], float(self.count))
        free = ledger.idle[asked] + ledger.releasing[asked]
        if 0 < self.most[GPU] < 1 and ledger.shared:
            free[asked == GPU] += ledger.shared.free_parts()
        pods = np.floor(free / self.most[asked][:, None]).min(axis=0)
        result: NDArray[np.float64] = np.maximum(pods, 0.0)
        return result


class Capacity:
    """The domains below one of them, by what the ledger says at the moment."""

    def __init__(self, ledger: NodeLedger, demand: Demand, inside: Mask) -> None:
        """`inside`: the nodes of the domain."""
        self._ledger, self.demand, self._inside = ledger, demand, inside

    def fits(self, level: TopologyLevel) -> Mask:
        """(domain,): whether all tasks could go there, as far as sums tell."""
        if self.demand.is_uniform:
            return np.asarray(self.pods(level) >= self.demand.count)
        return np.asarray(self.fullness(level) <= 1)

    def pods(self, level: TopologyLevel) -> NDArray[np.float64]:
        """(domain,): how many of the tasks it could take."""
        return self._sum(level, self._pods_by_node)

    def fullness(self, level: TopologyLevel) -> NDArray[np.float64]:
        """(domain,): the part of what is free that the tasks would take, of the resource that is scarcest there."""
        result = np.zeros(len(level.names))
        for place in np.flatnonzero(self.demand.total > 0).tolist():
            if place == PODS:
                continue
            free = self._sum(level, self._ledger.idle[place] + self._ledger.releasing[place])
            part = np.full(len(free), NOTHING_THERE)
            np.divide(self.demand.total[place], free, out=part, where=free > 0)
            np.maximum(result, part, out=result)
        return result

    @cached_property
    def _pods_by_node(self) -> NDArray[np.float64]:
        return self.demand.pods_by_node(self._ledger)

    def _sum(self, level: TopologyLevel, by_node: NDArray[np.float64]) -> NDArray[np.float64]:
        inside = self._inside
        sums = np.bincount(level.of_row[inside], weights=by_node[inside], minlength=len(level.names))
        return sums.astype(np.float64, copy=False)

    def lacking(self, level: TopologyLevel) -> list[tuple[int, Vector]]:
        """(place, (domain,)) of what is free there of the resources of which some domain has too little for all."""
        found = []
        for place in np.flatnonzero(self.demand.total > 0).tolist():
            free = self._sum(level, self._ledger.idle[place] + self._ledger.releasing[place])
            if (free < self.demand.total[place]).any():
                found.append((place, free))
        return found
