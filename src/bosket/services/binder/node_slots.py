"""How many binds to one node may be under way at once.

A request that finds its node busy gives its worker back, and comes again when a slot is free: a slow node holds up
nobody else.
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
        """Whether there is a slot for the request; if not, it is called when there is."""
        if self._limit and self._taken[node] >= self._limit:
            self._turned_away[node][request] = None
            return False
        self._taken[node] += 1
        return True

    def give_back(self, node: str) -> None:
        """A bind is over; the one that was turned away first comes again."""
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
