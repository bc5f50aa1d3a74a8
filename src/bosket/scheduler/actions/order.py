"""Whose turn it is: the best job of the best queue, at every level of the queue tree.

What was just placed changes the shares of the queues on its path, so these are compared anew for the next turn, from
the root down. A queue is judged by the job that would be next in it; below a queue that isn't chosen nothing is
compared again, so that job is the one of the child that was chosen last, which is KAI's rule too.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.reason import NotTried

#: Stands for the parent of the root queues.
ROOT = -1


class JobsByQueue:
    """Jobs that wait for their turn."""

    def __init__(self, session: Session, jobs: Iterable[JobState]) -> None:
        self._session = session
        self._tree = session.snapshot.queues
        self._jobs: dict[int, list[tuple[tuple[object, ...], JobState]]] = {}
        self._waiting = [0] * len(self._tree.queues)  # jobs in a queue and all below it
        self._first: dict[int, int] = {}  # parent → the child whose turn it is, as of the last comparison
        self._outdated: set[int] = set()  # parents whose first child gave or got a job since
        for job in jobs:
            self._jobs.setdefault(job.queue_row, []).append((session.job_key(job), job))
        for row, waiting in self._jobs.items():
            waiting.sort(key=lambda entry: entry[0])
            self._cut(waiting)
            self._count(row, len(waiting))
        self._compare_all(ROOT)

    def push(self, job: JobState) -> None:
        row = job.queue_row
        heapq.heappush(self._jobs.setdefault(row, []), (self._session.job_key(job), job))
        self._count(row, 1)
        for child, parent in self._steps_up(row):
            first = self._first.get(parent)
            if first is None or (first != child and self._goes_before(child, first)):
                self._first[parent] = child
            self._outdated.add(parent)

    def pop(self) -> JobState | None:
        if ROOT not in self._first:
            return None
        row = ROOT
        while row == ROOT or self._tree.children[row]:
            if row in self._outdated:
                self._outdated.discard(row)
                self._compare(row)
            row = self._first[row]
        _, job = heapq.heappop(self._jobs[row])
        self._count(row, -1)
        for child, parent in self._steps_up(row):
            self._outdated.add(parent)
            if not self._waiting[child]:
                self._compare(parent)
        return job

    def _cut(self, waiting: list[tuple[tuple[object, ...], JobState]]) -> None:
        """Leaves those that the action may try. KAI drops whichever stands last in its heap, we the last in order."""
        depth = self._session.queue_depth
        if depth is None:
            return
        for _, job in waiting[depth:]:
            self._session.not_placed(job, NotTried(job.job.queue, depth))
        del waiting[depth:]

    def _compare_all(self, parent: int) -> None:
        for child in self._children(parent):
            if self._tree.children[child]:
                self._compare_all(child)
        self._compare(parent)

    def _compare(self, parent: int) -> None:
        """Finds the child of `parent` whose turn it is; forgets about it when no job waits there."""
        self._first.pop(parent, None)
        for child in self._children(parent):
            if parent not in self._first or self._goes_before(child, self._first[parent]):
                self._first[parent] = child

    def _children(self, parent: int) -> list[int]:
        rows = self._tree.roots if parent == ROOT else self._tree.children[parent]
        return [row for row in rows if self._waiting[row]]

    def _goes_before(self, left: int, right: int) -> bool:
        return self._session.compare_queues(left, right, self._next_in(left), self._next_in(right)) < 0

    def _next_in(self, row: int) -> JobState:
        while self._tree.children[row]:
            row = self._first[row]
        return self._jobs[row][0][1]

    def _steps_up(self, row: int) -> Iterable[tuple[int, int]]:
        """Child and parent, from a leaf up to the root."""
        for child in self._tree.paths[row].tolist():
            yield child, self._tree.parents[child]

    def _count(self, row: int, change: int) -> None:
        for ancestor in self._tree.paths[row]:
            self._waiting[ancestor] += change
