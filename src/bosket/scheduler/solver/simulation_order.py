"""Who is placed next in a simulation: victims and their preemptor, in the order in which jobs are placed.

Other jobs that wait have their turns as well, which changes when queues have theirs, but they aren't placed. Most of
that order can be known without going through it for every simulation:

* A queue in which (and below which) nobody takes part has the same accounts in all simulations of a search, so that
  its jobs come in the same order: its `Branch` is found once, as far as it is needed, and walked through by index.
* Siblings are compared only where several of them have somebody who takes part. Above that there is nothing to decide,
  so that queues where nobody takes part are left out.

The rules are those of `framework.turns`: queues on the path of the job that was chosen are ranked anew at the next
turn, and a queue is judged by the child that was chosen last in it.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.turns import queue_order
from bosket.scheduler.model.queue import ROOT, QueueRow
from bosket.scheduler.model.resource import NOTHING, QueueAmounts
from bosket.scheduler.solver.order import Entries, JobTable, SortKey

_key = itemgetter(0)

#: How many keys of one queue are remembered.
MOST_KEYS = 1024

#: Compares to those of siblings; the smaller goes first, and no two are equal.
RankKey = tuple[Any, float, str]


class Head(NamedTuple):
    """The values that rank a queue: the request of its first pending job."""

    key: RankKey
    request: QueueAmounts


class Ranks:
    """Caches sort keys of queues among their siblings, by the queues' accounts.

    From one simulation to the next, most queues hold the same and the same jobs wait in them.
    """

    def __init__(self, session: Session) -> None:
        self.accounts = session.queues.allocated
        self._order = queue_order(session)
        self._names = [(queue.created, queue.name) for queue in session.snapshot.queues.queues]
        #: by queue: keys by what it holds and what the first that waits asks for
        self._known: list[dict[tuple[QueueAmounts, QueueAmounts], RankKey]] = [{} for _ in self._names]

    def key(self, row: QueueRow, request: QueueAmounts) -> RankKey:
        known, basis = self._known[row], (self.accounts[row], request)
        key = known.get(basis)
        if key is None:
            # Cleared as a whole: a least-recently-used order would cost more than recomputing the few keys in use.
            if len(known) >= MOST_KEYS:
                known.clear()
            key = known[basis] = (self._order.rank(row, request, NOTHING), *self._names[row])
        return key


class Branches:
    """The branches of queues without participants, kept from one simulation to the next."""

    def __init__(self, session: Session, pending: JobTable) -> None:
        self.ranks = Ranks(session)
        self.pending = pending
        self.tree = session.snapshot.queues
        self._known: dict[QueueRow, Branch] = {}

    def branch(self, row: QueueRow) -> Branch:
        """The branch of a queue. Accounts are replaced, not changed, together with those of all ancestors: the same
        object means that nothing at or below the queue changed."""
        found, version = self._known.get(row), self.pending.version(row)
        # Identity, not equality: restoring a baseline puts the same tuples back, so branches stay valid across
        # simulations.
        if found is None or found.account is not self.ranks.accounts[row] or found.version != version:
            found = self._known[row] = Branch(self, row, version)
        return found


class Branch:
    """How a queue without participants ranks, turn by turn."""

    __slots__ = ("_more", "account", "heads", "request", "version")

    def __init__(self, branches: Branches, row: QueueRow, version: int) -> None:
        self.account, self.version = branches.ranks.accounts[row], version
        self.heads: list[Head] = []
        self.request = NOTHING  #: of the first head, once that is known
        children = branches.pending.children(row)
        self._more = _merged_heads(branches, row, children) if children else _leaf_heads(branches, row)

    def head(self, turn: int) -> Head | None:
        """The queue's head after so many turns; None when no job is left."""
        while len(self.heads) <= turn:
            head = next(self._more, None)
            if head is None:
                return None
            if not self.heads:
                self.request = head.request
            self.heads.append(head)
        return self.heads[turn]


def _leaf_heads(branches: Branches, row: QueueRow) -> Iterator[Head]:
    requests, runs = branches.pending.requests(row), branches.pending.runs(row)
    at = 0
    while at < len(requests):
        request = requests[at]
        yield Head(branches.ranks.key(row, request), request)
        at = runs[at]


