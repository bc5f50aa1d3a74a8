"""The last committed version, stored beside the database: reveals a database that lost its last writes.

Written after each commit and never waited for: after a power cut it may be behind the database, and is never ahead of
it. There are two places, written in turns, so that a write that was cut off leaves the one before.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Self

import msgspec

from bosket.apiserver.persistence.examination import Progress
from bosket.apiserver.persistence.row import checksum

#: The second place is on a page of its own.
_PLACES: Final = (0, 4096)
_LENGTH: Final = 128


class ProgressFile:
    """The file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._turn = 0

    @classmethod
    def beside(cls, database: Path) -> Self:
        """The one of a database file."""
        return cls(database.with_name("progress"))

    @property
    def exists(self) -> bool:
        """Whether a database has ever been beside it."""
        return self._path.exists()

    def read(self) -> tuple[Progress | None, bool]:
        """The progress that was stored last, and whether it could be read; a missing file stores nothing."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return None, True
        found = [each for place in _PLACES if (each := _decoded(content[place : place + _LENGTH])) is not None]
        latest = max(found, key=lambda each: (each.version, each.horizon), default=None)
        return latest, latest is not None

    def write(self, progress: Progress) -> None:
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        body = msgspec.json.encode(progress)
        os.pwrite(self._descriptor, (checksum((body,)).hex().encode() + body).ljust(_LENGTH), _PLACES[self._turn])
        self._turn = 1 - self._turn

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _decoded(content: bytes) -> Progress | None:
    digest, body = content[:16], content[16:].rstrip()
    if digest != checksum((body,)).hex().encode():
        return None
    try:
        return msgspec.json.decode(body, type=Progress)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
