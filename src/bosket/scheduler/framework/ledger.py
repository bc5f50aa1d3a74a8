"""The accounts of a session: what is free on nodes and what queues hold, as decisions are made and undone.

Only a statement writes here. Every change gives back the values that it overwrote; putting them back restores the
account exactly, to the bit, as long as changes are undone in the opposite order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from bosket.scheduler.model.cell import Cells, cells
from bosket.scheduler.model.node import NodeTable
from bosket.scheduler.model.queue import QueueTree
from bosket.scheduler.model.resource import NOTHING, PODS, Shares, plus
from bosket.scheduler.model.task import PodClass, Task
from bosket.scheduler.snapshot.snapshot import Snapshot

NodeCells = Cells[tuple[int, int]]  #: by resource and node
Column = list[float]  #: what a node had of each resource that a pod class holds


def requested_by(tasks: Sequence[Task]) -> Shares:
    """What tasks ask for together."""
    if len(tasks) == 1:
        return tasks[0].pod_class.shared
    gpus, millicores, memory = NOTHING
    for pod_class, count in Counter(task.pod_class for task in tasks).items():
        gpu, cpu, size = pod_class.shared
        gpus, millicores, memory = gpus + count * gpu, millicores + count * cpu, memory + count * size
    return gpus, millicores, memory


class NodeLedger:
    """Free and releasing amounts per node. `log` lists touched rows in order, so that views can catch up."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.idle = table.idle.copy()
        self.releasing = table.releasing.copy()
        #: the same memory, indexed [place, row], for single values: many times cheaper than through the array
        self.idle_at: NodeCells = cells(self.idle)
        self.releasing_at: NodeCells = cells(self.releasing)
        self.log: list[int] = []

    def take(self, at: NodeCells, pod_class: PodClass, row: int) -> Column:
        """Takes a pod's request from `idle_at` or `releasing_at`; returns what was there."""
        before = []
        for place, amount in pod_class.holds:
            had = at[place, row]
            before.append(had)
            at[place, row] = had - amount
        self.log.append(row)
        return before

    def give(self, at: NodeCells, pod_class: PodClass, row: int) -> Column:
        before = []
        for place, amount in pod_class.holds:
            had = at[place, row]
            before.append(had)
            at[place, row] = had + amount
        self.log.append(row)
        return before

    def reserve(self, row: int, amounts: Iterable[tuple[int, float]]) -> None:
        """Keeps (place, amount)s of a node for somebody who isn't there yet, till the end of the cycle."""
        for place, amount in amounts:
            self.releasing_at[place, row] -= amount
        self.log.append(row)

    def restore(self, at: NodeCells, pod_class: PodClass, row: int, before: Column) -> None:
        for (place, _), had in zip(pod_class.holds, before, strict=True):
            at[place, row] = had
        self.log.append(row)

    def fits_idle(self, pod_class: PodClass, row: int) -> bool:
        at = self.idle_at
        for place, amount in pod_class.needs:
            if at[place, row] < amount:
                return False
        return at[PODS, row] >= 1

    def fits(self, pod_class: PodClass, row: int) -> bool:
        """Whether the request fits into what is free or being released."""
        idle, releasing = self.idle_at, self.releasing_at
        for place, amount in pod_class.needs:
            if idle[place, row] + releasing[place, row] < amount:
                return False
        return idle[PODS, row] + releasing[PODS, row] >= 1


QueueAccounts = list[Shares]  #: of a queue and its ancestors, as they were


class QueueLedger:
    """What each queue holds, its children's holdings included.

    Accounts are replaced, not changed: whoever keeps one knows that nothing happened while it is still the same object.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.tree: QueueTree = snapshot.queues
        count = len(self.tree.queues)
        self.allocated: list[Shares] = [NOTHING] * count
        self.non_preemptible: list[Shares] = [NOTHING] * count
        for name, use in sorted(snapshot.use.items()):
            row = self.tree.rows.get(name)
            for step in self.tree.paths[row] if row is not None else ():
                self.allocated[step] = plus(self.allocated[step], use.allocated)
                self.non_preemptible[step] = plus(self.non_preemptible[step], use.non_preemptible)

    def charge(self, row: int, amount: Shares, *, preemptible: bool) -> QueueAccounts:
        return self._change(row, amount, preemptible=preemptible, sign=1)

    def credit(self, row: int, amount: Shares, *, preemptible: bool) -> QueueAccounts:
        return self._change(row, amount, preemptible=preemptible, sign=-1)

    def _change(self, row: int, amount: Shares, *, preemptible: bool, sign: int) -> QueueAccounts:
        gpus, millicores, memory = sign * amount[0], sign * amount[1], sign * amount[2]
        before: QueueAccounts = []
        for accounts in (self.allocated,) if preemptible else (self.allocated, self.non_preemptible):
            for step in self.tree.paths[row]:
                had = accounts[step]
                before.append(had)
                accounts[step] = (had[0] + gpus, had[1] + millicores, had[2] + memory)
        return before

    def restore(self, row: int, before: QueueAccounts) -> None:
        path = self.tree.paths[row]
        for step, had in zip(path, before, strict=False):
            self.allocated[step] = had
        for step, had in zip(path, before[len(path) :], strict=False):
            self.non_preemptible[step] = had
