"""The order in which victims are taken, and job tables for it and for simulations."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.turns import Turns
from bosket.scheduler.model.queue import QueueRow
from bosket.scheduler.model.resource import NOTHING, QueueAmounts, plus
from bosket.scheduler.solver.eviction import Victim, victim_of
from bosket.scheduler.solver.room import Held, Holdings

SortKey = tuple[object, ...]
Entries = list[tuple[SortKey, JobState]]  #: in order of the keys

_key = itemgetter(0)


class JobTable:
    """Jobs by queue, in order; kept up to date as some of them change."""

    def __init__(self, session: Session, jobs: Iterable[JobState]) -> None:
        self._session = session
        self._keys: dict[JobState, SortKey] = {}
        self.by_queue: dict[QueueRow, Entries] = {}
        for job in jobs:
            key = self._keys[job] = session.orders.job_key(job)
            self.by_queue.setdefault(job.queue_row, []).append((key, job))
        for entries in self.by_queue.values():
            entries.sort(key=_key)
        self._runs: dict[QueueRow, list[int]] = {}  # of queues that were asked about since they changed
        self._requests: dict[QueueRow, list[QueueAmounts]] = {}
        self._changed = set(self.by_queue)  # queues whose requests aren't known
        self._versions: dict[QueueRow, int] = {}  # of queues, and of those above them
        self._children: dict[QueueRow, dict[QueueRow, None]] = {}
        for row in sorted(self.by_queue):
            self._add_to_tree(row)
        self._holdings: dict[QueueRow, Holdings] = {}  # by queue, of those that were asked for

    def renew(self, job: JobState, *, keep: bool) -> None:
        """Updates for a changed job; `keep` False removes it."""
        before = self._keys.pop(job, None)
        requests = self._requests.get(job.queue_row, []) if job.queue_row not in self._changed else None
        self._runs.pop(job.queue_row, None)
        if (holdings := self._holdings.get(job.queue_row)) is not None:
            holdings.renew(job, keep=keep)
        for row in self._session.snapshot.queues.paths[job.queue_row]:
            self._versions[row] = self.version(row) + 1
        if job.queue_row not in self.by_queue:
            self._add_to_tree(job.queue_row)
        entries = self.by_queue.setdefault(job.queue_row, [])
        if before is not None:
            position = bisect_left(entries, before, key=_key)
            del entries[position]
            if requests:
                # Kept in step with the entries: recomputing requests during a simulation would see evicted jobs.
                del requests[position]
        if keep:
            key = self._keys[job] = self._session.orders.job_key(job)
            # Keys are unique (they end with the name), so the position is the one that sorting would give.
            position = bisect_right(entries, key, key=_key)
            entries.insert(position, (key, job))
            if requests is not None:
                requests.insert(position, job.next_request())
                self._requests[job.queue_row] = requests

    def find_requests(self) -> None:
        """Computes what jobs ask for in queues that changed. Must run before a simulation: narrowed or evicted jobs ask
        for something else."""
        for row in self._changed:
            self._requests[row] = [job.next_request() for _, job in self.by_queue[row]]
        self._changed.clear()

    def _add_to_tree(self, row: QueueRow) -> None:
        tree = self._session.snapshot.queues
        for child in tree.paths[row]:
            self._children.setdefault(tree.parents[child], {})[child] = None

    def children(self, row: QueueRow) -> Collection[QueueRow]:
        """The queues directly below one that hold jobs of the table now or held some before."""
        return self._children.get(row, ())

    def version(self, row: QueueRow) -> int:
        """Changes whenever a job of the queue, or of a queue below it, changes."""
        return self._versions.get(row, 0)

    def held(self, row: QueueRow) -> Held:
        """The amounts that all jobs of a queue hold. Not valid during a simulation."""
        found = self._holdings.get(row)
        if found is None:
            found = self._holdings[row] = Holdings(self._session)
            for _, job in self.by_queue.get(row, ()):
                found.renew(job, keep=True)
        return found.held()

    def requests(self, row: QueueRow) -> list[QueueAmounts]:
        """The next request of each job of a queue, as of `find_requests`."""
        return self._requests.get(row, [])

    def runs(self, row: QueueRow) -> list[int]:
        """For each job of a queue, the end of its run of jobs with the same request, as of `find_requests`."""
        found = self._runs.get(row)
        if found is None:
            found = self._runs[row] = _ends_of_runs(self.requests(row))
        return found


def _ends_of_runs(values: Sequence[object]) -> list[int]:
    ends: list[int] = []
    for _, run in groupby(values):
        count = len(list(run))
        ends += [len(ends) + count] * count
    return ends


class VictimOrder:
    """Victims, the least important first: of the queue with the most to give, the last job in order."""

    def __init__(self, session: Session, candidates: Mapping[QueueRow, Entries]) -> None:
        self._session = session
        leaves = {row: _Victims(list(entries)) for row, entries in candidates.items()}
        self._turns = Turns(session, leaves, worst_first=True)

    def pop(self) -> Victim | None:
        row = self._turns.next()
        if row is None:
            return None
        victim = self._turns.leaves[row].pop()
        self._turns.took(row)
        return victim

    def push(self, victim: Victim) -> None:
        """Puts back what is left of a victim after a part of it was taken."""
        row = victim.original.queue_row
        leaf = self._turns.leaves.get(row) or self._emptied(row)
        leaf.push(self._session.orders.job_key(victim.state), victim)
        self._turns.gave(row, leaf)

    def _emptied(self, row: QueueRow) -> _Victims:
        return self._turns.all_leaves[row]


class _Victims:
    """The victims of one queue. The queue is ranked by its account without the victims taken so far and the next
    one."""

    __slots__ = ("_entries", "_partly", "_taken")

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._partly: dict[JobState, Victim] = {}
        self._taken = NOTHING

    def __bool__(self) -> bool:
        return bool(self._entries)

    def change(self) -> tuple[QueueAmounts, QueueAmounts]:
        return NOTHING, plus(self._taken, self._victim(self._entries[-1][1]).held())

    def pop(self) -> Victim:
        _, state = self._entries.pop()
        victim = self._victim(state)
        self._partly.pop(state, None)
        self._taken = plus(self._taken, victim.held())
        return victim

    def push(self, key: SortKey, victim: Victim) -> None:
        self._partly[victim.original] = victim
        insort(self._entries, (key, victim.original), key=_key)

    def _victim(self, state: JobState) -> Victim:
        found = self._partly.get(state)
        if found is None:
            found = self._partly[state] = victim_of(state)
        return found
