"""The file of the built-in usage store: SQLite, written after every sample, read once at the start.

Used by `builtin` only, from worker threads, one call at a time. Write-ahead logging makes a crash harmless. The lock is
exclusive: two schedulers that write into one file would each see half of the samples.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bosket.scheduler.model.resource import QueueAmounts
from bosket.scheduler.usage.history import Milliseconds

_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE sample (time INTEGER PRIMARY KEY, gpus REAL, millicores REAL, bytes REAL) STRICT;
CREATE TABLE change (
    queue TEXT, time INTEGER, gpus REAL, millicores REAL, bytes REAL, PRIMARY KEY (queue, time)
) STRICT, WITHOUT ROWID;
"""
#: What a queue held before and still does it holds from the first sample left on; a queue of which nothing is said
#: holds nothing.
_FORGET_BEFORE: Final = (
    "DELETE FROM sample WHERE time < :begin",
    "DELETE FROM change WHERE time < (SELECT max(later.time) FROM change AS later"
    " WHERE later.queue = change.queue AND later.time <= :begin)",
    "UPDATE change SET time = :begin WHERE time < :begin",
    "DELETE FROM change WHERE time = :begin AND gpus = 0 AND millicores = 0 AND bytes = 0",
)


class JournalError(Exception):
    """The file can't be read or written; the message names it."""


class Entry(NamedTuple):
    """One sample: what the cluster had, and which queues hold something else from then on."""

    time: Milliseconds
    capacity: QueueAmounts
    changes: Mapping[str, QueueAmounts]


class Journal:
    """A file that is open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Calls come from any thread, though never two at once.
            self._connection = sqlite3.connect(path, timeout=0.1, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise JournalError(f"{path}: {error}") from error
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._connection.close()
            raise JournalError(f"{path}: {error}") from error

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;")
        elif version != _VERSION:
            raise sqlite3.DatabaseError(f"its format is {version}, this version of Bosket writes {_VERSION}")

    def entries(self) -> list[Entry]:
        """All that was written, oldest first."""
        with self._named_errors():
            changes: dict[Milliseconds, dict[str, QueueAmounts]] = {}
            rows = self._connection.execute("SELECT time, queue, gpus, millicores, bytes FROM change")
            for time, queue, *amounts in rows:
                changes.setdefault(time, {})[queue] = _shares(amounts)
            samples = self._connection.execute("SELECT time, gpus, millicores, bytes FROM sample ORDER BY time")
            return [Entry(time, _shares(capacity), changes.get(time, {})) for time, *capacity in samples]

    def write(self, entry: Entry) -> None:
        """One sample more, whole or not at all. What is dated later, by a clock that has gone back since, goes."""
        with self._transaction():
            for table in ("sample", "change"):
                self._connection.execute(f"DELETE FROM {table} WHERE time >= ?", (entry.time,))  # noqa: S608 - of ours
            self._connection.execute("INSERT INTO sample VALUES (?, ?, ?, ?)", (entry.time, *entry.capacity))
            rows = [(queue, entry.time, *amounts) for queue, amounts in entry.changes.items()]
            self._connection.executemany("INSERT INTO change VALUES (?, ?, ?, ?, ?)", rows)

    def forget_before(self, time: Milliseconds) -> None:
        """As `History.forget_before`."""
        with self._transaction():
            (begin,) = self._connection.execute("SELECT min(time) FROM sample WHERE time >= ?", (time,)).fetchone()
            if begin is None:
                self._connection.execute("DELETE FROM sample")
                self._connection.execute("DELETE FROM change")
            else:
                for statement in _FORGET_BEFORE:
                    self._connection.execute(statement, {"begin": begin})

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._named_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise JournalError(f"{self._path}: {error}") from error


def _shares(amounts: list[float]) -> QueueAmounts:
    gpus, millicores, memory = amounts
    return gpus, millicores, memory
