"""Debounce: minor changes of an object are collected for a moment, so that one write carries all of them.

For reconcilers whose objects follow many others: a status that counts pods changes with each of them. A reconciler
writes an important change (a condition turned, an update progressed) at once; a counter may be a second late.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from bosket.runtime.clock import Clock

K = TypeVar("K", bound=Hashable)


class Debounce(Generic[K]):
    """The time of the first unwritten change of each key. Keys without unwritten changes aren't kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[K, float] = {}

    def __len__(self) -> int:
        """The number of keys with unwritten changes."""
        return len(self._since)

    def seconds_left(self, key: K, delay_seconds: float) -> float:
        """Seconds until the pending change of `key` must be flushed; 0.0 when it is already due.

        A change may wait `delay_seconds`, counted from the first call since the last flush. When this returns 0.0, the
        caller writes the change, and the key counts as flushed.
        """
        now = self._clock.monotonic()
        left = self._since.setdefault(key, now) + delay_seconds - now
        if left > 0:
            return left
        self.flushed(key)
        return 0.0

    def flushed(self, key: K) -> None:
        """Forget the pending change of `key`: it was written or reverted, or the object is gone."""
        self._since.pop(key, None)
