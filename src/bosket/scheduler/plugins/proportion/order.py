"""Whose turn it is among sibling queues. The first difference decides:

1. queues that hold more than their fair share of everything come last;
2. queues that stay inside their quota with the next job come first;
3. the higher queue priority;
4. queues that would use something of which they may have nothing come last;
5. the smaller dominant share, with the next job counted in and victims left out; 6. without them;
7. the one that may have less.
"""

from __future__ import annotations

import math

from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.queue import UNLIMITED
from bosket.scheduler.model.resource import NOTHING, Shares, minus
from bosket.scheduler.plugins.proportion.share import allocatable_shares, cluster_total

#: What a resource weighs of which the queue may have nothing.
NO_SHARE = 1000.0


#: Rules 1 to 6, and what the queue may have; the smaller goes first.
Rank = tuple[bool, bool, int, bool, float, float, "Bound"]


class Bound:
    """What a queue may have, rule 7: less of everything is smaller. Where neither is, they count as equal."""

    __slots__ = ("_shares",)

    def __init__(self, shares: Shares) -> None:
        self._shares = shares

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bound):
            return NotImplemented
        return self._shares == other._shares or not (self._is_within(other) or other._is_within(self))

    def __lt__(self, other: Bound) -> bool:
        return self._shares != other._shares and self._is_within(other)

    __hash__ = None  # type: ignore[assignment] # being equal isn't transitive

    def _is_within(self, other: Bound) -> bool:
        return all(mine <= theirs for mine, theirs in zip(self._shares, other._shares, strict=True))


class QueueRanks:
    """Ranks queues by what they hold and what they may have."""

    def __init__(self, session: Session) -> None:
        queues = session.snapshot.queues.queues
        self._ledger = session.queues
        self._fair_share = session.fair_share
        self._priority = [-queue.priority for queue in queues]
        self._quota = [_unlimited_as_infinite(queue.quota) for queue in queues]
        self._allocatable = allocatable_shares(session.snapshot.queues, session.fair_share)
        # By queue: an account, and what follows from it (rules 1 and 6). Accounts are replaced, not changed.
        self._standing: list[tuple[Shares | None, bool, float]] = [(None, False, 0.0)] * len(queues)
        self._lacks_something = [0.0 in shares for shares in self._allocatable]
        self._bound = [Bound(_unlimited_as_infinite(shares)) for shares in self._allocatable]
        #: what a queue's holdings are divided by: what it may have, or all there is
        total = cluster_total(session.snapshot)
        self._against = [
            tuple(whole if share == UNLIMITED else share for share, whole in zip(shares, total, strict=True))
            for shares in self._allocatable
        ]

    def rank(self, row: int, wanted: Shares, leaving: Shares) -> Rank:
        # Asked for twice or more a turn: written out, resource by resource.
        gpus, millicores, memory = held = self._ledger.allocated[row]
        after = gpus + wanted[0], millicores + wanted[1], memory + wanted[2]
        known, is_over, dominant = self._standing[row]
        if known is not held:
            fair = self._fair_share[row]
            is_over = fair[0] < gpus and fair[1] < millicores and fair[2] < memory
            dominant = self._dominant(row, held)
            self._standing[row] = (held, is_over, dominant)
        quota = self._quota[row]
        return (
            is_over,
            after[0] > quota[0] or after[1] > quota[1] or after[2] > quota[2],
            self._priority[row],
            self._lacks_something[row] and self._violates(row, after),
            self._dominant(row, minus(after, leaving) if leaving is not NOTHING else after),
            dominant,
            self._bound[row],
        )

    def _violates(self, row: int, held: Shares) -> bool:
        """Whether it holds something of which it may have nothing."""
        return any(amount > 0 and not share for amount, share in zip(held, self._allocatable[row], strict=True))

    def _dominant(self, row: int, held: Shares) -> float:
        gpus, millicores, memory = self._against[row]
        by_gpus = held[0] / gpus if gpus else held[0] * NO_SHARE
        by_cpu = held[1] / millicores if millicores else held[1] * NO_SHARE
        by_memory = held[2] / memory if memory else held[2] * NO_SHARE
        largest = by_gpus if by_gpus >= by_cpu else by_cpu
        return largest if largest >= by_memory else by_memory


def _unlimited_as_infinite(shares: Shares) -> Shares:
    gpus, millicores, memory = (math.inf if share == UNLIMITED else share for share in shares)
    return gpus, millicores, memory
