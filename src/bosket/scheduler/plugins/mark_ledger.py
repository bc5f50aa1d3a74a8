"""How many pods with a mark are on each node in the middle of a cycle: the snapshot's tallies, and what was decided.

Pods that were evicted in this cycle are still there: as in KAI, what they select, carry and take counts until they are
gone. Only spreading doesn't count them.
"""

from __future__ import annotations

from collections.abc import Mapping

from bosket.scheduler.framework.extension import PlacementListener
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.peer import NO_MARKS, Mark
from bosket.scheduler.model.task import Task, TaskStatus
from bosket.scheduler.plugins.counts import Counts

NOWHERE: Mapping[str, int] = {}


class Tally:
    """One mark's pods by node. `log` lists changes in order, so that sums over domains can catch up."""

    __slots__ = ("log", "rows", "total")

    def __init__(self, nodes: int) -> None:
        self.rows = Counts(nodes)
        self.total = 0
        self.log: list[tuple[int, int]] = []  #: row and change

    def add(self, row: int, change: int) -> None:
        self.rows.add(row, change)
        self.total += change
        self.log.append((row, change))


class MarkLedger(PlacementListener):
    """Listens to placements. Tallies are made of the snapshot when first asked for."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tallies: dict[Mark, Tally] = {}
        self._going: set[tuple[Task, int]] = set()  # evicted in this cycle, with the row where they are
        session.extensions.placement_listeners.add(self)

    def tally(self, mark: Mark) -> Tally:
        found = self._tallies.get(mark)
        if found is None:
            found = self._tallies[mark] = self._make(mark)
        return found

    def arrived(self, task: Task, row: int) -> None:
        marks = task.pod_class.marks
        if marks is NO_MARKS:
            return
        if (task, row) in self._going:  # it stays after all
            self._going.discard((task, row))
        else:
            for mark in marks.lasting:
                self.tally(mark).add(row, 1)
        for mark in marks.staying:
            self.tally(mark).add(row, 1)

    def left(self, task: Task, row: int) -> None:
        marks = task.pod_class.marks
        if marks is NO_MARKS:
            return
        if is_evicted(self._session, task, row):
            self._going.add((task, row))
        else:
            for mark in marks.lasting:
                self.tally(mark).add(row, -1)
        for mark in marks.staying:
            self.tally(mark).add(row, -1)

    def _make(self, mark: Mark) -> Tally:
        table = self._session.snapshot.nodes
        tally = Tally(len(table))
        for node, count in self._session.snapshot.tallies.get(mark, NOWHERE).items():
            row = table.rows.get(node)
            if row is not None:
                tally.rows.add(row, count)
                tally.total += count
        return tally


def is_evicted(session: Session, task: Task, row: int) -> bool:
    """Of a task that leaves: whether it does so by eviction; otherwise a placement of this cycle is undone."""
    assert task.group is not None
    job = session.jobs.state(session.snapshot.jobs[task.group])
    return job.standing(task)[:2] == (TaskStatus.RELEASING, row)
