"""What is free for pods of a class after a cycle, and which resource is the scarcest.

What is being released counts as free, and what the cycle placed doesn't. So the numbers stay while victims are ending:
what a victim holds is being released first and idle then, and promised to the same job all the time.
"""

from __future__ import annotations

import numpy as np

from bosket.scheduler.answers.demand import asked
from bosket.scheduler.framework.extension import ReasonBook
from bosket.scheduler.framework.ledger import NodeLedger
from bosket.scheduler.framework.shared_gpus import EVERYWHERE
from bosket.scheduler.model.decisions import Decisions, Eviction
from bosket.scheduler.model.node import Amounts2D, Mask, NodeRow
from bosket.scheduler.model.resource import CPU, GPU, MEMORY, PODS
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import PodClass, Task
from bosket.scheduler.plugins.predicates.by_node import ByNode

#: Of resources that are equally scarce the first of these is named.
_FIRST = (GPU, CPU, MEMORY)


class ClassRoom:
    """What is there for pods of one class, on the nodes that may take them by labels, taints and conditions."""

    def __init__(self, pod_class: PodClass, allowed: Mask, table: _Amounts, objections: dict[str, int]) -> None:
        self.nodes = len(allowed)  #: of the cluster
        self.allowed = int(allowed.sum())
        self.objections = objections  #: of the others, by what they say
        needs = [(place, asked(pod_class, place, table.device_mib)) for place, _ in pod_class.holds if place != PODS]
        if pod_class.share is not None:
            needs.append((GPU, asked(pod_class, GPU, table.device_mib)))
        self._amounts: dict[int, float] = dict(needs)
        places: list[int] = [*self._amounts, PODS]
        wanted = np.array([*self._amounts.values(), 1.0])
        self._places = {place: row for row, place in enumerate(places)}
        self._free = np.maximum(table.after[places][:, allowed], 0.0)
        self._whole = table.allocatable[places][:, allowed]
        #: the most that is free of one GPU, for pods that share one
        self._part = table.largest_part(allowed) if pod_class.share is not None else None
        #: how many pods of the class nodes could take: after the cycle, before it, and if they were empty
        self.slots = _slots(self._free, wanted)
        self.slots_before = _slots(np.maximum(table.before[places][:, allowed], 0.0), wanted)
        self.slots_when_empty = _slots(self._whole, wanted)
        self._lacking = dict(zip(places, (self._free < wanted[:, None]).sum(axis=1).tolist(), strict=True))

    def counts(self, place: int) -> bool:
        """Whether what nodes have of the resource limits the pods."""
        return place in self._places

    def scarcest(self, count: int) -> int:
        """The place of the resource that stops the most nodes; of equal ones, of which there is least for so many."""

        def rank(place: int) -> tuple[float, float, int]:
            free = self.free(place)
            need = self._amounts.get(place, 1.0) * count
            first = -_FIRST.index(place) if place in _FIRST else -len(_FIRST)
            return self._lacking[place], need / free if free else np.inf, first

        return max(self._lacking, key=rank)

    def free(self, place: int) -> float:
        """What is free of a resource on all nodes that may take the pods."""
        return float(self._free[self._places[place]].sum())

    def block(self, place: int) -> float:
        """The most that is free of a resource on one node, or of one GPU for pods that share GPUs."""
        if place == GPU and self._part is not None:
            return self._part
        return float(self._free[self._places[place]].max(initial=0.0))

    def total(self, place: int) -> float:
        """What nodes that may take the pods have of a resource, free or not."""
        return float(self._whole[self._places[place]].sum())

    def largest(self, place: int) -> float:
        """The most that one node has of a resource."""
        return float(self._whole[self._places[place]].max(initial=0.0))


class FreeRoom:
    """What is free after a cycle, by class of pods. Found out when it is first asked for."""

    def __init__(self, snapshot: Snapshot, decisions: Decisions) -> None:
        self._snapshot, self._decisions = snapshot, decisions
        self._book = ReasonBook()
        self._by_node = ByNode(snapshot, self._book)
        self._amounts: _Amounts | None = None
        self._rooms: dict[PodClass, ClassRoom] = {}

    def of(self, pod_class: PodClass) -> ClassRoom:
        found = self._rooms.get(pod_class)
        if found is None:
            if self._amounts is None:
                self._amounts = _Amounts(self._snapshot, self._decisions)
            codes = self._by_node.codes(pod_class, EVERYWHERE)
            numbers, counts = np.unique(codes[codes != 0], return_counts=True)
            objections = {
                self._book.text(code): count for code, count in zip(numbers.tolist(), counts.tolist(), strict=True)
            }
            found = self._rooms[pod_class] = ClassRoom(pod_class, codes == 0, self._amounts, objections)
        return found


class _Amounts:
    """(resource, node): what nodes have, and what is free before and after the cycle."""

    def __init__(self, snapshot: Snapshot, decisions: Decisions) -> None:
        table = snapshot.nodes
        ledger = NodeLedger(table)
        self.device_mib = table.devices.largest
        self.allocatable: Amounts2D = table.allocatable
        self._ledger, self._rows = ledger, table.rows
        self.before: Amounts2D = ledger.free().copy()
        self.before[GPU] = ledger.free_gpus()
        self.after = self.before.copy()
        for task, each in decisions.outcome.items():
            if isinstance(each, Eviction):
                self._add(1.0, task, each.node)
            else:
                self._add(-1.0, task, each.node)
                self._add(1.0, task, task.node)  # of one that moves

    def _add(self, sign: float, task: Task, node: str) -> None:
        row = self._rows.get(node)
        if row is None:
            return
        for place, amount in task.pod_class.holds:
            self.after[place, row] += sign * amount
        if task.pod_class.share is not None:
            self.after[GPU, row] += sign * asked(task.pod_class, GPU, self.device_mib)

    def largest_part(self, allowed: Mask) -> float:
        """The most that is free of one GPU: 1 where a whole one is. Parts that the cycle itself gave away count."""
        rows = np.flatnonzero(allowed)
        if (np.minimum(self._ledger.free()[GPU], self.after[GPU])[rows] >= 1).any():
            return 1.0
        shared, parts = self._ledger.shared, [0.0]
        for row in map(NodeRow, rows.tolist()):
            parts += [group.room(shared.sizes[row]) / shared.sizes[row] for group in shared.on(row).values()]
        return max(parts)


def _slots(amounts: Amounts2D, wanted: np.ndarray) -> int:
    if not amounts.shape[1]:
        return 0
    counts = wanted > 0  # memory of shared GPUs counts for nothing where no device is large enough to tell by
    return int(np.floor(amounts[counts] / wanted[counts, None] + 1e-9).min(axis=0).sum())
