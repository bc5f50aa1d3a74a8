from __future__ import annotations

import pytest

from bosket.runtime.clock import LoopClock
from bosket.runtime.pace import Pace

pytestmark = pytest.mark.looptime


async def test_news_wait_from_when_there_were_first_some_and_are_then_told() -> None:
    clock = LoopClock()
    pace: Pace[str] = Pace(clock)
    assert pace.seconds_left("a", 1.0) == pytest.approx(1.0)
    await clock.sleep(0.75)
    assert pace.seconds_left("a", 1.0) == pytest.approx(0.25)
    assert pace.seconds_left("b", 1.0) == pytest.approx(1.0)
    await clock.sleep(0.25)
    assert pace.seconds_left("a", 1.0) == 0.0
    assert len(pace) == 1
    assert pace.seconds_left("a", 1.0) == pytest.approx(1.0), "the next ones wait for themselves"


async def test_what_matters_does_not_wait_and_takes_what_waits_along() -> None:
    pace: Pace[str] = Pace(LoopClock())
    pace.seconds_left("a", 1.0)
    assert pace.seconds_left("a", 0.0) == 0.0
    assert len(pace) == 0


async def test_what_was_taken_back_is_forgotten() -> None:
    pace: Pace[str] = Pace(LoopClock())
    pace.seconds_left("a", 1.0)
    pace.told("a")
    pace.told("never heard of")
    assert len(pace) == 0
