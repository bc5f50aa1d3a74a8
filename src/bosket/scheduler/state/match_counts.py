"""MatchCounts: how many pods with a match key are on each node.

`Tasks` reports each task that came, changed or went; a snapshot shares the tables of its moment. Most pods have no
match key.
"""

from __future__ import annotations

from collections.abc import Mapping

from bosket.scheduler.model.pod_affinity import NO_MATCH_KEYS, MatchKey
from bosket.scheduler.model.shared import Shared
from bosket.scheduler.model.task import ACTIVE_USED, Task

Counts = Mapping[str, int]  #: count by node name; nodes with count 0 are absent


class MatchCounts:
    """Counts by match key and node, over the pods of all schedulers."""

    def __init__(self) -> None:
        self._counts: dict[MatchKey, Shared[str, int]] = {}
        self._tables: Shared[MatchKey, Counts] = Shared()
        self._changed: dict[MatchKey, None] = {}
        self._with_keys = 0

    @property
    def any(self) -> bool:
        """Whether any pod, placed or not, has a match key."""
        return self._with_keys > 0

    def replace(self, before: Task | None, after: Task | None) -> None:
        """Counts a task that came, changed or went."""
        if before is not None:
            self._add(before, -1)
        if after is not None:
            self._add(after, 1)

    def freeze(self) -> Mapping[MatchKey, Counts]:
        for match_key in self._changed:
            counts = self._counts.get(match_key)
            if counts is None:
                self._tables.drop(match_key)
            else:
                self._tables.put(match_key, counts.freeze())
        self._changed.clear()
        return self._tables.freeze()

    def _add(self, task: Task, change: int) -> None:
        match_keys = task.pod_class.match_keys
        if match_keys is NO_MATCH_KEYS:
            return
        self._with_keys += change
        if not task.node or task.status not in ACTIVE_USED:
            return
        leaving = task.pod.metadata.deletionTimestamp is not None
        for match_key in match_keys.lasting if leaving else match_keys.lasting + match_keys.staying:
            counts = self._counts.get(match_key)
            if counts is None:
                counts = self._counts[match_key] = Shared()
            now = counts.get(task.node, 0) + change
            if now:
                counts.put(task.node, now)
            else:
                counts.drop(task.node)
                if not counts:
                    del self._counts[match_key]
            self._changed[match_key] = None
