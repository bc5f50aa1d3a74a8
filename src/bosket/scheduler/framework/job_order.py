"""JobsByQueue: pops the best job of the best queue."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from operator import itemgetter

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.turns import Ranked, Turns
from bosket.scheduler.model.queue import QueueRow
from bosket.scheduler.model.reason import NotTried
from bosket.scheduler.model.resource import NOTHING, QueueAmounts

SortKey = tuple[object, ...]

_key = itemgetter(0)


class _EarlierRanks(dict[QueueRow, Ranked]):
    """The ranks of queues in an earlier action, by row; see `Turns`."""

    def __init__(self, session: Session) -> None:
        del session  # of whose cycle they are
        super().__init__()


class JobsByQueue:
    """Pending jobs by queue."""

    def __init__(self, session: Session, jobs: Iterable[JobState]) -> None:
        self._session, self._outcome = session, session.outcome
        leaves: dict[QueueRow, _Jobs] = {}
        for job in jobs:
            leaf = leaves.get(job.queue_row)
            if leaf is None:
                leaf = leaves[job.queue_row] = _Jobs()
            leaf.entries.append((session.orders.job_key(job), job))
        depth = session.queue_depth
        for leaf in leaves.values():
            if len(leaf.entries) > 1:
                leaf.entries.sort(key=_key)
            if depth is not None:
                self._cut(leaf.entries, depth)
        self._turns = Turns(session, leaves, earlier=session.once(_EarlierRanks))

    def push(self, job: JobState) -> None:
        self._outcome.jobs_seen -= 1  # the same job once more
        leaf = self._turns.leaves.get(job.queue_row) or _Jobs()
        leaf.push(self._session.orders.job_key(job), job)
        self._turns.gave(job.queue_row, leaf)

    def pop(self) -> JobState | None:
        row = self._turns.next()
        if row is None:
            return None
        job = self._turns.leaves[row].pop()
        self._turns.took(row)
        self._outcome.jobs_seen += 1
        return job

    def _cut(self, waiting: list[tuple[SortKey, JobState]], depth: int) -> None:
        """Keeps the jobs that the action may try. KAI drops whichever is last in its heap; here the last in order is
        dropped."""
        for _, job in waiting[depth:]:
            self._session.outcome.not_placed(job, NotTried(job.job.queue, depth))
        del waiting[depth:]


class _Jobs:
    """The jobs of one queue in order. Most arrive at once, so a sorted list costs less than a heap."""

    __slots__ = ("_at", "entries")

    def __init__(self) -> None:
        self.entries: list[tuple[SortKey, JobState]] = []  #: those that had their turn included
        self._at = 0  # whose turn is next

    def __bool__(self) -> bool:
        return self._at < len(self.entries)

    def push(self, key: SortKey, job: JobState) -> None:
        insort(self.entries, (key, job), lo=self._at, key=_key)

    def pop(self) -> JobState:
        _, job = self.entries[self._at]
        self._at += 1
        return job

    def change(self) -> tuple[QueueAmounts, QueueAmounts]:
        return self.entries[self._at][1].next_request(), NOTHING
