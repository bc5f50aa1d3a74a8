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
from typing import NamedTuple

from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.queue import UNLIMITED
from bosket.scheduler.model.resource import NOTHING, Shares, minus, plus
from bosket.scheduler.plugins.proportion.share import allocatable_shares, cluster_total

#: What a resource weighs of which the queue may have nothing.
NO_SHARE = 1000.0


class Rank(NamedTuple):
    """What a queue is judged by."""

    order: tuple[bool, bool, int, bool, float, float]  #: rules 1 to 6; smaller goes first
    bound: Shares  #: what it may have


class QueueRanks:
    """Compares queues by what they hold and what they may have."""

    def __init__(self, session: Session) -> None:
        queues = session.snapshot.queues.queues
        self._ledger = session.queues
        self._fair_share = session.fair_share
        self._priority = [queue.priority for queue in queues]
        self._quota = [_unlimited_as_infinite(queue.quota) for queue in queues]
        self._allocatable = allocatable_shares(session.snapshot.queues, session.fair_share)
        self._bound = [_unlimited_as_infinite(shares) for shares in self._allocatable]
        #: what a queue's holdings are divided by: what it may have, or all there is
        total = cluster_total(session.snapshot)
        self._against = [
            tuple(whole if share == UNLIMITED else share for share, whole in zip(shares, total, strict=True))
            for shares in self._allocatable
        ]

    def rank(self, row: int, wanted: Shares, leaving: Shares) -> Rank:
        # Asked for twice or more a turn: written out, resource by resource.
        held = self._ledger.allocated[row]
        after = plus(held, wanted)
        fair, quota, allocatable = self._fair_share[row], self._quota[row], self._allocatable[row]
        over_utilised = fair[0] < held[0] and fair[1] < held[1] and fair[2] < held[2]
        inside_quota = after[0] <= quota[0] and after[1] <= quota[1] and after[2] <= quota[2]
        violates = (
            (not allocatable[0] and after[0] > 0)
            or (not allocatable[1] and after[1] > 0)
            or (not allocatable[2] and after[2] > 0)
        )
        dominant = self._dominant(row, minus(after, leaving) if leaving is not NOTHING else after)
        order = (over_utilised, not inside_quota, -self._priority[row], violates, dominant, self._dominant(row, held))
        return Rank(order, self._bound[row])

    def compare(self, left: Rank, right: Rank) -> float:
        if left.order != right.order:
            return -1.0 if left.order < right.order else 1.0
        if left.bound == right.bound:
            return 0.0
        pairs = list(zip(left.bound, right.bound, strict=True))
        if all(mine <= other for mine, other in pairs):
            return -1.0
        return 1.0 if all(other <= mine for mine, other in pairs) else 0.0

    def _dominant(self, row: int, held: Shares) -> float:
        gpus, millicores, memory = self._against[row]
        return max(
            held[0] / gpus if gpus else held[0] * NO_SHARE,
            held[1] / millicores if millicores else held[1] * NO_SHARE,
            held[2] / memory if memory else held[2] * NO_SHARE,
        )


def _unlimited_as_infinite(shares: Shares) -> Shares:
    gpus, millicores, memory = (math.inf if share == UNLIMITED else share for share in shares)
    return gpus, millicores, memory
