"""Which domains of a topology could hold pods of several classes, by conditions that every domain that can fulfils.

They are sums over nodes, kept while a cycle goes on. A yes promises nothing, a no is final: no pod is counted for more
than it asks for, unlike in `Demand.pods_on`, which follows KAI and counts each as the largest.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.extension import Rows
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import Mask
from bosket.scheduler.model.resource import GPU, PODS
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.model.topology import TopologyTree
from bosket.scheduler.plugins.topology.capacity import KeptSums, Sums

#: Sums of parts of GPUs are whole numbers but for this.
ROUNDING = 1e-9

ByNode = NDArray[np.float64]  #: (row,)


class ClassCapacity:
    """The domains of one topology, by what the ledger says at the moment."""

    def __init__(self, session: Session, tree: TopologyTree) -> None:
        self._session, self._ledger, self._tree = session, session.nodes, tree
        self._slots: dict[int, KeptSums] = {}  # by class
        self._free: dict[int, KeptSums] = {}  # by resource

    def may_hold(self, classes: Mapping[PodClass, int], level: int) -> Mask:
        """(domain,): whether so many pods of these classes could go there together, as far as sums tell."""
        holds = np.ones(len(self._tree.levels[level].names), dtype=bool)
        for place, amount in self._totals(classes).items():
            holds &= self._free_in(place, level) >= amount - ROUNDING
        for pod_class in classes:
            wanted = sum(count * self._units(pod_class, each) for each, count in classes.items())
            holds &= self._slots_in(pod_class, level) >= wanted
        return holds

    def _free_in(self, place: int, level: int) -> Sums:
        kept = self._free.get(place)
        if kept is None:
            kept = self._free[place] = KeptSums(self._ledger, self._tree, lambda rows: self._amounts(place, rows))
        return kept.at(level)

    def _slots_in(self, pod_class: PodClass, level: int) -> Sums:
        kept = self._slots.get(pod_class.index)
        if kept is None:
            kept = KeptSums(self._ledger, self._tree, lambda rows: self._slots_on(pod_class, rows))
            self._slots[pod_class.index] = kept
        return kept.at(level)

    def _amounts(self, place: int, rows: Rows) -> ByNode:
        """What nodes have of a resource, idle or being released; a node that holds more than it has, has nothing."""
        ledger = self._ledger
        free = ledger.idle[place, rows] + ledger.releasing[place, rows]
        if place == GPU and ledger.shared:
            free = free + ledger.shared.free_parts()[rows]
        return np.asarray(np.maximum(free, 0.0))

    def _slots_on(self, pod_class: PodClass, rows: Rows) -> ByNode:
        """How many pods of a class each node could take by what it has of what they ask for, their number apart."""
        allowed = self._session.views.of(pod_class).allowed[rows]
        slots = np.full(len(allowed), np.inf)
        for place, amount in pod_class.needs:
            np.minimum(slots, np.floor(self._amounts(place, rows) / amount + ROUNDING), out=slots)
        share = pod_class.share
        if share is not None:
            shared = self._ledger.shared
            parts = shared.memory(share)[rows] * share.devices / np.array(shared.sizes)[rows]
            np.minimum(slots, np.floor(self._amounts(GPU, rows) / parts + ROUNDING), out=slots)
        if not pod_class.needs and share is None:
            slots = self._amounts(PODS, rows)
        return np.where(allowed, slots, 0.0)

    def _totals(self, classes: Mapping[PodClass, int]) -> dict[int, float]:
        """By resource, what all of them ask for at the least."""
        totals: dict[int, float] = {}
        for pod_class, count in classes.items():
            for place, amount in pod_class.holds:
                totals[place] = totals.get(place, 0.0) + count * amount
            share = pod_class.share
            if share is not None:
                least = min((share.memory_on(size) / size for size in set(self._ledger.shared.sizes)), default=0.0)
                totals[GPU] = totals.get(GPU, 0.0) + count * share.devices * least
        return totals

    def _units(self, unit: PodClass, pod_class: PodClass) -> int:
        """Of how many pods of the class `unit` a pod takes the room, wherever it is.

        Where a node has room for n units, all that is on it takes the room of n at most. Only those count that go to no
        other nodes than the unit could.
        """
        if unit is pod_class:
            return 1
        if not unit.needs or unit.share is not None:
            return 0
        asked = dict(pod_class.needs)
        units = int(min(asked.get(place, 0.0) // amount for place, amount in unit.needs))
        if units:
            own, others = self._session.views.of(unit).allowed, self._session.views.of(pod_class).allowed
            if others is not own and (others & ~own).any():
                return 0
        return units
