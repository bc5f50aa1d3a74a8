"""The accounts of a session: what is free on nodes and what queues hold, as decisions are made and undone.

Only a statement writes here. Every change gives back what is needed to restore the old values exactly, to the bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bosket.scheduler.model.node import NodeTable
from bosket.scheduler.model.queue import SHARED, QueueTree
from bosket.scheduler.model.resource import PODS, Vector
from bosket.scheduler.model.task import PodClass, Task
from bosket.scheduler.snapshot.snapshot import Snapshot

SHARED_PLACES = list(SHARED)


def requested_by(tasks: Iterable[Task]) -> Vector:
    """What tasks ask for together: (GPUs, millicores, bytes)."""
    total = np.zeros(len(SHARED_PLACES))
    for pod_class, count in Counter(task.pod_class for task in tasks).items():
        total += count * pod_class.request[SHARED_PLACES]
    return total


@dataclass(frozen=True, slots=True, eq=False)
class NodeChange:
    """One column of one array, as it was."""

    array: np.ndarray
    places: np.ndarray
    row: int
    before: Vector


class NodeLedger:
    """Free and releasing amounts per node. `log` lists touched rows in order, so that views can catch up."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.idle = table.idle.copy()
        self.releasing = table.releasing.copy()
        self.log: list[int] = []

    def take_idle(self, pod_class: PodClass, row: int) -> NodeChange:
        return self._take(self.idle, pod_class, row)

    def take_releasing(self, pod_class: PodClass, row: int) -> NodeChange:
        return self._take(self.releasing, pod_class, row)

    def _take(self, array: np.ndarray, pod_class: PodClass, row: int) -> NodeChange:
        places = pod_class.held
        before = array[places, row]
        array[places, row] = before - pod_class.request[places]
        self.log.append(row)
        return NodeChange(array, places, row, before)

    def restore(self, change: NodeChange) -> None:
        change.array[change.places, change.row] = change.before
        self.log.append(change.row)

    def fits_idle(self, pod_class: PodClass, row: int) -> bool:
        needed = pod_class.needed
        return bool((self.idle[needed, row] >= pod_class.request[needed]).all() and self.idle[PODS, row] >= 1)


@dataclass(frozen=True, slots=True, eq=False)
class QueueChange:
    """Accounts of a queue and its ancestors, as they were."""

    path: np.ndarray
    allocated: np.ndarray
    non_preemptible: np.ndarray | None


class QueueLedger:
    """What each queue holds, its children's holdings included: arrays over (queue, resource)."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.tree: QueueTree = snapshot.queues
        count = len(self.tree.queues)
        self.allocated = np.zeros((count, len(SHARED)))
        self.non_preemptible = np.zeros((count, len(SHARED)))
        for name, use in sorted(snapshot.use.items()):
            row = self.tree.rows.get(name)
            if row is not None:
                self.allocated[self.tree.paths[row]] += use.allocated
                self.non_preemptible[self.tree.paths[row]] += use.non_preemptible

    def charge(self, row: int, pod_class: PodClass, *, preemptible: bool) -> QueueChange:
        path = self.tree.paths[row]
        request = pod_class.request[SHARED_PLACES]
        change = QueueChange(path, self.allocated[path], None if preemptible else self.non_preemptible[path])
        self.allocated[path] += request
        if not preemptible:
            self.non_preemptible[path] += request
        return change

    def restore(self, change: QueueChange) -> None:
        self.allocated[change.path] = change.allocated
        if change.non_preemptible is not None:
            self.non_preemptible[change.path] = change.non_preemptible
