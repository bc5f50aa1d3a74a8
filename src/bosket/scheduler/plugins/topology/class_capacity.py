"""ClassCapacity: which domains could hold pods of several classes, by necessary conditions.

Sums over nodes, kept during a cycle. A yes promises nothing, a no is final: no pod is counted for more than its
request, unlike in `Demand.pods_on`, which follows KAI and counts each pod as the largest.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.extension import Rows
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import Mask
from bosket.scheduler.model.resource import GPU, PODS, ResourceIndex
from bosket.scheduler.model.task import ClassIndex, PodClass
from bosket.scheduler.model.topology import TopologyTree
from bosket.scheduler.plugins.topology.capacity import KeptSums, Sums

#: Tolerance of float sums of GPU parts.
ROUNDING = 1e-9

ByNode = NDArray[np.float64]  #: (row,)


class ClassCapacity:
    """The domains of one topology, by the present ledger."""

    def __init__(self, session: Session, tree: TopologyTree) -> None:
        self._session, self._ledger, self._tree = session, session.nodes, tree
        self._slots: dict[ClassIndex, KeptSums] = {}
        self._free: dict[ResourceIndex, KeptSums] = {}

    def may_hold(self, classes: Mapping[PodClass, int], level: int) -> Mask:
        """(domain,): whether so many pods of these classes could be there together, by these sums."""
        holds = np.ones(len(self._tree.levels[level].names), dtype=bool)
        for resource, amount in self._totals(classes).items():
            holds &= self._free_in(resource, level) >= amount - ROUNDING
        for pod_class in classes:
            wanted = sum(count * self._units(pod_class, each) for each, count in classes.items())
            holds &= self._slots_in(pod_class, level) >= wanted
        return holds

    def _free_in(self, resource: ResourceIndex, level: int) -> Sums:
        kept = self._free.get(resource)
        if kept is None:
            kept = self._free[resource] = KeptSums(self._ledger, self._tree, lambda rows: self._amounts(resource, rows))
        return kept.at(level)

    def _slots_in(self, pod_class: PodClass, level: int) -> Sums:
        kept = self._slots.get(pod_class.index)
        if kept is None:
            kept = KeptSums(self._ledger, self._tree, lambda rows: self._slots_on(pod_class, rows))
            self._slots[pod_class.index] = kept
        return kept.at(level)

    def _amounts(self, resource: ResourceIndex, rows: Rows) -> ByNode:
        """(node,): idle plus releasing amounts of a resource; 0 where a node is overdrawn."""
        ledger = self._ledger
        free = ledger.idle[resource, rows] + ledger.releasing[resource, rows]
        if resource == GPU and ledger.shared:
            free = free + ledger.shared.free_parts()[rows]
        return np.asarray(np.maximum(free, 0.0))

    def _slots_on(self, pod_class: PodClass, rows: Rows) -> ByNode:
        """(node,): how many pods of a class fit by amounts, without the limit on the number of pods."""
        allowed = self._session.views.of(pod_class).allowed[rows]
        slots = np.full(len(allowed), np.inf)
        for resource, amount in pod_class.needs:
            np.minimum(slots, np.floor(self._amounts(resource, rows) / amount + ROUNDING), out=slots)
        share = pod_class.share
        if share is not None:
            shared = self._ledger.shared
            parts = shared.memory(share)[rows] * share.devices / np.array(shared.sizes)[rows]
            np.minimum(slots, np.floor(self._amounts(GPU, rows) / parts + ROUNDING), out=slots)
        if not pod_class.needs and share is None:
            slots = self._amounts(PODS, rows)
        return np.where(allowed, slots, 0.0)

    def _totals(self, classes: Mapping[PodClass, int]) -> dict[ResourceIndex, float]:
        """By resource, what all of them ask for at the least."""
        totals: dict[ResourceIndex, float] = {}
        for pod_class, count in classes.items():
            for resource, amount in pod_class.holds:
                totals[resource] = totals.get(resource, 0.0) + count * amount
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
        units = int(min(asked.get(resource, 0.0) // amount for resource, amount in unit.needs))
        if units:
            own, others = self._session.views.of(unit).allowed, self._session.views.of(pod_class).allowed
            if others is not own and (others & ~own).any():
                return 0
        return units
