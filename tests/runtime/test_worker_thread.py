"""Long computations beside the loop: what they give, and what becomes of those that nobody waits for."""

from __future__ import annotations

import asyncio
import threading

import pytest

from bosket.runtime.clock import LoopClock, SystemClock
from bosket.runtime.worker_thread import SLICE_SECONDS, Slices, WorkerThread


async def test_the_loop_goes_on_while_a_thread_computes() -> None:
    may_end = threading.Event()

    async def let_it_end() -> None:
        may_end.set()

    worker = WorkerThread("test", SystemClock())
    ended, _ = await asyncio.gather(worker.run(lambda: may_end.wait(60)), let_it_end())
    assert ended


async def test_what_is_raised_reaches_the_caller() -> None:
    def fail() -> None:
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        await WorkerThread("test", SystemClock()).run(fail)


async def test_nobody_waits_behind_a_computation_whose_caller_was_cancelled() -> None:
    begun, may_end, worker = threading.Event(), threading.Event(), WorkerThread("test", SystemClock())

    def compute() -> None:
        begun.set()
        may_end.wait(60)

    first = asyncio.create_task(worker.run(compute))
    await asyncio.to_thread(begun.wait, 60)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await worker.run(lambda: "next") == "next"
    assert not may_end.is_set()
    may_end.set()


async def test_under_a_loop_clock_everything_is_computed_on_the_loop() -> None:
    worker = WorkerThread("test", LoopClock())
    assert not worker.is_beside
    assert await worker.run(threading.current_thread) is threading.current_thread()


async def test_work_on_the_loop_pauses_once_its_slice_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("bosket.runtime.worker_thread.time.perf_counter", lambda: now)
    slices = Slices(SystemClock())
    assert not await slices.pause()
    now = SLICE_SECONDS
    assert await slices.pause()
    assert not await slices.pause()


async def test_where_time_is_virtual_work_never_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("bosket.runtime.worker_thread.time.perf_counter", lambda: now)
    slices = Slices(LoopClock())
    now = 10.0
    assert not await slices.pause()
