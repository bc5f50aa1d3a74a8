"""TreeCapacity: free amounts of topology domains, and how many pods fit there: sums over nodes, level by level.

Nothing is simulated: a domain that can't hold a gang by these sums is ruled out, the others are tried. Sums are kept
during a cycle; a placement or eviction changes only the sums of its domains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.extension import Rows
from bosket.scheduler.framework.ledger import NodeLedger
from bosket.scheduler.model.node import Mask
from bosket.scheduler.model.resource import CPU, GPU, MEMORY, PODS, ResourceIndex, Vector, resources_in
from bosket.scheduler.model.task import Task
from bosket.scheduler.model.topology import TopologyTree

#: The fullness of a domain without any of the requested resources.
NOTHING_THERE = 1000.0
#: From this many changed nodes on, summing everything again is cheaper.
FEW_ROWS = 64
EVERYWHERE = slice(None)

Sums = NDArray[np.float64]  #: (domain,)
_pod_class = attrgetter("pod_class")


class Demand:
    """What tasks request that must all be in one domain."""

    def __init__(self, tasks: Sequence[Task], width: int) -> None:
        """`width`: the number of resources."""
        self.count = len(tasks)
        self.classes = Counter(map(_pod_class, tasks))
        self.total: Vector = np.zeros(width)
        self.most: Vector = np.zeros(width)
        users = np.zeros(width, dtype=np.intp)
        for pod_class, count in self.classes.items():
            request = pod_class.demand_by(None)
            self.total[: len(request)] += request * count
            self.most[: len(request)] = np.maximum(self.most[: len(request)], request)
            users[: len(request)] += (request > 0) * count
        #: the indexes of the requested resources
        self.resources = [each for each in resources_in(self.total) if each != PODS]
        users[[CPU, MEMORY]] = self.count
        #: whether they can be counted in pods; otherwise amounts are summed
        self.is_uniform = bool(((users == 0) | (users == self.count)).all())

    @property
    def is_alike(self) -> bool:
        """Whether all request the same, so that counting in pods of the largest size is exact."""
        # A vector is as long as the axis was when the class was first seen; trailing zeros don't matter.
        return len({np.trim_zeros(pod_class.demand_by(None), "b").tobytes() for pod_class in self.classes}) == 1

    def pods_on(self, ledger: NodeLedger, rows: Rows) -> NDArray[np.float64]:
        """(row,): how many of the largest pods fit on each node."""
        if not self.resources:
            return np.full(len(ledger.idle[PODS, rows]), float(self.count))
        asked = np.flatnonzero(self.most > 0)
        free = ledger.idle[asked][:, rows] + ledger.releasing[asked][:, rows]
        if 0 < self.most[GPU] < 1 and ledger.shared:
            free[asked == GPU] += ledger.shared.free_parts()[rows]
        pods = np.floor(free / self.most[asked][:, None]).min(axis=0)
        result: NDArray[np.float64] = np.maximum(pods, 0.0)
        return result


class TreeCapacity:
    """The domains of one topology, by the present ledger."""

    def __init__(self, ledger: NodeLedger, tree: TopologyTree) -> None:
        self._ledger, self.tree = ledger, tree
        self._free: dict[ResourceIndex, KeptSums] = {}
        self._pods: dict[tuple[bytes, int], KeptSums] = {}  # by what the largest pod asks for

    def fits(self, demand: Demand, level: int) -> Mask:
        """(domain,): whether all tasks could be there, by these sums."""
        if demand.is_uniform:
            return np.asarray(self.pods(demand, level) >= demand.count)
        return np.asarray(self.fullness(demand, level) <= 1)

    def pods(self, demand: Demand, level: int) -> Sums:
        """(domain,): how many of the tasks fit."""
        key = (demand.most.tobytes(), 0 if demand.resources else demand.count)
        kept = self._pods.get(key)
        if kept is None:
            ledger = self._ledger
            kept = self._pods[key] = KeptSums(ledger, self.tree, lambda rows: demand.pods_on(ledger, rows))
        return kept.at(level)

    def fullness(self, demand: Demand, level: int) -> Sums:
        """(domain,): the part of the free amount that the tasks would take, of the scarcest resource there."""
        result = np.zeros(len(self.tree.levels[level].names))
        for resource in demand.resources:
            free = self.free(resource, level)
            part = np.full(len(free), NOTHING_THERE)
            np.divide(demand.total[resource], free, out=part, where=free > 0)
            np.maximum(result, part, out=result)
        return result

    def free(self, resource: ResourceIndex, level: int) -> Sums:
        """(domain,): of a resource, what is idle or being released."""
        kept = self._free.get(resource)
        if kept is None:
            idle, releasing = self._ledger.idle[resource], self._ledger.releasing[resource]
            kept = self._free[resource] = KeptSums(self._ledger, self.tree, lambda rows: idle[rows] + releasing[rows])
        return kept.at(level)


class KeptSums:
    """An amount of every node, with its sums by domain."""

    def __init__(self, ledger: NodeLedger, tree: TopologyTree, amounts: Callable[[Rows], NDArray[np.float64]]) -> None:
        self._ledger, self._tree, self._amounts = ledger, tree, amounts
        self._seen = -1
        self._by_node: NDArray[np.float64] = np.zeros(0)
        self._sums: list[Sums] = []  # by level, from the root on

    def at(self, level: int) -> Sums:
        """The sums of a level; read-only."""
        log = self._ledger.log
        if self._seen != len(log):
            changed = set(log[self._seen :]) if self._seen >= 0 else None
            if changed is None or len(changed) > FEW_ROWS:
                self._by_node = np.array(self._amounts(EVERYWHERE))
                self._sums = self._tree.sums(self._by_node)
            else:
                rows = np.fromiter(changed, np.intp, len(changed))
                self._by_node[rows] = self._amounts(rows)
                self._tree.renew_sums(self._sums, self._by_node, rows)
            self._seen = len(log)
        return self._sums[level]
