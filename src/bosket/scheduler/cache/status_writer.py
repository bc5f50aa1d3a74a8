"""Conditions and events about what waits: written late, once, and only when there is something new to say.

A job that is placed within a moment of its arrival is never called unschedulable: what is wanted is written only when
it is still wanted after `DELAY_SECONDS`. Of several wishes for one object the newest wins. Numbers in messages change
all the time in a busy cluster, so an object is written at most once in `INTERVAL_SECONDS`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bosket.api.object import ObjectKey
from bosket.kube.errors import ApiError, Conflict, KubeError, NotFound
from bosket.runtime.clock import Clock
from bosket.runtime.workqueue import WorkQueue

_log = logging.getLogger(__name__)

DELAY_SECONDS = 1.0
INTERVAL_SECONDS = 5.0

Subject = tuple[str, ObjectKey]  #: kind and key of the object that is spoken of


@dataclass(frozen=True, slots=True)
class Wish:
    """Something to write. Two wishes with equal content are the same wish."""

    content: tuple[str, ...]
    write: Callable[[], Awaitable[None]]


class StatusWriter:
    """Wishes in, writes out, by a pool of workers that the scheduling loop never waits for."""

    def __init__(self, clock: Clock, workers: int = 5) -> None:
        self._clock = clock
        self._workers = workers
        self._queue: WorkQueue[Subject] = WorkQueue(clock=clock)
        self._wishes: dict[Subject, Wish] = {}
        self._written: dict[Subject, tuple[tuple[str, ...], float]] = {}

    def wish(self, subject: Subject, wish: Wish, *, delay_seconds: float = DELAY_SECONDS) -> None:
        """Have this written unless something newer comes, or `forget` does."""
        written, at = self._written.get(subject, ((), 0.0))
        if written == wish.content:
            return
        fresh = subject not in self._wishes
        self._wishes[subject] = wish
        if fresh:
            earliest = at + INTERVAL_SECONDS - self._clock.monotonic() if written else 0.0
            self._queue.add_after(subject, max(delay_seconds, earliest))

    def forget(self, subject: Subject) -> None:
        """Nothing is wanted of this object any more, and what was written of it no longer counts."""
        self._wishes.pop(subject, None)
        self._written.pop(subject, None)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            subject = await self._queue.get()
            try:
                await self._write(subject)
            finally:
                self._queue.done(subject)

    async def _write(self, subject: Subject) -> None:
        wish = self._wishes.pop(subject, None)
        if wish is None:
            return
        kind, key = subject
        try:
            await wish.write()
        except (NotFound, Conflict):
            self._written.pop(subject, None)  # gone, or changed: a later cycle sees how it stands
        except KubeError as error:
            refused = isinstance(error, ApiError) and 400 <= error.code < 500 and error.code != 429
            _log.warning("can't write the status of %s %s: %s", kind, key, error)
            if not refused and subject not in self._wishes:
                self._wishes[subject] = wish
                self._queue.add_rate_limited(subject)
        else:
            self._queue.forget(subject)
            self._written[subject] = (wish.content, self._clock.monotonic())
