"""Long computations beside the event loop, each in a thread of its own; long work on the loop in slices.

The scheduler decides there, so that leases, probes and watches are served meanwhile. A thread per call, not a pool: a
computation whose caller was cancelled (a lost lease) can't be stopped, and the next computation must not wait behind
it. Threads are daemons, so that such a computation doesn't keep the process alive.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from bosket.runtime.clock import Clock, LoopClock

T = TypeVar("T")

#: The length of a slice of work on the event loop.
SLICE_SECONDS: Final = 0.01
#: How long a computing thread keeps the interpreter's lock when the loop wants it. Every system call of the loop gives
#: the lock away: with Python's default, 5 ms, an exchange of two messages beside one busy thread took 200 ms in one of
#: a hundred cases on two busy cores, with 1 ms it took 15 to 24 ms. Below that, switching itself costs more.
SWITCH_SECONDS: Final = 0.001


class Slices:
    """Yields to the event loop in the middle of long work that must run on it."""

    def __init__(self, clock: Clock) -> None:
        """Under a loop clock there are no yields: virtual work takes no time."""
        self._is_real = not isinstance(clock, LoopClock)
        self._began = time.perf_counter()

    def begin(self) -> None:
        """Starts a slice."""
        self._began = time.perf_counter()

    async def pause(self) -> bool:
        """Yields to the event loop if the slice is over; returns whether it did."""
        if not self._is_real or time.perf_counter() - self._began < SLICE_SECONDS:
            return False
        await asyncio.sleep(0)
        self.begin()
        return True


class WorkerThread:
    """Runs one kind of computation beside the event loop."""

    def __init__(self, name: str, clock: Clock) -> None:
        """Under a loop clock everything runs on the loop: virtual time would run ahead of a thread."""
        self._name = name
        self.is_beside = not isinstance(clock, LoopClock)  #: whether the loop goes on meanwhile

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work()`, or its exception. When the caller is cancelled, the result is discarded."""
        if not self.is_beside:
            return work()
        if sys.getswitchinterval() > SWITCH_SECONDS:
            sys.setswitchinterval(SWITCH_SECONDS)
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()

        def tell(set_outcome: Callable[[Any], None], value: object) -> None:
            if not outcome.done():
                set_outcome(value)

        def compute() -> None:
            try:
                result = work()
            except BaseException as error:
                result_call: tuple[Callable[[Any], None], object] = (outcome.set_exception, error)
            else:
                result_call = (outcome.set_result, result)
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(tell, *result_call)

        threading.Thread(target=compute, name=self._name, daemon=True).start()
        return await outcome
