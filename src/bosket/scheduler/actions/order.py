"""Whose turn it is: the best job of the best queue, at every level of the queue tree.

Queues are compared anew for every turn, because what was just placed changes their shares.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session


class JobsByQueue:
    """Jobs that wait for their turn."""

    def __init__(self, session: Session, jobs: Iterable[JobState]) -> None:
        self._session = session
        self._tree = session.snapshot.queues
        self._jobs: dict[int, list[tuple[tuple[object, ...], JobState]]] = {}
        self._waiting = [0] * len(self._tree.queues)  # jobs in a queue and all below it
        for job in jobs:
            self.push(job)

    def push(self, job: JobState) -> None:
        heapq.heappush(self._jobs.setdefault(job.queue_row, []), (self._session.job_key(job), job))
        self._count(job.queue_row, 1)

    def pop(self) -> JobState | None:
        best = self._best(self._tree.roots)
        if best is None:
            return None
        row = best.queue_row
        heapq.heappop(self._jobs[row])
        self._count(row, -1)
        return best

    def _best(self, siblings: Iterable[int]) -> JobState | None:
        """The next job of these queues: that of the queue which compares first."""
        best: tuple[int, JobState] | None = None
        for row in siblings:
            if not self._waiting[row]:
                continue
            job = self._jobs[row][0][1] if self._jobs.get(row) else self._best(self._tree.children[row])
            if job is None:
                continue
            if best is None or self._session.compare_queues(row, best[0], job, best[1]) < 0:
                best = (row, job)
        return best[1] if best else None

    def _count(self, row: int, change: int) -> None:
        for ancestor in self._tree.paths[row]:
            self._waiting[ancestor] += change
