"""How often the conditions of waiting pods are written, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from bosket.api.object import ObjectKey
from bosket.runtime.clock import LoopClock
from bosket.scheduler.io.status_writer import NUMBERS_PER_SECOND, NUMBERS_SECONDS, PendingWrite, StatusWriter

pytestmark = pytest.mark.looptime


class Board:
    """What was written of which pod, and when."""

    def __init__(self) -> None:
        self._clock = LoopClock()
        environment: Any = SimpleNamespace(clock=self._clock, metrics=CollectorRegistry())
        self.writer = StatusWriter(environment)
        self.writes: list[tuple[float, str, str]] = []
        self._began = 0.0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Board]:
        self._began = self._clock.monotonic()
        running = asyncio.create_task(self.writer.run())
        yield self
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    def want(self, text: str, pod: str = "a") -> None:
        async def write() -> None:
            self.writes.append((self._clock.monotonic() - self._began, pod, text))

        self.writer.submit(("Pod", ObjectKey("team", pod)), PendingWrite((text,), write))

    async def texts_after(self, seconds: float) -> list[str]:
        await self._clock.sleep(seconds)
        return [text for _, _, text in self.writes]


async def test_a_text_that_changes_in_numbers_alone_is_written_again_after_a_minute_only() -> None:
    async with Board().open() as board:
        board.want("3 of 8 GPUs are free")
        assert await board.texts_after(10) == ["3 of 8 GPUs are free"]
        for free in (2, 1, 2, 4):
            board.want(f"{free} of 8 GPUs are free")
            await board.texts_after(5)
        assert await board.texts_after(0) == ["3 of 8 GPUs are free"]
        assert await board.texts_after(NUMBERS_SECONDS) == ["3 of 8 GPUs are free", "4 of 8 GPUs are free"]


async def test_another_reason_does_not_wait_for_it() -> None:
    async with Board().open() as board:
        board.want("3 of 8 GPUs are free")
        await board.texts_after(10)
        board.want("2 of 8 GPUs are free")
        await board.texts_after(1)
        board.want("the queue's limit is reached")
        assert await board.texts_after(5) == ["3 of 8 GPUs are free", "the queue's limit is reached"]


async def test_nothing_is_written_when_the_number_is_again_what_it_was() -> None:
    async with Board().open() as board:
        for text in ("3 free", "2 free", "3 free"):
            board.want(text)
            await board.texts_after(5)
        assert await board.texts_after(4 * NUMBERS_SECONDS) == ["3 free"]


async def test_what_somebody_overwrote_is_written_again() -> None:
    async with Board().open() as board:
        board.want("3 free")
        await board.texts_after(60)
        board.want("3 free")  # asked for by the scheduler only while the pod says something else
        assert await board.texts_after(10) == ["3 free", "3 free"]


async def test_the_more_pods_wait_the_less_often_each_is_written() -> None:
    """So that the API server's load doesn't grow with them."""
    pods = [f"pod-{number}" for number in range(1000)]
    async with Board().open() as board:
        for free in range(100):
            for each in pods:
                board.want(f"{free} free", each)
            await board.texts_after(10)
    seconds = 100 * 10
    assert len(board.writes) <= len(pods) + NUMBERS_PER_SECOND * seconds
    assert len(board.writes) >= 2 * len(pods)
