"""Whose turn it is among sibling queues. The first difference decides:

1. a queue that holds more than its fair share of everything goes last;
2. one that stays inside its quota with its next job goes first;
3. higher queue priority;
4. one that would hold something of which it may have nothing goes last;
5. the smaller dominant share, with the next job counted in; 6. without it;
7. the one that may have less.
"""

from __future__ import annotations

import numpy as np

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.queue import UNLIMITED
from bosket.scheduler.model.resource import Vector
from bosket.scheduler.plugins.proportion.share import cluster_total

#: What a resource weighs of which the queue may have nothing.
NO_SHARE = 1000.0


class QueueOrder:
    """Compares queues by what they hold and what they may have."""

    def __init__(self, session: Session) -> None:
        queues = session.snapshot.queues.queues
        count = len(queues)
        self._ledger = session.queues
        self._fair_share = session.fair_share
        self._total = cluster_total(session.snapshot)
        self._priority = [queue.priority for queue in queues]
        quota = np.array([queue.quota for queue in queues]).reshape(count, -1)
        limit = np.array([queue.limit for queue in queues]).reshape(count, -1)
        self._quota = np.where(quota == UNLIMITED, np.inf, quota)
        entitled = np.maximum(quota, self._fair_share) if count else quota
        capped = np.where(limit == UNLIMITED, entitled, np.minimum(limit, entitled))
        #: what a queue may have without being in anybody's way; -1 for as much as there is
        self._allocatable = np.where(quota == UNLIMITED, limit, capped)

    def compare(self, left: int, right: int, left_job: JobState, right_job: JobState) -> float:
        over = int(self._over_utilised(left)) - int(self._over_utilised(right))
        if over:
            return over
        left_after = self._ledger.allocated[left] + left_job.next_request()
        right_after = self._ledger.allocated[right] + right_job.next_request()
        starved = int(self._inside_quota(right, right_after)) - int(self._inside_quota(left, left_after))
        if starved:
            return starved
        if self._priority[left] != self._priority[right]:
            return self._priority[right] - self._priority[left]
        violation = int(self._violates(left, left_after)) - int(self._violates(right, right_after))
        if violation:
            return violation
        return (
            self._dominant(left, left_after) - self._dominant(right, right_after)
            or self._dominant(left, self._ledger.allocated[left]) - self._dominant(right, self._ledger.allocated[right])
            or self._weaker(left, right)
        )

    def _over_utilised(self, row: int) -> bool:
        return bool((self._fair_share[row] < self._ledger.allocated[row]).all())

    def _inside_quota(self, row: int, held: Vector) -> bool:
        return bool((held <= self._quota[row]).all())

    def _violates(self, row: int, held: Vector) -> bool:
        return bool(((self._allocatable[row] == 0) & (held > 0)).any())

    def _dominant(self, row: int, held: Vector) -> float:
        may_have = self._allocatable[row]
        against = np.where(may_have == UNLIMITED, self._total, may_have)
        nothing = against == 0
        shares = np.where(nothing, held * NO_SHARE, held / np.where(nothing, 1.0, against))
        return float(shares.max())

    def _weaker(self, left: int, right: int) -> float:
        mine, other = self._bound(left), self._bound(right)
        if (mine <= other).all() and (mine < other).any():
            return -1.0
        if (other <= mine).all() and (other < mine).any():
            return 1.0
        return 0.0

    def _bound(self, row: int) -> Vector:
        return np.where(self._allocatable[row] == UNLIMITED, np.inf, self._allocatable[row])
