"""NodeSlots: limits the concurrent binds to one node.

A request for a busy node is put back and reconciled when a slot is free, so that a slow node occupies no workers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

from bosket.api.object import ObjectKey


class NodeSlots:
    """Slots per node; with a limit of 0 there are as many as anybody wants."""

    def __init__(self, limit: int, come_again: Callable[[ObjectKey], None]) -> None:
        self._limit = limit
        self._come_again = come_again
        self._taken: Counter[str] = Counter()
        self._turned_away: defaultdict[str, dict[ObjectKey, None]] = defaultdict(dict)

    def take(self, node: str, request: ObjectKey) -> bool:
        """Takes a slot; if there is none, returns False and enqueues the request when one is free."""
        if self._limit and self._taken[node] >= self._limit:
            self._turned_away[node][request] = None
            return False
        self._taken[node] += 1
        return True

    def give_back(self, node: str) -> None:
        """Frees a slot; the request that was refused first is enqueued."""
        self._taken[node] -= 1
        if not self._taken[node]:
            del self._taken[node]
        waiting = self._turned_away.get(node)
        if waiting:
            first = next(iter(waiting))
            del waiting[first]
            self._come_again(first)
        if not waiting:
            self._turned_away.pop(node, None)
