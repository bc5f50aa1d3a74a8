"""Whose turn it is: the best job of the best queue, at every level of the queue tree.

What was just placed changes the shares of the queues on its path, so these are ranked anew for the next turn, from the
root down. A queue is judged by the job that would be next in it; below a queue that isn't chosen nothing is compared
again, so that job is the one of the child that was chosen last, which is KAI's rule too.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Any

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.resource import NOTHING, Shares
from bosket.scheduler.reason import NotTried

#: Stands for the parent of the root queues.
ROOT = -1


class JobsByQueue:
    """Jobs that wait for their turn."""

    def __init__(self, session: Session, jobs: Iterable[JobState]) -> None:
        self._session = session
        self.tree = session.snapshot.queues
        self.orders = list(session.queue_order)
        self.accounts = session.queues.allocated
        #: (sort key, job), a heap each
        self._jobs: dict[int, list[tuple[tuple[object, ...], JobState]]] = {}
        self._turns: dict[int, list[_Turn]] = {}  # parent → its children that have jobs, a heap each
        self._turn_of: dict[int, _Turn] = {}
        for job in jobs:
            self._jobs.setdefault(job.queue_row, []).append((session.job_key(job), job))
        for waiting in self._jobs.values():
            waiting.sort(key=lambda entry: entry[0])
            self._cut(waiting)
        self._jobs = {row: waiting for row, waiting in self._jobs.items() if waiting}
        for row in sorted(self._jobs):
            for parent, turn in self._missing_turns(row):
                self._turns.setdefault(parent, []).append(turn)
        for parent in sorted(self._turns, key=self._depth, reverse=True):  # a queue's rank rests on those below it
            heapq.heapify(self._turns[parent])

    def push(self, job: JobState) -> None:
        row = job.queue_row
        entry = (self._session.job_key(job), job)
        if row in self._jobs:
            heapq.heappush(self._jobs[row], entry)
        else:
            self._jobs[row] = [entry]
            for parent, turn in self._missing_turns(row):
                heapq.heappush(self._turns.setdefault(parent, []), turn)
        self._outdate(row)

    def pop(self) -> JobState | None:
        row = ROOT
        while row not in self._jobs:
            turns = self._turns.get(row)
            if not turns:
                return None
            row = self._first_of(turns)
        _, job = heapq.heappop(self._jobs[row])
        if not self._jobs[row]:
            del self._jobs[row]
        self._outdate(self._drop_turns(row))
        return job

    def next_request(self, row: int) -> Shares:
        """What the job asks for that is next in a queue, or below it."""
        while row not in self._jobs:
            row = self._turns[row][0].row
        return self._jobs[row][0][1].next_request()

    def _first_of(self, turns: list[_Turn]) -> int:
        first = turns[0]
        while first.outdated:
            first.outdated = False
            first.renew()
            heapq.heapreplace(turns, first)
            first = turns[0]
        return first.row

    def _cut(self, waiting: list[tuple[tuple[object, ...], JobState]]) -> None:
        """Leaves those that the action may try. KAI drops whichever stands last in its heap, we the last in order."""
        depth = self._session.queue_depth
        if depth is None:
            return
        for _, job in waiting[depth:]:
            self._session.not_placed(job, NotTried(job.job.queue, depth))
        del waiting[depth:]

    def _missing_turns(self, row: int) -> Iterator[tuple[int, _Turn]]:
        """New turns for a queue that has jobs, and for those above it that had none before, each with its parent."""
        for child in self.tree.paths[row]:
            if child in self._turn_of:
                break
            self._turn_of[child] = _Turn(child, self)
            yield self.tree.parents[child], self._turn_of[child]

    def _drop_turns(self, row: int) -> int:
        """Takes out a queue that has no jobs left, and those above it that have none either; the first that stays.

        Each of them is the first of its siblings, because its job was chosen.
        """
        while row != ROOT and row not in self._jobs and not self._turns.get(row):
            del self._turn_of[row]
            row = self.tree.parents[row]
            heapq.heappop(self._turns[row])
        return row

    def _outdate(self, row: int) -> None:
        while row != ROOT:
            self._turn_of[row].outdated = True
            row = self.tree.parents[row]

    def _depth(self, parent: int) -> int:
        return 0 if parent == ROOT else len(self.tree.paths[parent])


class _Turn:
    """A queue among its siblings. Its rank is found again when its account or the job that is next in it changed."""

    __slots__ = ("_account", "_jobs", "_ranks", "outdated", "row")

    def __init__(self, row: int, jobs: JobsByQueue) -> None:
        self.row = row
        self.outdated = False  #: whether jobs came or went, so that another one may be next
        self._jobs = jobs
        self._account: Shares | None = None
        self._ranks: list[Any] = []

    def renew(self) -> None:
        self._account = self._jobs.accounts[self.row]
        wanted = self._jobs.next_request(self.row)
        self._ranks = [order.rank(self.row, wanted, NOTHING) for order in self._jobs.orders]

    def __lt__(self, other: _Turn) -> bool:
        jobs = self._jobs
        if jobs.accounts[self.row] is not self._account:
            self.renew()
        if jobs.accounts[other.row] is not other._account:
            other.renew()
        for order, mine, others in zip(jobs.orders, self._ranks, other._ranks, strict=True):
            opinion = order.compare(mine, others)
            if opinion:
                return opinion < 0
        left, right = jobs.tree.queues[self.row], jobs.tree.queues[other.row]
        return (left.created, left.name) < (right.created, right.name)
