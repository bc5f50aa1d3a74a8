"""Several requests at the same time, for reconcilers that make or change many objects in one look."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

A = TypeVar("A")
T = TypeVar("T")

#: A server answers no faster for being asked everything at once.
_AT_ONCE: Final = 32


async def for_each(items: Iterable[A], do: Callable[[A], Awaitable[T]], *, at_once: int = _AT_ONCE) -> list[T]:
    """What `do` gives for each item, in order; raises what the first that failed raised, once all of them have ended.

    Nothing goes on behind the back of who called: a reconciler that is tried again never meets its former attempt.
    """
    limit = asyncio.Semaphore(at_once)

    async def one(item: A) -> T:
        async with limit:
            return await do(item)

    results = await asyncio.gather(*map(one, items), return_exceptions=True)
    given: list[T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        given.append(result)
    return given
