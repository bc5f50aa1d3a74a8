"""The database file: every write of the store as a row, in the order of versions.

A row is what one write left behind. The newest row of an object is the object; older ones are history, which watches
resume from. Rows of the past that no newer one needs are dropped by `compact`, so that the file grows with the number
of objects and not with time.

Writes come in batches, each of them one transaction that is on disk when `append` returns. A batch is as few statements
as possible: each of them gives up the interpreter's lock once, and has to wait for it once.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

#: Of the tables below; a file with another number was written by another version of Bosket.
SCHEMA_VERSION: Final = 1
#: "bskt", in the header of the file.
APPLICATION_ID: Final = 0x62736B74

_SCHEMA: Final = f"""
BEGIN;
CREATE TABLE write (
    version INTEGER PRIMARY KEY,
    previous INTEGER NOT NULL,  -- version of the state that this one replaced, 0 for a new object
    deleted INTEGER NOT NULL,   -- 1: the object is gone, and this was its last state
    api_group TEXT NOT NULL,
    plural TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    creator TEXT NOT NULL,
    document BLOB NOT NULL
);
CREATE TABLE number (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE memo (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
_COLUMNS: Final = 9
#: Rows of one statement; below SQLite's oldest limit on parameters.
_ROWS_AT_ONCE: Final = 100
_HORIZON: Final = "horizon"


class StorageError(Exception):
    """What is kept can't be read, or what should be kept can't be written."""


class Row(NamedTuple):
    """One write, as it is kept."""

    version: int
    previous: int
    deleted: int
    group: str
    plural: str
    namespace: str
    name: str
    creator: str
    document: bytes


class Database:
    """The open file. One thread at a time, which its lock sees to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            path.touch(mode=0o600)
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise StorageError(f"{path}: {error}") from error
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._connection.close()
            raise self._damaged(error) from error
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        connection = self._connection
        # Read before anything is written: a file that isn't ours stays as it is.
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        is_new = (application, version, tables) == (0, 0, 0)
        if not is_new and application != APPLICATION_ID:
            raise StorageError(f"{self.path}: is a database of something else than Bosket")
        if not is_new and version != SCHEMA_VERSION:
            raise StorageError(
                f"{self.path}: has format {version}, this version of Bosket reads format {SCHEMA_VERSION} only"
            )
        connection.execute("PRAGMA journal_mode = WAL")
        # Every commit is on disk before it counts, so that not even a power cut takes back what was acknowledged.
        connection.execute("PRAGMA synchronous = FULL")
        if is_new:
            connection.executescript(_SCHEMA)
        elif (problem := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise self._damaged(problem)

    def _damaged(self, problem: object) -> StorageError:
        return StorageError(
            f"{self.path} is damaged ({problem}): restore it from a copy, or remove its directory to begin with "
            "an empty cluster"
        )

    # reading, before the first write

    @property
    def horizon(self) -> int:
        """History up to this version has been dropped; later rows are complete."""
        return self._number(_HORIZON)

    def rows(self) -> Iterator[Row]:
        """All that is kept, oldest first."""
        try:
            with self._lock:
                yield from map(Row._make, self._connection.execute("SELECT * FROM write ORDER BY version"))
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    # writing

    def append(self, rows: Sequence[Row]) -> None:
        """Keep these writes; they are on disk when this returns."""
        with self._lock, self._writing():
            if len(rows) <= _ROWS_AT_ONCE:
                self._insert(rows)  # a transaction by itself
                return
            self._connection.execute("BEGIN")
            for start in range(0, len(rows), _ROWS_AT_ONCE):
                self._insert(rows[start : start + _ROWS_AT_ONCE])
            self._connection.execute("COMMIT")

    def _insert(self, rows: Sequence[Row]) -> None:
        placeholders = ",".join(["(" + ",".join("?" * _COLUMNS) + ")"] * len(rows))
        self._connection.execute(
            f"INSERT INTO write VALUES {placeholders}",  # noqa: S608 - question marks only
            [value for row in rows for value in row],
        )

    def compact(self, horizon: int) -> None:
        """Drop the history up to `horizon`. Costs what has been written since the last time."""
        with self._lock, self._writing():
            span = (self._number(_HORIZON), horizon)
            self._connection.execute("BEGIN")
            self._connection.execute(
                "DELETE FROM write WHERE version IN "
                "(SELECT previous FROM write WHERE version > ? AND version <= ? AND previous > 0)",
                span,
            )
            self._connection.execute("DELETE FROM write WHERE version > ? AND version <= ? AND deleted", span)
            self._connection.execute("INSERT OR REPLACE INTO number VALUES (?, ?)", (_HORIZON, horizon))
            self._connection.execute("COMMIT")

    def memo(self, name: str) -> bytes | None:
        """What was last put down under a name."""
        with self._lock:
            found = self._connection.execute("SELECT value FROM memo WHERE name = ?", (name,)).fetchone()
        return None if found is None else bytes(found[0])

    def put_memo(self, name: str, value: bytes) -> None:
        with self._lock, self._writing():
            self._connection.execute("INSERT OR REPLACE INTO memo VALUES (?, ?)", (name, value))

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _number(self, name: str) -> int:
        found = self._connection.execute("SELECT value FROM number WHERE name = ?", (name,)).fetchone()
        return 0 if found is None else int(found[0])

    def _writing(self) -> _Writing:
        return _Writing(self.path, self._connection)


class _Writing:
    """Around writes: what fails is taken back as a whole, and told as a `StorageError`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            return
        if self._connection.in_transaction:
            self._connection.rollback()
        if isinstance(error, sqlite3.Error):
            raise StorageError(f"{self._path}: can't be written: {error}") from error
