"""Many objects in one look of a reconciler: several requests at the same time, and turns for others in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Final, TypeVar

A = TypeVar("A")
T = TypeVar("T")

#: A server answers no faster for being asked everything at once.
_AT_ONCE: Final = 32
_NOT_DONE: Final = RuntimeError("not done")


async def for_each(items: Iterable[A], do: Callable[[A], Awaitable[T]], *, at_once: int = _AT_ONCE) -> list[T]:
    """What `do` gives for each item, in order; raises what the first that failed raised, once all of them have ended.

    Nothing goes on behind the back of who called: a reconciler that is tried again never meets its former attempt.
    Between items others have their turn, also where `do` never has to wait because the server is in this process.
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
    """The items; others have their turn after every few of them. For loops that compute much and wait for nothing."""
    for index, item in enumerate(items):
        if index and index % at_once == 0:
            await asyncio.sleep(0)
        yield item


def being_cancelled() -> bool:
    """Whether the current task itself was asked to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
