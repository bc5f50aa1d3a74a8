"""The built-in usage store: the scheduler's own samples, in memory and optionally in a file.

For clusters without a Prometheus. Its numbers equal those of a Prometheus that scraped at the same times. Memory is
never ahead of the file: a sample that can't be written isn't counted, and `fetch` raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from bosket.api.time import format_time
from bosket.scheduler.configuration.usage_parameters import Parameters
from bosket.scheduler.model.usage import Usage
from bosket.scheduler.usage.history import LOOKBACK_SECONDS, History, Sample
from bosket.scheduler.usage.journal import Entry, Journal, JournalError
from bosket.scheduler.usage.source import UsageUnavailable

T = TypeVar("T")

#: Samples are at most this far apart, however coarse the resolution.
_LONGEST_INTERVAL_SECONDS: Final = 60.0
#: What the window no longer needs is dropped in portions.
_FORGET_SECONDS: Final = 3600.0


class BuiltinUsage:
    """History of the queues of one scheduler. Without a path it is in memory alone, and ends with the process."""

    def __init__(self, parameters: Parameters, path: str = "") -> None:
        self._parameters = parameters
        self._history = History()
        self._file = _File(Path(path).expanduser()) if path else None
        self._source = f"builtin {path}".rstrip()
        self._failure = ""
        self._loaded = self._file is None
        self._loading = asyncio.Lock()
        self.sample_interval_seconds = min(parameters.resolution_seconds, _LONGEST_INTERVAL_SECONDS)

    async def fetch(self, now: float) -> Usage:
        try:
            await self._load()
        except JournalError as error:
            raise UsageUnavailable(str(error)) from error
        if self._failure:
            raise UsageUnavailable(f"the last sample could not be kept: {self._failure}")
        end = self._history.end
        if end is None or now - end / 1000 > LOOKBACK_SECONDS:
            since = f"since {format_time(end / 1000)}" if end is not None else "yet"
            raise UsageUnavailable(f"nobody has noted what queues hold {since}")
        parameters = self._parameters
        parts = self._history.parts(
            parameters.window,
            now,
            resolution_seconds=parameters.resolution_seconds,
            half_life_seconds=parameters.half_life_seconds,
        )
        return Usage(parts, now, self._source)

    async def record(self, sample: Sample) -> None:
        self._failure = ""
        try:
            await self._load()
            self._history.forget_since(sample.milliseconds)
            entry = Entry(sample.milliseconds, sample.capacity, self._history.changes(sample))
            if self._file is not None:
                await self._file.call(lambda journal: journal.write(entry))
            self._history.append(*entry)
            await self._forget(sample.time)
        except JournalError as error:
            self._failure = str(error)
            raise UsageUnavailable(self._failure) from error

    async def aclose(self) -> None:
        if self._file is not None:
            self._loaded = False
            await self._file.close()

    async def _load(self) -> None:
        async with self._loading:
            if self._file is None or self._loaded:
                return
            self._history, self._loaded = await self._file.call(_history_of), True

    async def _forget(self, now: float) -> None:
        needed = round((self._parameters.window.start(now) - LOOKBACK_SECONDS) * 1000)
        begin = self._history.begin
        if begin is not None and begin < needed - _FORGET_SECONDS * 1000:
            self._history.forget_before(needed)
            if self._file is not None:
                await self._file.call(lambda journal: journal.forget_before(needed))


def _history_of(journal: Journal) -> History:
    history = History()
    for entry in journal.entries():
        history.append(*entry)
    return history


class _File:
    """A journal in a thread of its own: a disk that hangs must not hold the scheduler up."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread: ThreadPoolExecutor | None = None
        self._journal: Journal | None = None

    async def call(self, work: Callable[[Journal], T]) -> T:
        """Calls follow one after the other. Opens the file first if need be; raises `JournalError`."""

        def run() -> T:
            if self._journal is None:
                self._journal = Journal(self._path)
            return work(self._journal)

        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="usage")
        return await asyncio.get_running_loop().run_in_executor(self._thread, run)

    async def close(self) -> None:
        if self._thread is None:
            return

        def end() -> None:
            if self._journal is not None:
                self._journal.close()
                self._journal = None

        thread, self._thread = self._thread, None
        await asyncio.get_running_loop().run_in_executor(thread, end)
        thread.shutdown(wait=False)
