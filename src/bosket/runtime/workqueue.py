"""A queue of keys that wait to be reconciled.

Informer handlers add keys (synchronously, as often as they like); the workers of a `Controller` take them. The
promises:

- a key that waits is there once, however often it was added;
- a key is never in the hands of two workers at the same time;
- a key that was added while a worker had it comes again after `done`, so that no change is missed.

Keys that failed come back after a delay that doubles with every failure in a row and is spread by jitter.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar, cast

from bosket.runtime.clock import Clock, SystemClock
from bosket.runtime.metrics import QueueMetrics

K = TypeVar("K", bound=Hashable)

_CLOSED = object()


class QueueClosed(Exception):
    """Nothing will come out of this queue any more."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait before another attempt: doubles from `base_seconds` to `limit_seconds`, shortened by up to `jitter`."""

    base_seconds: float = 0.05
    limit_seconds: float = 60.0
    jitter: float = 0.25

    def delay(self, failures: int) -> float:
        """Seconds to wait after that many failures in a row."""
        exponent = min(max(failures - 1, 0), 64)  # beyond, the limit holds anyway and floats would overflow
        delay = min(self.base_seconds * 2.0**exponent, self.limit_seconds)
        return delay * (1.0 - self.jitter * random.random())  # noqa: S311 - spreads retries, guards nothing


class WorkQueue(Generic[K]):
    """A de-duplicating queue with delays and per-key back-off; all methods belong to one event loop."""

    def __init__(
        self, *, clock: Clock | None = None, backoff: Backoff | None = None, metrics: QueueMetrics | None = None
    ) -> None:
        self._clock = clock or SystemClock()
        self._backoff = backoff or Backoff()
        self._metrics = metrics
        self._ready: asyncio.Queue[object] = asyncio.Queue()
        self._dirty: set[K] = set()  # pending keys: in `_ready`, unless a worker still has them
        self._processing: set[K] = set()
        self._since: dict[K, float] = {}  # when keys that wait were added
        self._in_hand_since: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._deadlines: dict[K, float] = {}  # by key: the earliest delayed addition
        self._heap: list[tuple[float, int, K]] = []  # may hold outdated entries: `_deadlines` is authoritative
        self._sequence = count()
        self._timer: asyncio.Task[None] | None = None
        self._timer_deadline = 0.0
        self._closed = False

    def __len__(self) -> int:
        """How many keys could be taken at once, or as soon as their worker is done."""
        return len(self._dirty)

    def add(self, key: K) -> None:
        """Makes sure that `key` is handled after now.

        A key in a worker's hands is queued again by `done`: the worker may have read the state before this change.
        """
        if self._closed or key in self._dirty:
            return
        self._dirty.add(key)
        if self._metrics is not None:
            self._since[key] = self._clock.monotonic()
            self._metrics.added(len(self._dirty))
        if key not in self._processing:
            self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Adds `key` in `seconds`; of several delayed additions of a key the earliest counts."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        deadline = self._clock.monotonic() + seconds
        if deadline >= self._deadlines.get(key, float("inf")):
            return
        self._deadlines[key] = deadline
        heapq.heappush(self._heap, (deadline, next(self._sequence), key))
        self._arm_timer()

    def add_rate_limited(self, key: K) -> None:
        """Add `key` after a delay that grows with each failure in a row."""
        failures = self._failures.get(key, 0) + 1
        self._failures[key] = failures
        if self._metrics is not None:
            self._metrics.retried()
        self.add_after(key, self._backoff.delay(failures))

    def forget(self, key: K) -> None:
        """The key succeeded: the next failure starts with the shortest back-off."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often in a row the key has failed."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """Take the next key; the caller calls `done` when it has handled it. Raises `QueueClosed` at the end."""
        item = await self._ready.get()
        if item is _CLOSED:
            self._ready.put_nowait(_CLOSED)  # for the next one who waits
            raise QueueClosed
        key = cast(K, item)
        self._dirty.discard(key)
        self._processing.add(key)
        if self._metrics is not None:
            now = self._in_hand_since[key] = self._clock.monotonic()
            self._metrics.taken(len(self._dirty), now - self._since.pop(key, now))
        return key

    def done(self, key: K) -> None:
        """The worker lets go of `key`."""
        self._processing.discard(key)
        if self._metrics is not None:
            now = self._clock.monotonic()
            self._metrics.done(now - self._in_hand_since.pop(key, now))
        if key in self._dirty and not self._closed:
            self._ready.put_nowait(key)

    def close(self) -> None:
        """Accepts no more keys. Callers of `get` receive what is ready, then the end of the queue."""
        if self._closed:
            return
        self._closed = True
        self._deadlines.clear()
        self._heap.clear()
        self.suspend()
        self._ready.put_nowait(_CLOSED)

    def suspend(self) -> None:
        """Stops handing out keys and leaves no task behind; delayed additions wait for `resume`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def resume(self) -> None:
        """Hands out keys again; delays that have passed meanwhile count as over."""
        if self._heap:
            self._arm_timer()

    def _arm_timer(self) -> None:
        """One task sleeps until the earliest deadline; it is replaced when an earlier one arrives."""
        earliest = self._heap[0][0]
        if self._timer is not None:
            if self._timer_deadline <= earliest:
                return
            self._timer.cancel()
        self._timer_deadline = earliest
        self._timer = asyncio.get_running_loop().create_task(self._release_when_due(), name="workqueue-timer")

    async def _release_when_due(self) -> None:
        while self._heap:
            self._timer_deadline = self._heap[0][0]
            remaining = self._timer_deadline - self._clock.monotonic()
            if remaining > 0:
                await self._clock.sleep(remaining)
                continue
            deadline, _, key = heapq.heappop(self._heap)
            if self._deadlines.get(key) == deadline:
                del self._deadlines[key]
                self.add(key)
        self._timer = None
