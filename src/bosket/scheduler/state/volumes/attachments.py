"""Attachments: which volumes are attached to which node.

The live state reports tasks that come and go. Tasks list only volumes of drivers with a limit, so most clusters count
nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping

from bosket.scheduler.model.shared import Shared
from bosket.scheduler.model.task import ACTIVE_USED, Task
from bosket.scheduler.model.volume import Attachment

Counts = Mapping[Attachment, int]  #: how many pods of a node use each


class Attachments:
    """Counts by node and volume, over the pods of all schedulers."""

    def __init__(self) -> None:
        self._counts: dict[str, Shared[Attachment, int]] = {}
        self._tables: Shared[str, Counts] = Shared()
        self._changed: dict[str, None] = {}
        self._contesting = 0

    @property
    def contested(self) -> bool:
        """Whether any pod, on a node or not, takes volumes or places to attach them from others."""
        return self._contesting > 0

    def replace(self, before: Task | None, after: Task | None) -> None:
        """Counts a task that came, changed or went."""
        if before is not None:
            self._add(before, -1)
        if after is not None:
            self._add(after, 1)

    def freeze(self) -> Mapping[str, Counts]:
        for node in self._changed:
            counts = self._counts.get(node)
            if counts is None:
                self._tables.drop(node)
            else:
                self._tables.put(node, counts.freeze())
        self._changed.clear()
        return self._tables.freeze()

    def _add(self, task: Task, change: int) -> None:
        self._contesting += change * (task.storage.contest is not None)
        if not task.storage.attached or not task.node or task.status not in ACTIVE_USED:
            return
        counts = self._counts.setdefault(task.node, Shared())
        for each in task.storage.attached:
            now = counts.get(each, 0) + change
            if now:
                counts.put(each, now)
            else:
                counts.drop(each)
        if not counts:
            del self._counts[task.node]
        self._changed[task.node] = None
