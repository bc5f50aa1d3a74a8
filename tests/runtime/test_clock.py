"""Clocks go forward, and those who wait for a moment reach it."""

from __future__ import annotations

import asyncio
import time

import looptime
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.runtime.clock import DEFAULT_EPOCH, LoopClock, SystemClock


@settings(max_examples=200, deadline=None)
@given(start=st.floats(0, 1e5), wait=st.floats(1e-9, 1e4))
def test_whoever_sleeps_until_a_moment_gets_there_in_a_few_steps(start: float, wait: float) -> None:
    """By either face of the clock: rounding must not leave a remainder that no sleep makes smaller."""

    async def wait_for_it() -> None:
        clock = LoopClock()
        await clock.sleep(start)
        for read in (clock.now, clock.monotonic):
            deadline = read() + wait
            for _ in range(5):
                if (remaining := deadline - read()) <= 0:
                    break
                await clock.sleep(remaining)
            assert deadline <= read() <= deadline + 1e-4

    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(start=0)) as runner:
        runner.run(wait_for_it())


def test_a_loop_clock_begins_at_its_epoch_and_moves_with_the_loop() -> None:
    async def look() -> tuple[float, float]:
        clock = LoopClock()
        before = clock.now()
        await clock.sleep(3600)
        return before, clock.now()

    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(start=0)) as runner:
        assert runner.run(look()) == (DEFAULT_EPOCH, DEFAULT_EPOCH + 3600)


async def test_the_system_clock_is_the_machine_s() -> None:
    clock = SystemClock()
    assert abs(clock.now() - time.time()) < 5
    before = clock.monotonic()
    await clock.sleep(1e-9)
    assert clock.monotonic() > before
