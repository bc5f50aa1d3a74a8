"""Conditions and events about what waits: written late, once, and only when there is something new to say.

A job that is placed within a moment of its arrival is never called unschedulable: what is wanted is written only when
it is still wanted after `DELAY_SECONDS`. Of several wishes for one object the newest wins. Numbers in messages change
all the time in a busy cluster, so an object is written at most once in `INTERVAL_SECONDS`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bosket.api.object import ObjectKey
from bosket.kube.errors import ApiError, Conflict, NotFound, ServerError, TooManyRequests
from bosket.runtime.clock import Clock
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

_log = logging.getLogger(__name__)

DELAY_SECONDS = 0.5
INTERVAL_SECONDS = 5.0
WORKERS = 5

Subject = tuple[str, ObjectKey]  #: kind and key of the object that is spoken of


@dataclass(frozen=True, slots=True)
class Wish:
    """Something to write. Two wishes with equal content are the same wish."""

    content: tuple[str, ...]
    write: Callable[[], Awaitable[None]]
    refused: Callable[[], object] = lambda: None  #: called when it isn't written after all


@dataclass(frozen=True, slots=True)
class _Written:
    content: tuple[str, ...]
    at: float


class StatusWriter:
    """Wishes in, writes out, by a pool of workers that the scheduling loop never waits for."""

    def __init__(self, env: Environment) -> None:
        self._clock: Clock = env.clock
        self._wishes: dict[Subject, Wish] = {}
        self._written: dict[Subject, _Written] = {}
        self._swept = 0.0
        self._controller: Controller[Subject] = Controller(
            "status", self._write, workers=WORKERS, clock=env.clock, metrics=env.metrics
        )

    async def run(self) -> None:
        await self._controller.run()

    def wish(self, subject: Subject, wish: Wish, *, delay_seconds: float = DELAY_SECONDS) -> None:
        """Have this written unless something newer comes, or `forget` does."""
        now = self._clock.monotonic()
        self._sweep(now)
        written = self._written.get(subject)
        if written is not None and written.content == wish.content:
            return
        fresh = subject not in self._wishes
        self._wishes[subject] = wish
        if fresh:
            earliest = written.at + INTERVAL_SECONDS - now if written is not None else 0.0
            self._controller.queue.add_after(subject, max(delay_seconds, earliest))

    def forget(self, subject: Subject) -> None:
        """Nothing is wanted of this object any more, and what was written of it no longer counts."""
        self._wishes.pop(subject, None)
        self._written.pop(subject, None)

    def _sweep(self, now: float) -> None:
        """What was written longer ago than anybody asks for is forgotten: by then the watch shows it."""
        if now - self._swept < INTERVAL_SECONDS:
            return
        self._swept = now
        for subject in [each for each, written in self._written.items() if now - written.at > 2 * INTERVAL_SECONDS]:
            del self._written[subject]

    async def _write(self, subject: Subject) -> None:
        wish = self._wishes.get(subject)
        if wish is None:
            return
        try:
            await wish.write()
        except (NotFound, Conflict):
            wish.refused()  # gone, or changed: a later cycle sees how it stands
        except (ServerError, TooManyRequests):
            raise
        except ApiError as error:
            kind, key = subject
            _log.warning("the status of %s %s was refused: %s", kind, key, error)
            wish.refused()
        else:
            self._written[subject] = _Written(wish.content, self._clock.monotonic())
        if self._wishes.get(subject) is wish:
            del self._wishes[subject]
        else:
            self._controller.queue.add_after(subject, INTERVAL_SECONDS)
