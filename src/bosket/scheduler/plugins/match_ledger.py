"""MatchLedger: pods per match key and node during a cycle: the snapshot's, and those placed since.

Pods that were evicted in this cycle still count until they are gone, as in KAI. Only topology spreading ignores them.
"""

from __future__ import annotations

from collections.abc import Mapping

from bosket.scheduler.framework.extension import PlacementListener
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.pod_affinity import NO_MATCH_KEYS, MatchKey
from bosket.scheduler.model.task import Task, TaskStatus
from bosket.scheduler.plugins.counts import Counts

NOWHERE: Mapping[str, int] = {}


class MatchCount:
    """One match key's pods by node. `log` lists changes in order, so that sums over domains can catch up."""

    __slots__ = ("log", "rows", "total")

    def __init__(self, nodes: int) -> None:
        self.rows = Counts(nodes)
        self.total = 0
        self.log: list[tuple[int, int]] = []  #: row and change

    def add(self, row: NodeRow, change: int) -> None:
        self.rows.add(row, change)
        self.total += change
        self.log.append((row, change))


class MatchLedger(PlacementListener):
    """Listens to placements. Match counts are made of the snapshot when first asked for."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._match_counts: dict[MatchKey, MatchCount] = {}
        self._going: set[tuple[Task, int]] = set()  # evicted in this cycle, with the row where they are
        session.extensions.placement_listeners.add(self)

    def match_count(self, match_key: MatchKey) -> MatchCount:
        found = self._match_counts.get(match_key)
        if found is None:
            found = self._match_counts[match_key] = self._make(match_key)
        return found

    def arrived(self, task: Task, row: NodeRow) -> None:
        match_keys = task.pod_class.match_keys
        if match_keys is NO_MATCH_KEYS:
            return
        if (task, row) in self._going:  # it stays after all
            self._going.discard((task, row))
        else:
            for match_key in match_keys.lasting:
                self.match_count(match_key).add(row, 1)
        for match_key in match_keys.staying:
            self.match_count(match_key).add(row, 1)

    def left(self, task: Task, row: NodeRow) -> None:
        match_keys = task.pod_class.match_keys
        if match_keys is NO_MATCH_KEYS:
            return
        if is_evicted(self._session, task, row):
            self._going.add((task, row))
        else:
            for match_key in match_keys.lasting:
                self.match_count(match_key).add(row, -1)
        for match_key in match_keys.staying:
            self.match_count(match_key).add(row, -1)

    def _make(self, match_key: MatchKey) -> MatchCount:
        table = self._session.snapshot.nodes
        match_count = MatchCount(len(table))
        for node, count in self._session.snapshot.match_counts.get(match_key, NOWHERE).items():
            row = table.rows.get(node)
            if row is not None:
                match_count.rows.add(row, count)
                match_count.total += count
        return match_count


def is_evicted(session: Session, task: Task, row: NodeRow) -> bool:
    """Of a task that leaves: whether it does so by eviction; otherwise a placement of this cycle is undone."""
    assert task.group is not None
    job = session.jobs.state(session.snapshot.jobs[task.group])
    return job.placement(task)[:2] == (TaskStatus.RELEASING, row)