def _merged_heads(branches: Branches, row: QueueRow, children: Collection[QueueRow]) -> Iterator[Head]:
    members = [member for child in children if not (member := _Still(branches.branch(child))).is_empty]
    heap = [(member.key(), member) for member in members]
    heapq.heapify(heap)
    is_outdated = False
    while heap:
        request = heap[0][1].request
        yield Head(branches.ranks.key(row, request), request)
        # The first member's key is recomputed only now, after the yielded head was used: KAI too ranks a queue by the
        # child chosen last until the next turn.
        if is_outdated:
            first = heap[0][1]
            heapq.heapreplace(heap, (first.key(), first))
        first = heap[0][1]
        first.take(alone=False)
        is_outdated = not first.is_empty
        if first.is_empty:
            heapq.heappop(heap)


class _Member(Protocol):
    """A queue among its siblings. Values that are needed at every turn are kept."""

    ours: int  #: how many that take part are left in it
    is_empty: bool
    request: QueueAmounts  #: what it is judged by

    def key(self) -> RankKey: ...

    def take(self, *, alone: bool) -> JobState | None:
        """Takes the turn of the queue's first job: returns the job if it participates, None for other jobs.

        `alone`: whether all participants are below this queue, so that other jobs' turns can be skipped.
        """
        ...


class _Still:
    """A queue without participants."""

    __slots__ = ("_at", "_branch", "_head", "is_empty", "ours", "request")

    def __init__(self, branch: Branch) -> None:
        self._branch, self.ours = branch, 0
        self._go_to(0)

    def _go_to(self, turn: int) -> None:
        self._at, self._head = turn, self._branch.head(turn)
        self.is_empty = self._head is None
        self.request = NOTHING if self._head is None else self._head.request

    def key(self) -> RankKey:
        assert self._head is not None
        return self._head.key

    def take(self, *, alone: bool) -> None:
        del alone
        self._go_to(self._at + 1)


class _Leaf:
    """The jobs of one queue: participants among others that only wait."""

    __slots__ = (
        "_at", "_excluded", "_is_our_turn", "_ours", "_pending", "_ranks", "_requests", "_row", "_table", "is_empty",
        "ours", "request",
    )  # fmt: skip

    def __init__(self, branches: Branches, row: QueueRow, ours: Entries, excluded: Collection[JobState]) -> None:
        self._ranks, self._row, self._table = branches.ranks, row, branches.pending
        self._pending, self._requests = self._table.by_queue.get(row, []), self._table.requests(row)
        self._ours, self._excluded = sorted(ours, key=_key, reverse=True), excluded
        self.ours = len(ours)
        self._go_to(0)

    def key(self) -> RankKey:
        return self._ranks.key(self._row, self.request)

    def take(self, *, alone: bool) -> JobState | None:
        if alone or self._is_our_turn:
            job = self._ours.pop()[1]
            self.ours -= 1
            self._go_to(self._at)
            return job
        # Jobs with the same request don't change the queue's rank, so a run of them is skipped in one step.
        end = bisect_right(self._pending, self._ours[-1][0], key=_key) if self._ours else len(self._pending)
        self._go_to(min(end, self._table.runs(self._row)[self._at]))
        return None

    def _go_to(self, at: int) -> None:
        """Skips so many turns of jobs that only wait."""
        pending, ours = self._pending, self._ours
        while at < len(pending) and pending[at][1] in self._excluded:
            at += 1
        self._at = at
        # `ours` is sorted in reverse, so its last entry is the first participant.
        self._is_our_turn = bool(ours) and (at >= len(pending) or ours[-1][0] < pending[at][0])
        self.is_empty = not ours and at >= len(pending)
        if self._is_our_turn:
            self.request = ours[-1][1].next_request()
        else:
            self.request = NOTHING if self.is_empty else self._requests[at]


