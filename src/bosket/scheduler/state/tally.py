"""How many pods with a mark are on each node, kept as pods come and go.

The live state says which task came or went; a snapshot has the tables as they were. Marks are few, and most pods have
none.
"""

from __future__ import annotations

from collections.abc import Mapping

from bosket.scheduler.model.peer import NO_MARKS, Mark
from bosket.scheduler.model.shared import Shared
from bosket.scheduler.model.task import ACTIVE_USED, Task

Counts = Mapping[str, int]  #: by node name; nodes without such a pod aren't in it


class Tallies:
    """Counts by mark and node of all pods that are on a node, of whichever scheduler."""

    def __init__(self) -> None:
        self._counts: dict[Mark, Shared[str, int]] = {}
        self._tables: Shared[Mark, Counts] = Shared()
        self._changed: dict[Mark, None] = {}
        self._marked = 0

    @property
    def any(self) -> bool:
        """Whether any pod, on a node or not, has a mark."""
        return self._marked > 0

    def replace(self, before: Task | None, after: Task | None) -> None:
        """A task came, changed or went."""
        if before is not None:
            self._add(before, -1)
        if after is not None:
            self._add(after, 1)

    def freeze(self) -> Mapping[Mark, Counts]:
        for mark in self._changed:
            counts = self._counts.get(mark)
            if counts is None:
                self._tables.drop(mark)
            else:
                self._tables.put(mark, counts.freeze())
        self._changed.clear()
        return self._tables.freeze()

    def _add(self, task: Task, change: int) -> None:
        marks = task.pod_class.marks
        if marks is NO_MARKS:
            return
        self._marked += change
        if not task.node or task.status not in ACTIVE_USED:
            return
        leaving = task.pod.metadata.deletionTimestamp is not None
        for mark in marks.lasting if leaving else marks.lasting + marks.staying:
            counts = self._counts.get(mark)
            if counts is None:
                counts = self._counts[mark] = Shared()
            now = counts.get(task.node, 0) + change
            if now:
                counts.put(task.node, now)
            else:
                counts.drop(task.node)
                if not counts:
                    del self._counts[mark]
            self._changed[mark] = None
