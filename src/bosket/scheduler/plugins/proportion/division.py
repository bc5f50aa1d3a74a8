"""Fair share: how much of each resource every queue of a tree may use.

Top down: the roots divide the cluster, children divide what their parent got. First each queue gets its request up to
its quota; the rest goes to queues that request more, highest priority first, by weight, in whole units. Past usage
(`usage`, with the factor `k`) lowers the weight of queues that had more than their part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Amounts = NDArray[np.float64]  #: (queue,) of one resource, in its own unit; -1 means unlimited

UNLIMITED = -1.0


@dataclass(frozen=True, slots=True, eq=False)
class QueueDemand:
    """Quota, limit, weight, request and past usage of queues, of one resource."""

    quota: Amounts
    limit: Amounts
    weight: Amounts
    request: Amounts
    usage: Amounts  #: past usage as a part of the cluster
    priority: NDArray[np.int64]
    rank: NDArray[np.intp]  #: tie-break: the older queue first, then by name

    def requestable(self) -> Amounts:
        return np.where(self.limit == UNLIMITED, self.request, np.minimum(self.limit, self.request))

    def of(self, rows: NDArray[np.intp]) -> QueueDemand:
        return QueueDemand(
            self.quota[rows], self.limit[rows], self.weight[rows], self.request[rows], self.usage[rows],
            self.priority[rows], self.rank[rows],
        )  # fmt: skip


def divide_tree(
    total: float, demand: QueueDemand, roots: Sequence[int], children: Sequence[Sequence[int]], k: float
) -> Amounts:
    """Fair shares of a whole tree of queues."""
    shares = np.zeros(len(demand.quota))
    level: list[tuple[float, Sequence[int]]] = [(total, roots)]
    while level:
        below: list[tuple[float, Sequence[int]]] = []
        for amount, siblings in level:
            rows = np.array(siblings, dtype=np.intp)
            shares[rows] = divide(amount, demand.of(rows), k)
            below += [(float(shares[row]), children[row]) for row in siblings if children[row]]
        level = below
    return shares


def divide(total: float, demand: QueueDemand, k: float) -> Amounts:
    """Fair shares of siblings."""
    division = _Division(total, demand, k)
    if not division.is_wanted():
        return division.shares
    priorities = np.unique(demand.priority)[::-1]
    for priority in priorities:
        division.by_weight(demand.priority == priority)
    for priority in priorities:
        division.leftover(np.flatnonzero(demand.priority == priority))
    return division.shares


class _Division:
    """One resource while it is being divided among siblings."""

    def __init__(self, total: float, demand: QueueDemand, k: float) -> None:
        self._demand, self._k = demand, k
        self._requestable = demand.requestable()
        self.shares = np.minimum(np.where(demand.quota == UNLIMITED, total, demand.quota), self._requestable)
        self._left = total - float(self.shares.sum())
        self._remainders = np.zeros(len(self.shares))

    def is_wanted(self) -> bool:
        """Whether something is left, and some queue may have more."""
        return self._left > 0 and bool((self._requestable > self.shares).any())

    def by_weight(self, bucket: NDArray[np.bool_]) -> None:
        """Rounds in which each queue gets a part by weight, in whole units, until no queue requests less than its
        part."""
        weight = self._demand.weight
        while self._left > 0:
            wanted = np.maximum(self._requestable - self.shares, 0.0)
            asking = bucket & ~self._satisfied()
            pull = self._pull(asking, float(weight[bucket & (wanted > 0)].sum()))
            total_pull = float(pull.sum())
            if total_pull == 0:
                break
            part = self._left * (pull / total_pull)
            taking = asking & (weight != 0)
            content = taking & (wanted <= part)
            cut = taking & ~content
            # Whole units, as in KAI; `leftover` gives out what flooring leaves, one unit each.
            given = np.where(content, wanted, np.where(cut, np.floor(part), 0.0))
            rest = part - given
            self._remainders[content] = 0.0
            self._remainders[cut & (rest > 0)] = rest[cut & (rest > 0)]
            self.shares += given
            self._left -= float(given.sum())
            # Another round is needed only if some queue took less than its part, so that others can have more.
            if not (content & (wanted < part) & (given > 0)).any():
                break

    def leftover(self, rows: NDArray[np.intp]) -> None:
        """Gives out what flooring left, one unit each, largest remainder first."""
        remainders, rank = self._remainders, self._demand.rank
        for row in sorted(rows[remainders[rows] > 0], key=lambda row: (-remainders[row], rank[row])):
            if self._left <= 0:
                break
            given = min(1.0, self._left)
            self.shares[row] += given
            self._left -= given

    def _satisfied(self) -> NDArray[np.bool_]:
        limit = self._demand.limit
        at_limit = (limit != UNLIMITED) & (limit <= self.shares)
        return np.asarray(at_limit | (self._demand.request <= self.shares))

    def _pull(self, asking: NDArray[np.bool_], weights: float) -> Amounts:
        """The effective weight of each queue: lower for queues that used more than their part in the past."""
        if weights == 0:
            return np.zeros(len(asking))
        # Only for queues that ask: another queue's weight divided by these weights may overflow.
        normal = np.divide(self._demand.weight, weights, out=np.zeros(len(asking)), where=asking)
        return np.where(asking, np.maximum(0.0, normal + self._k * (normal - self._demand.usage)), 0.0)
