"""A work queue loses nothing, repeats nothing needlessly, and never gives one key to two workers."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.runtime.clock import LoopClock
from bosket.runtime.workqueue import Backoff, QueueClosed, WorkQueue

pytestmark = pytest.mark.looptime


def queue(backoff: Backoff | None = None) -> WorkQueue[str]:
    return WorkQueue(clock=LoopClock(), backoff=backoff)


async def test_a_key_added_often_is_handled_once() -> None:
    keys = queue()
    for _ in range(3):
        keys.add("a")
    keys.add("b")
    assert [await keys.get(), await keys.get()] == ["a", "b"]
    assert len(keys) == 0


async def test_a_key_added_while_handled_comes_again_only_when_done() -> None:
    keys = queue()
    keys.add("a")
    assert await keys.get() == "a"
    keys.add("a")
    keys.add("a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(keys.get(), 60)
    keys.done("a")
    assert await keys.get() == "a"
    keys.done("a")
    assert len(keys) == 0


async def test_a_delayed_key_comes_when_its_time_has_come(looptime: float) -> None:
    keys = queue()
    keys.add_after("late", 30)
    keys.add_after("early", 10)
    assert (await keys.get(), looptime) == ("early", 10)
    assert (await keys.get(), looptime) == ("late", 30)


async def test_of_two_delays_of_a_key_the_shorter_counts_and_it_comes_once(looptime: float) -> None:
    keys = queue()
    keys.add_after("a", 30)
    keys.add_after("a", 10)
    keys.add_after("a", 20)
    assert (await keys.get(), looptime) == ("a", 10)
    keys.done("a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(keys.get(), 100)


async def test_no_delay_means_now() -> None:
    keys = queue()
    keys.add_after("a", 0)
    assert await keys.get() == "a"


async def test_the_delay_doubles_with_each_failure_and_starts_anew_when_forgotten(looptime: float) -> None:
    keys = queue(Backoff(base_seconds=1, limit_seconds=5, jitter=0))
    waits = []
    for _ in range(5):
        before = float(looptime)
        keys.add_rate_limited("a")
        keys.done(await keys.get())
        waits.append(looptime - before)
    assert waits == [1, 2, 4, 5, 5]
    assert keys.failures("a") == 5
    keys.forget("a")
    assert keys.failures("a") == 0
    before = float(looptime)
    keys.add_rate_limited("a")
    await keys.get()
    assert looptime - before == 1


async def test_jitter_only_shortens_and_many_failures_do_not_overflow() -> None:
    backoff = Backoff(base_seconds=1, limit_seconds=60, jitter=0.25)
    delays = [backoff.delay(10_000) for _ in range(200)]
    assert all(45 <= delay <= 60 for delay in delays)
    assert len(set(delays)) > 1


async def test_a_closed_queue_gives_what_is_ready_then_tells_every_worker() -> None:
    keys = queue()
    keys.add("a")
    keys.add_after("later", 5)
    keys.close()
    keys.add("b")
    assert await keys.get() == "a"
    for _ in range(2):
        with pytest.raises(QueueClosed):
            await keys.get()


async def test_a_getter_that_is_cancelled_takes_nothing_with_it() -> None:
    keys = queue()
    waiting = asyncio.create_task(keys.get())
    await asyncio.sleep(0)
    keys.add("a")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await asyncio.wait_for(keys.get(), 1) == "a"


Step = tuple[str, str, float]
steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "add_after", "add_rate_limited", "pause"]),
        st.sampled_from("abc"),
        st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    ),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(steps=steps, workers=st.integers(1, 4), seed=st.integers(0, 2**16))
def test_whatever_the_order_no_key_has_two_workers_and_no_addition_is_lost(
    steps: list[Step], workers: int, seed: int
) -> None:
    """After every addition a handling *begins*, at most one worker has a key, and nothing is left."""
    import looptime

    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(start=0, end=10_000)) as runner:
        runner.run(_hammer(steps, workers, random.Random(seed)))


async def _hammer(steps: list[Step], workers: int, choice: random.Random) -> None:
    keys = queue(Backoff(base_seconds=0.25, limit_seconds=2, jitter=0.5))
    clock = LoopClock()
    wanted: Counter[str] = Counter()  # additions that no handling has begun after
    held: Counter[str] = Counter()
    handled: Counter[str] = Counter()

    async def work() -> None:
        while True:
            key = await keys.get()
            held[key] += 1
            assert held[key] == 1, f"{key} is in two hands"
            wanted[key] = 0
            handled[key] += 1
            await clock.sleep(choice.choice([0, 0.1, 1.0]))
            if choice.random() < 0.2:
                keys.add(key)
                wanted[key] += 1
            held[key] -= 1
            keys.done(key)

    tasks = [asyncio.create_task(work()) for _ in range(workers)]
    added: Counter[str] = Counter()
    for action, key, seconds in steps:
        if action == "pause":
            await clock.sleep(seconds)
            continue
        added[key] += 1
        wanted[key] += 1
        if action == "add":
            keys.add(key)
        elif action == "add_after":
            keys.add_after(key, seconds)
        else:
            keys.add_rate_limited(key)
    await clock.sleep(1_000)
    for task in tasks:
        assert not task.done() or task.cancelled() or task.result() is None
        task.cancel()
    await asyncio.wait(tasks)
    assert len(keys) == 0
    assert {key for key in added if handled[key] == 0} == set()
    assert not any(wanted.values()), "an addition was never followed by a handling"


async def test_a_suspended_queue_leaves_no_task_and_goes_on_with_its_delays() -> None:
    keys = queue()
    before = asyncio.all_tasks()
    keys.add_after("soon", 5)
    keys.add_after("late", 50)
    keys.suspend()
    await asyncio.sleep(10)
    assert asyncio.all_tasks() == before
    assert len(keys) == 0
    keys.resume()
    assert await keys.get() == "soon"
    assert await keys.get() == "late"
    assert asyncio.get_running_loop().time() == pytest.approx(50, abs=0.1)
