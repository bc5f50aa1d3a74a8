from __future__ import annotations

import pytest

from bosket.runtime.clock import LoopClock
from bosket.runtime.debounce import Debounce

pytestmark = pytest.mark.looptime


async def test_a_minor_change_waits_from_the_first_unwritten_change_and_is_then_due() -> None:
    clock = LoopClock()
    debounce: Debounce[str] = Debounce(clock)
    assert debounce.seconds_left("a", 1.0) == pytest.approx(1.0)
    await clock.sleep(0.75)
    assert debounce.seconds_left("a", 1.0) == pytest.approx(0.25)
    assert debounce.seconds_left("b", 1.0) == pytest.approx(1.0)
    await clock.sleep(0.25)
    assert debounce.seconds_left("a", 1.0) == 0.0
    assert len(debounce) == 1
    assert debounce.seconds_left("a", 1.0) == pytest.approx(1.0), "the next change has a delay of its own"


async def test_an_important_change_is_due_at_once_and_flushes_the_pending_one() -> None:
    debounce: Debounce[str] = Debounce(LoopClock())
    debounce.seconds_left("a", 1.0)
    assert debounce.seconds_left("a", 0.0) == 0.0
    assert len(debounce) == 0


async def test_what_was_taken_back_is_forgotten() -> None:
    debounce: Debounce[str] = Debounce(LoopClock())
    debounce.seconds_left("a", 1.0)
    debounce.flushed("a")
    debounce.flushed("never heard of")
    assert len(debounce) == 0