class _Parent:
    """A queue, or the root, with participants in some of the queues below."""

    __slots__ = ("_heap", "_is_outdated", "_members", "_ranks", "_row", "is_empty", "ours", "request")

    def __init__(self, ranks: Ranks, row: QueueRow, members: list[_Member], others: list[Branch] | None) -> None:
        """`members`: those with somebody who takes part; `others`: those without, if somebody waits in them; None where
        their turns don't matter, because everybody who takes part is below this queue."""
        self._ranks, self._row = ranks, row
        self.ours = sum([member.ours for member in members])
        self._members = members
        # A branch becomes a member when its turn comes: of most it never does.
        self._heap: list[tuple[RankKey, _Member | Branch]] = []
        if len(members) > 1 or others is not None:
            self._heap = [(member.key(), member) for member in members]
            if others:
                self._heap += [(branch.heads[0].key, branch) for branch in others]
            heapq.heapify(self._heap)
        self._is_outdated = False  # whether the first one's key is no longer true
        self._look_at_first()

    def _look_at_first(self) -> None:
        heap = self._heap
        self.is_empty = not heap
        self.request = heap[0][1].request if heap else NOTHING

    def _first(self) -> _Member:
        key, first = self._heap[0]
        if first.__class__ is Branch:
            first = _Still(first)
            self._heap[0] = (key, first)
        return first  # type: ignore[return-value] # it is no branch any more

    def key(self) -> RankKey:
        return self._ranks.key(self._row, self.request)

    def take(self, *, alone: bool) -> JobState | None:
        members, heap = self._members, self._heap
        if alone and len(members) == 1:  # whatever else waits below: it would be passed over
            job = members[0].take(alone=True)
            self.ours = members[0].ours
            return job
        if self._is_outdated:
            first = heap[0][1]
            heapq.heapreplace(heap, (first.key(), first))  # type: ignore[union-attr] # it had its turn: no branch
            self._is_outdated = False
        first = self._first()
        if alone and not first.ours:
            heapq.heappop(heap)
            self._look_at_first()
            return None
        before = first.ours
        job = first.take(alone=False)
        if before != first.ours:
            self.ours += first.ours - before
            if not first.ours:
                members.remove(first)
        if first.is_empty:
            heapq.heappop(heap)
        else:
            self._is_outdated = True
        self._look_at_first()
        return job


class SimulationOrder:
    """Yields the participants in the order in which they are placed; each is placed before the next one is asked
    for."""

    def __init__(self, branches: Branches, session: Session, taking_part: Mapping[JobState, SortKey | None]) -> None:
        """`taking_part`: with their keys in the order of jobs, where these are known already."""
        self._branches, self._taking_part = branches, taking_part
        self._ours: dict[QueueRow, Entries] = {}
        below: dict[QueueRow, dict[QueueRow, None]] = {}  # by queue: its children with somebody who takes part
        for job, key in taking_part.items():
            row = job.queue_row
            ours = self._ours.get(row)
            if ours is None:
                ours = self._ours[row] = []
                for child in branches.tree.paths[row]:
                    below.setdefault(branches.tree.parents[child], {})[child] = None
            ours.append((session.orders.job_key(job) if key is None else key, job))
        self._root = self._parent(ROOT, below, alone=True) if taking_part else None

    def pop(self) -> JobState | None:
        # Turns of jobs that only wait return None; they change the order but place nothing.
        root = self._root
        while root is not None and root.ours:
            job = root.take(alone=True)
            if job is not None:
                return job
        return None

    def _parent(self, row: QueueRow, below: Mapping[QueueRow, Collection[QueueRow]], *, alone: bool) -> _Parent:
        """`alone`: whether everybody who takes part is below this queue."""
        taking_part = below[row]
        alone_below = alone and len(taking_part) == 1
        members = [self._member(child, below, alone=alone_below) for child in taking_part]
        others: list[Branch] | None = None
        if not alone:
            branches = self._branches
            still = (branches.branch(each) for each in branches.pending.children(row) if each not in taking_part)
            others = [each for each in still if each.head(0) is not None]
        return _Parent(self._branches.ranks, row, members, others)

    def _member(self, row: QueueRow, below: Mapping[QueueRow, Collection[QueueRow]], *, alone: bool) -> _Member:
        if row in below:
            return self._parent(row, below, alone=alone)
        return _Leaf(self._branches, row, self._ours[row], self._taking_part)
