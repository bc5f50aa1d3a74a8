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
from typing import Final, Literal, NamedTuple, get_args

import numpy as np

from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.queue import UNLIMITED, QueueRow
from bosket.scheduler.model.resource import NOTHING, QUEUE_RESOURCES, QueueAmounts, minus
from bosket.scheduler.plugins.proportion.share import allocatable_shares, as_shares, cluster_total

#: The share of a resource of which the queue may have nothing.
NO_SHARE = 1000.0


#: Rules 1 to 6, and what the queue may have; the smaller goes first.
Rank = tuple[bool, bool, int, bool, float, float, "Bound"]


#: What each part of a rank is about.
RankRule = Literal["above-share", "above-quota", "priority", "nothing-allowed", "share-with-job", "share", "bound"]
_RULES: Final[tuple[RankRule, ...]] = get_args(RankRule)


def deciding_rule(first: Rank, second: Rank) -> RankRule | None:
    """The rule by which the first of two queues goes before the second; None where they rank equal."""
    differing = (rule for rule, mine, theirs in zip(_RULES, first, second, strict=True) if mine != theirs)
    return next(differing, None)


class Bound:
    """What a queue may have, rule 7: less of everything is smaller. Where neither is, they count as equal."""

    __slots__ = ("_shares",)

    def __init__(self, shares: QueueAmounts) -> None:
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


class _Basis(NamedTuple):
    """What the rank of a queue rests on that stays the same while a cycle goes on."""

    fair_share: QueueAmounts
    quota: QueueAmounts  #: infinite where it is unlimited
    priority: int  #: the higher goes first: negated
    lacks_something: bool  #: whether there is a resource of which it may have nothing
    against: QueueAmounts  #: what its holdings are divided by: what it may have, or all there is
    bound: Bound


class QueueRanks:
    """Ranks queues by what they hold and what they may have."""

    def __init__(self, session: Session) -> None:
        queues, fair_share = session.snapshot.queues.queues, session.queues.fair_share
        self._ledger = session.queues
        self._allocatable = allocatable_shares(session.snapshot.queues, fair_share)
        quota = np.array([queue.quota for queue in queues]).reshape(-1, len(QUEUE_RESOURCES))
        may_have = np.array(self._allocatable).reshape(-1, len(QUEUE_RESOURCES))
        unlimited = may_have == UNLIMITED
        # Equal shares get the same Bound object: tuple comparison then finds equality by identity, without a Python
        # call.
        bounds: dict[QueueAmounts, Bound] = {}
        for shares in as_shares(np.where(unlimited, math.inf, may_have)):
            bounds.setdefault(shares, Bound(shares))
        self._bases = list(
            map(
                _Basis,
                fair_share,
                as_shares(np.where(quota == UNLIMITED, math.inf, quota)),
                [-queue.priority for queue in queues],
                (may_have == 0.0).any(axis=1).tolist(),
                as_shares(np.where(unlimited, cluster_total(session.snapshot), may_have)),
                [bounds[shares] for shares in as_shares(np.where(unlimited, math.inf, may_have))],
            )
        )
        # By queue: what it would hold after its next job, and its dominant share then. Often the job is placed, and
        # this is what the queue holds next time.
        self._after: list[tuple[QueueAmounts, float]] = [(NOTHING, -1.0)] * len(queues)

    def rank(self, row: QueueRow, wanted: QueueAmounts, leaving: QueueAmounts) -> Rank:
        # Called twice or more per turn, so written out resource by resource.
        held = gpus, millicores, memory = self._ledger.allocated[row]
        after = gpus_after, millicores_after, memory_after = (
            gpus + wanted[0],
            millicores + wanted[1],
            memory + wanted[2],
        )
        fair, quota, priority, lacks_something, against, bound = self._bases[row]
        expected, dominant = self._after[row]
        if expected != held or dominant < 0:
            dominant = _dominant(against, held)
        if leaving is NOTHING:
            dominant_after = _dominant(against, after)
            self._after[row] = (after, dominant_after)
        else:
            dominant_after = _dominant(against, minus(after, leaving))
        return (
            fair[0] < gpus and fair[1] < millicores and fair[2] < memory,
            gpus_after > quota[0] or millicores_after > quota[1] or memory_after > quota[2],
            priority,
            lacks_something and self._violates(row, after),
            dominant_after,
            dominant,
            bound,
        )

    def _violates(self, row: QueueRow, held: QueueAmounts) -> bool:
        """Whether the queue holds a resource of which it may have nothing."""
        return any(amount > 0 and not share for amount, share in zip(held, self._allocatable[row], strict=True))


def _dominant(against: QueueAmounts, held: QueueAmounts) -> float:
    """The largest of a queue's shares: of each resource, what it holds as a part of what that is divided by.

    At least 0: a victim that goes in several steps is taken off with all that is left of it at each of them, so that
    its queue may seem to hold less than nothing. As in KAI such queues are equal then, and what they hold now decides.
    """
    gpus, millicores, memory = against
    by_gpus = held[0] / gpus if gpus else held[0] * NO_SHARE
    by_cpu = held[1] / millicores if millicores else held[1] * NO_SHARE
    by_memory = held[2] / memory if memory else held[2] * NO_SHARE
    largest = by_gpus if by_gpus >= by_cpu else by_cpu
    largest = largest if largest >= by_memory else by_memory
    return largest if largest > 0.0 else 0.0
