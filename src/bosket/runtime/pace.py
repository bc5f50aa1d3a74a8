"""Small news about an object wait a moment for bigger ones, so that one write tells of all.

For reconcilers whose objects follow many others: a status that counts pods changes with each of them. What matters (a
condition turned, an update went on) is written at once; a number that grew can be a second late.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from bosket.runtime.clock import Clock

K = TypeVar("K", bound=Hashable)


class Pace(Generic[K]):
    """Since when there are news of each key that wait; remembers no others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[K, float] = {}

    def __len__(self) -> int:
        """Of how many keys there are news that wait."""
        return len(self._since)

    def seconds_left(self, key: K, patience_seconds: float) -> float:
        """How long news of `key` may wait that can wait so long since there are some; 0.0: no longer, they are told."""
        now = self._clock.monotonic()
        left = self._since.setdefault(key, now) + patience_seconds - now
        if left > 0:
            return left
        self.told(key)
        return 0.0

    def told(self, key: K) -> None:
        """There is nothing that waits: all was written, or taken back, or the object is gone."""
        self._since.pop(key, None)
