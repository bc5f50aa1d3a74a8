from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from bosket.runtime.concurrent import for_each, in_turns


async def test_answers_come_in_the_order_of_items_and_only_so_many_at_the_same_time() -> None:
    at_work: list[int] = []
    most = 0

    async def work(item: int) -> int:
        nonlocal most
        at_work.append(item)
        most = max(most, len(at_work))
        await asyncio.sleep(0)
        at_work.remove(item)
        return -item

    assert await for_each(range(7), work, at_once=3) == [0, -1, -2, -3, -4, -5, -6]
    assert most == 3


async def test_the_first_failure_is_raised_when_all_have_ended() -> None:
    ended: list[int] = []

    async def work(item: int) -> None:
        for _ in range(item):
            await asyncio.sleep(0)
        ended.append(item)
        if item in (1, 3):
            raise ValueError(item)

    with pytest.raises(ValueError, match="1"):
        await for_each(range(5), work)
    assert ended == [0, 1, 2, 3, 4]


async def test_who_is_cancelled_leaves_nothing_at_work() -> None:
    ended: list[int] = []

    async def work(item: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(item)

    task = asyncio.create_task(for_each(range(5), work, at_once=2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [0, 1]


async def test_others_have_their_turn_while_nothing_has_to_be_waited_for() -> None:
    turns: list[int] = []
    done = 0

    async def other() -> None:
        while True:
            turns.append(done)
            await asyncio.sleep(0)

    async def work(item: int) -> None:
        nonlocal done
        done += 1

    task = asyncio.create_task(other())
    await for_each(range(1000), work, at_once=10)
    task.cancel()
    assert max(after - before for before, after in pairwise(turns)) <= 10


async def test_a_long_loop_lets_others_have_their_turn() -> None:
    turns: list[int] = []
    done = 0

    async def other() -> None:
        while True:
            turns.append(done)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    async for _ in in_turns(range(1000), at_once=50):
        done += 1
    task.cancel()
    assert max(after - before for before, after in pairwise(turns)) <= 50
    assert [item async for item in in_turns("abc")] == list("abc")
