"""Conditions and events about what waits: written late, once, and only when there is something new to say.

A job that is placed within a moment of its arrival is never called unschedulable: what is wanted is written only when
it is still wanted after `DELAY_SECONDS`. Of several wishes for one object the newest wins. An object is written at most
once in `INTERVAL_SECONDS`. Numbers in messages (how much is free, how many nodes) change all the time in a busy
cluster: an object of which only these change is written once in `NUMBERS_SECONDS`, and less often where so many wait
that the API server would have more than `NUMBERS_PER_SECOND` such writes to take.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache

from bosket.api.object import ObjectKey
from bosket.kube.errors import ApiError, Conflict, NotFound, ServerError, TooManyRequests
from bosket.runtime.clock import Clock
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

_log = logging.getLogger(__name__)

DELAY_SECONDS = 0.5
INTERVAL_SECONDS = 5.0
NUMBERS_SECONDS = 60.0
NUMBERS_PER_SECOND = 5.0
#: How long it is known what was written of an object. A controller doesn't tell when an object is gone.
KEPT_SECONDS = 1800.0
WORKERS = 5

_NUMBER = re.compile(r"\d+(?:\.\d+)?")

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
        if written is not None and written.content == wish.content and now - written.at < 2 * INTERVAL_SECONDS:
            # The watch will show it. Later than that somebody has overwritten it.
            self._wishes.pop(subject, None)
            return
        self._wishes[subject] = wish
        earliest = written.at + self._interval(written.content, wish.content) - now if written is not None else 0.0
        self._controller.queue.add_after(subject, max(delay_seconds, earliest))  # the earliest of several counts

    def is_written(self, subject: Subject) -> None:
        """The object says what it should: nothing newer is to be written."""
        self._wishes.pop(subject, None)

    def forget(self, subject: Subject) -> None:
        """Nothing is wanted of this object any more, and what was written of it no longer counts."""
        self._wishes.pop(subject, None)
        self._written.pop(subject, None)

    def _interval(self, before: tuple[str, ...], after: tuple[str, ...]) -> float:
        """Seconds between writing one content and the other."""
        if before == after or tuple(map(_words, before)) != tuple(map(_words, after)):
            return INTERVAL_SECONDS
        return max(NUMBERS_SECONDS, len(self._written) / NUMBERS_PER_SECOND)

    def _sweep(self, now: float) -> None:
        if now - self._swept < KEPT_SECONDS / 2:
            return
        self._swept = now
        for subject in [each for each, written in self._written.items() if now - written.at > KEPT_SECONDS]:
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


@lru_cache(maxsize=4096)
def _words(text: str) -> str:
    """A text without its numbers. Many pods of a gang share one text."""
    return _NUMBER.sub("#", text)
