"""Snapshots on which `decide` raised, kept as files for `bosket replay`: redacted, few, and of limited size.

The local page `/debug/failed-snapshot` returns the newest one, `/debug/left-out` what cycles leave out. A directory
that can't be written costs only the file.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from bosket.api.time import format_time
from bosket.runtime.local_server import Answer, LocalPages
from bosket.scheduler.faults.quarantine import Offender
from bosket.scheduler.recording.recorded import Recorded
from bosket.scheduler.recording.writer import zipped

_log = logging.getLogger(__name__)

MOST_FILES: Final = 5
#: The size of all files together. The operator's deployments have 16 MiB for temporary files, in memory.
MOST_BYTES: Final = 12 * 2**20
_PREFIX, _SUFFIX, _UNFINISHED = "failed-", ".zip", ".zip.part"


class FailedSnapshots:
    """The newest files in one directory."""

    def __init__(self, directory: Path | None) -> None:
        """`directory`: None keeps none."""
        self._directory = directory
        self._number = 0

    async def keep(self, recorded: Recorded) -> Path | None:
        """Writes the snapshot in a thread; returns None when it isn't kept, and the log says why."""
        if self._directory is None:
            return None
        try:
            return await asyncio.to_thread(self._write, self._directory, recorded)
        except Exception as error:  # the defect that made `decide` raise may strike here, too
            _log.warning("the snapshot that the scheduler failed on isn't kept: %s: %s", type(error).__name__, error)
            return None

    def _write(self, directory: Path, recorded: Recorded) -> Path | None:
        data = zipped(recorded)
        if len(data) > MOST_BYTES:
            _log.warning("the snapshot that the scheduler failed on isn't kept: it has %.0f MB", len(data) / 1e6)
            return None
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        seen = directory.lstat()
        # In a directory that is writable for all, another user may have created the file before us.
        if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid():
            raise OSError(f"{directory} is no directory of this process' user")
        self._number += 1
        when = format_time(recorded.now or 0.0).replace(":", "")
        path = directory / f"{_PREFIX}{when}-{os.getpid()}-{self._number}{_SUFFIX}"
        unfinished = path.with_suffix(_UNFINISHED)
        self._make_room(directory, len(data))
        try:
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            unfinished.rename(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        return path

    def _make_room(self, directory: Path, size: int) -> None:
        """Removes the oldest files, and what a process that died left unfinished, until one more of that size may be
        there: the volume may have no room for it and all of them."""
        files = _files(directory, _SUFFIX, _UNFINISHED)
        taken = sum(each.size for each in files)
        for count, each in zip(range(len(files), 0, -1), files, strict=True):
            if count < MOST_FILES and taken + size <= MOST_BYTES:
                break
            each.path.unlink(missing_ok=True)
            taken -= each.size

    def newest(self) -> Path | None:
        if self._directory is None:
            return None
        return next((each.path for each in reversed(_files(self._directory, _SUFFIX))), None)

    def add_pages(self, pages: LocalPages, offenders: Callable[[], tuple[Offender, ...]]) -> None:
        """What is left out, and the newest file."""

        async def left_out() -> Answer:
            entries = [
                {
                    "kind": each.suspect.kind,
                    "namespace": each.suspect.namespace,
                    "name": each.suspect.name,
                    "error": each.error,
                    "failures": each.failures,
                    "failedAt": format_time(each.failed_at),
                    "triedAgainAt": format_time(each.due_at),
                }
                for each in offenders()
            ]
            newest = self.newest()
            return Answer(msgspec.json.encode({"leftOut": entries, "snapshot": str(newest) if newest else ""}))

        async def newest() -> Answer:
            path = self.newest()
            if path is None:
                return Answer(b"no snapshot is kept on which the scheduler failed\n", "text/plain", 404)
            return Answer(await asyncio.to_thread(path.read_bytes), "application/zip", file_name=path.name)

        pages.add("/debug/left-out", left_out)
        pages.add("/debug/failed-snapshot", newest)


class _File(NamedTuple):
    """One of ours; they are in order of age."""

    modified_at: int
    path: Path
    size: int


def _files(directory: Path, *suffixes: str) -> list[_File]:
    """The oldest first."""
    found = []
    for suffix in suffixes:
        for path in directory.glob(f"{_PREFIX}*{suffix}"):
            with suppress(FileNotFoundError):  # another process may have removed it
                seen = path.lstat()
                found.append(_File(seen.st_mtime_ns, path, seen.st_size))
    return sorted(found)
