"""StatusWriter: conditions and events about waiting jobs: written late, once, and only when they changed.

A job that is placed within a moment of its arrival is never called unschedulable: a write is made only when it is still
pending after `DELAY_SECONDS`. Of several pending writes of one object the newest wins. An object is written at most
once in `INTERVAL_SECONDS`. Numbers in messages (free amounts, node counts) change all the time in a busy cluster: an
object of which only these changed is written once in `NUMBERS_SECONDS`, and less often where so many jobs wait that the
API server would get more than `NUMBERS_PER_SECOND` such writes.
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
#: How long the last write of an object is remembered. Deletions of objects are not observed here.
KEPT_SECONDS = 1800.0
WORKERS = 5

_NUMBER = re.compile(r"\d+(?:\.\d+)?")

Subject = tuple[str, ObjectKey]  #: kind and key of the object


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A write of one object. Two with equal content are the same write."""

    content: tuple[str, ...]
    write: Callable[[], Awaitable[None]]
    refused: Callable[[], object] = lambda: None  #: called when the API server refuses the write
    #: whether numbers alone differ from what was written last; None: the contents say so
    numbers_only: bool | None = None


@dataclass(frozen=True, slots=True)
class _Written:
    content: tuple[str, ...]
    at: float


class StatusWriter:
    """Pending writes by object, made by a pool of workers; the scheduling loop never waits for them."""

    def __init__(self, env: Environment) -> None:
        self._clock: Clock = env.clock
        self._pending: dict[Subject, PendingWrite] = {}
        self._written: dict[Subject, _Written] = {}
        self._swept = 0.0
        self._controller: Controller[Subject] = Controller(
            "status", self._write, workers=WORKERS, clock=env.clock, metrics=env.metrics
        )

    async def run(self) -> None:
        await self._controller.run()

    def submit(self, subject: Subject, write: PendingWrite, *, delay_seconds: float = DELAY_SECONDS) -> None:
        """Sets the pending write of the object, replacing an earlier one."""
        now = self._clock.monotonic()
        self._sweep(now)
        written = self._written.get(subject)
        is_same = written is not None and written.content == write.content and write.numbers_only is None
        if written is not None and is_same and now - written.at < 2 * INTERVAL_SECONDS:
            # Just written: the watch will show it. If it doesn't by then, another client overwrote it.
            self._pending.pop(subject, None)
            return
        self._pending[subject] = write
        earliest = written.at + self._interval(written.content, write) - now if written is not None else 0.0
        self._controller.queue.add_after(subject, max(delay_seconds, earliest))  # the earliest of several counts

    def is_written(self, subject: Subject) -> None:
        """Drops the pending write: the object already has this content. What only a renewal would change is kept: each
        pod of a gang that is written causes a cycle, which would drop the renewals of the others."""
        pending = self._pending.get(subject)
        if pending is not None and pending.numbers_only is not False:
            del self._pending[subject]

    def forget(self, subject: Subject) -> None:
        """Drops the pending write and the record of the last one."""
        self._pending.pop(subject, None)
        self._written.pop(subject, None)

    def _interval(self, before: tuple[str, ...], write: PendingWrite) -> float:
        """The minimum seconds between the write of one content and the next write."""
        numbers_only, after = write.numbers_only, write.content
        if numbers_only is None:
            numbers_only = before != after and tuple(map(_words, before)) == tuple(map(_words, after))
        if not numbers_only:
            return INTERVAL_SECONDS
        return max(NUMBERS_SECONDS, len(self._written) / NUMBERS_PER_SECOND)

    def _sweep(self, now: float) -> None:
        if now - self._swept < KEPT_SECONDS / 2:
            return
        self._swept = now
        for subject in [each for each, written in self._written.items() if now - written.at > KEPT_SECONDS]:
            del self._written[subject]

    async def _write(self, subject: Subject) -> None:
        pending = self._pending.get(subject)
        if pending is None:
            return
        try:
            await pending.write()
        except (NotFound, Conflict):
            pending.refused()  # the object is gone or changed: a later cycle reports again
        except (ServerError, TooManyRequests):
            raise
        except ApiError as error:
            kind, key = subject
            _log.warning("the status of %s %s was refused: %s", kind, key, error)
            pending.refused()
        else:
            self._written[subject] = _Written(pending.content, self._clock.monotonic())
        if self._pending.get(subject) is pending:
            del self._pending[subject]
        else:
            self._controller.queue.add_after(subject, INTERVAL_SECONDS)


@lru_cache(maxsize=4096)
def _words(text: str) -> str:
    """A text without its numbers. Pods of a gang share one text, so the result is cached."""
    return _NUMBER.sub("#", text)
