"""Clocks: code above `kube` asks a `Clock` for the time, never the operating system.

`SystemClock` is for production. `LoopClock` follows the event loop's time, so that under a virtual loop (looptime)
hours pass in milliseconds and every test run sees the same times.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final, Protocol

#: 2025-01-01T00:00:00Z: where a `LoopClock` begins unless told otherwise.
DEFAULT_EPOCH: Final = 1735689600.0
#: The shortest sleep above zero: more than the rounding error of an epoch plus some seconds. A caller that
#: sleeps until a moment and reads the clock again may find a remainder of that size; sleeping exactly that long, a
#: loop whose time has ticks (a virtual one) would not move at all, and never get there.
_TICK_SECONDS: Final = 1e-5


class Clock(Protocol):
    """The time, and sleeping."""

    def now(self) -> float:
        """Wall-clock time in seconds since the Unix epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean anything."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleeps for `seconds` on this clock; any positive time moves the clock forward."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(_at_least_a_tick(seconds))


class LoopClock:
    """The running event loop's time, counted from a fixed date."""

    def __init__(self, epoch: float = DEFAULT_EPOCH) -> None:
        self._epoch = epoch

    def now(self) -> float:
        return self._epoch + asyncio.get_running_loop().time()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(_at_least_a_tick(seconds))


def _at_least_a_tick(seconds: float) -> float:
    return max(seconds, _TICK_SECONDS) if seconds > 0 else 0
