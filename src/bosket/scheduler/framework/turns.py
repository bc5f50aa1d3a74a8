"""Turns: at every level of the queue tree, which child is next.

The leaves hold jobs to place or victims to take; this module only knows how the first of them would change its queue's
account. A placement changes the shares of the queues on its path, so these are ranked again for the next turn, from the
root down. Queues below one that isn't chosen are not compared again: a queue is ranked by the child that was chosen
last, which is KAI's rule too.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from bosket.scheduler.framework.extension import QueueOrder
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.queue import ROOT, QueueRow
from bosket.scheduler.model.resource import QueueAmounts

#: Cached rank of a queue: (allocated amounts, change by its first item, sort key).
Ranked = tuple[QueueAmounts | None, tuple[QueueAmounts, QueueAmounts] | None, tuple[Any, ...]]


class Leaf(Protocol):
    """The waiting items of one queue."""

    def __bool__(self) -> bool: ...

    def change(self) -> tuple[QueueAmounts, QueueAmounts]:
        """The amounts that the queue's account would gain, and lose, by the first item."""
        ...


L = TypeVar("L", bound=Leaf)


class Turns(Generic[L]):
    """Leaves by queue, and which of them is next."""

    def __init__(
        self,
        session: Session,
        leaves: dict[QueueRow, L],
        *,
        worst_first: bool = False,
        earlier: dict[QueueRow, Ranked] | None = None,
    ) -> None:
        """`leaves`: by queue row. `earlier`: by queue, its rank in an earlier action with the same order; kept up to
        date here. Between two actions little changes, so most queues needn't be ranked again."""
        self.tree = session.snapshot.queues
        self.order = queue_order(session)
        self.accounts = session.queues.allocated
        self._turn = _LastTurn if worst_first else _Turn
        self.all_leaves = leaves
        self.leaves = {row: leaf for row, leaf in leaves.items() if leaf}  #: those that aren't empty
        self._turns: dict[QueueRow, list[_Turn]] = {}  # parent → its children that have something, a heap each
        self._turn_of: dict[QueueRow, _Turn] = {}
        for row in sorted(self.leaves):
            for parent, turn in self._missing_turns(row):
                self._turns.setdefault(parent, []).append(turn)
        for parent in sorted(self._turns, key=self._depth, reverse=True):  # a queue's rank rests on those below it
            turns = self._turns[parent]
            if earlier is not None and len(turns) > 1:
                for each in turns:
                    earlier[each.row] = each.take_up(earlier.get(each.row))
            heapq.heapify(turns)

    def next(self) -> QueueRow | None:
        """The queue whose turn it is; the caller calls `took` or `gave` after changing the leaf."""
        row, leaves = ROOT, self.leaves
        while row not in leaves:
            turns = self._turns.get(row)
            if not turns:
                return None
            first = turns[0]
            # Lazy: only the first of the heap is ranked again. Between two turns only queues on the chosen path change,
            # and each of these is the first of its siblings.
            while first.outdated and len(turns) > 1:  # one that is alone needn't be ranked
                first.outdated = False
                first.renew()
                heapq.heapreplace(turns, first)
                first = turns[0]
            row = first.row
        return row

    def took(self, row: QueueRow) -> None:
        """The first item of this queue, whose turn it was, is gone."""
        if not self.leaves[row]:
            del self.leaves[row]
            row = self._drop_turns(row)
        self._outdate(row)

    def gave(self, row: QueueRow, leaf: L) -> None:
        """Another item was added to this queue."""
        if row not in self.leaves:
            self.leaves[row] = leaf
            for parent, turn in self._missing_turns(row):
                turns = self._turns.setdefault(parent, [])
                if len(turns) == 1:
                    # A single turn is never ranked in `next`; with a sibling it must be, before the heap compares them.
                    turns[0].renew()
                heapq.heappush(turns, turn)
        self._outdate(row)

    def change(self, row: QueueRow) -> tuple[QueueAmounts, QueueAmounts]:
        """What the first item of a queue, or of the queues below it, would change."""
        leaf = self.leaves.get(row)
        while leaf is None:
            row = self._turns[row][0].row
            leaf = self.leaves.get(row)
        return leaf.change()

    def _missing_turns(self, row: QueueRow) -> Iterator[tuple[QueueRow, _Turn]]:
        """New turns for a queue with items and for those of its ancestors that had none, each with its parent."""
        for child in self.tree.paths[row]:
            if child in self._turn_of:
                break
            self._turn_of[child] = self._turn(child, self)
            yield self.tree.parents[child], self._turn_of[child]

    def _drop_turns(self, row: QueueRow) -> QueueRow:
        """Removes an empty queue and its empty ancestors; returns the first ancestor that stays.

        Each of them is the first of its siblings, because it was just chosen.
        """
        while row != ROOT and row not in self.leaves and not self._turns.get(row):
            del self._turn_of[row]
            row = self.tree.parents[row]
            heapq.heappop(self._turns[row])
        return row

    def _outdate(self, row: QueueRow) -> None:
        if row != ROOT:
            for step in self.tree.paths[row]:
                self._turn_of[step].outdated = True

    def _depth(self, parent: QueueRow) -> int:
        return 0 if parent == ROOT else len(self.tree.paths[parent])


