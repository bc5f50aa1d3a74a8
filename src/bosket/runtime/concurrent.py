"""Concurrency within one reconciliation: concurrent requests, and yields to the event loop in long loops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Final, TypeVar

A = TypeVar("A")
T = TypeVar("T")

#: More concurrent requests don't make a server faster.
_AT_ONCE: Final = 32
_NOT_DONE: Final = RuntimeError("not done")


async def for_each(items: Iterable[A], do: Callable[[A], Awaitable[T]], *, at_once: int = _AT_ONCE) -> list[T]:
    """Calls `do` for each item, several at a time; returns the results in order. Raises the first exception, after all
    calls have ended.

    Nothing continues in the background: a retried reconciler never runs beside its former attempt. The event loop runs
    between items, even if `do` never waits because the server is in this process.
    """
    waiting = list(items)
    results: list[T | BaseException] = [_NOT_DONE] * len(waiting)
    left = iter(enumerate(waiting))

    async def work() -> None:
        for index, item in left:
            if index >= at_once:
                await asyncio.sleep(0)
            try:
                results[index] = await do(item)
            except Exception as error:
                results[index] = error

    workers = (work() for _ in range(min(at_once, len(waiting))))
    for ended in await asyncio.gather(*workers, return_exceptions=True):
        if ended is not None:
            raise ended
    given: list[T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        given.append(result)
    return given


async def in_turns(items: Iterable[A], *, at_once: int = _AT_ONCE) -> AsyncIterator[A]:
    """Yields the items and lets the event loop run after every few. For loops that compute much and never wait."""
    for index, item in enumerate(items):
        if index and index % at_once == 0:
            await asyncio.sleep(0)
        yield item


def being_cancelled() -> bool:
    """Whether the current task itself was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