class _FirstOpinionOf:
    """Several orders as one: the first with an opinion decides."""

    def __init__(self, orders: Sequence[QueueOrder]) -> None:
        self._orders = orders

    def rank(self, row: QueueRow, wanted: QueueAmounts, leaving: QueueAmounts) -> tuple[Any, ...]:
        return tuple([order.rank(row, wanted, leaving) for order in self._orders])


def queue_order(session: Session) -> QueueOrder:
    """The order of sibling queues, by all plugins."""
    orders = session.extensions.queue_order
    return orders[0] if len(orders) == 1 else _FirstOpinionOf(orders)


class _Turn:
    """A queue among its siblings. Its rank is recomputed when its account or its first item changed."""

    __slots__ = ("_account", "_accounts", "_change", "_key", "_name", "_turns", "outdated", "row")

    def __init__(self, row: QueueRow, turns: Turns[Any]) -> None:
        self.row = row
        self.outdated = False  #: whether something came or went, so that something else may be first
        self._turns = turns
        self._accounts = turns.accounts
        self._account: QueueAmounts | None = None
        self._change: tuple[QueueAmounts, QueueAmounts] | None = None
        queue = turns.tree.queues[row]
        self._name = (queue.created, queue.name)
        # The rank, and what decides among queues of equal rank: one tuple, because these are compared without Python.
        self._key: tuple[Any, ...] = ()

    def take_up(self, ranked: Ranked | None) -> Ranked:
        """Ranks the queue, reusing `ranked` unless something changed since."""
        if ranked is not None:
            self._account, self._change, self._key = ranked
        self.renew()
        return self._account, self._change, self._key

    def renew(self) -> None:
        turns, row = self._turns, self.row
        account, change = self._accounts[row], turns.change(row)
        # Accounts are replaced when they change, so identity suffices; the rank follows from account and change alone.
        if account is self._account and change == self._change:
            return  # the next one asks for the same
        self._account, self._change = account, change
        self._key = (turns.order.rank(row, *change), self._name)

    def __lt__(self, other: _Turn) -> bool:
        # An account may have changed since the rank was computed, by a placement in a queue that shares an ancestor.
        accounts = self._accounts
        if accounts[self.row] is not self._account:
            self.renew()
        if accounts[other.row] is not other._account:
            other.renew()
        return self._key < other._key


class _LastTurn(_Turn):
    """A queue among its siblings, in reverse order."""

    __slots__ = ()

    def __lt__(self, other: _Turn) -> bool:
        return _Turn.__lt__(other, self)
