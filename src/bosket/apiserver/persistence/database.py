"""The database file: every write of the store as a row, in the order of versions.

A row is what one write left behind. The newest row of an object is the object; older ones are history, which watches
resume from. Rows of the past that no newer one needs are dropped by `compact`, so that the file grows with the number
of objects and not with time.

Writes come in batches, each of them one transaction that is on disk when `append` returns. A batch is as few statements
as possible: each of them gives up the interpreter's lock once, and has to wait for it once.

A file is examined before it is used (`examination`). One that lost something is refused, unless told to go on: then
a new one is made of what can be read, and the damaged one is kept beside it.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bosket.apiserver.persistence.examination import Findings, Progress, all_lost, examine
from bosket.apiserver.persistence.progress import ProgressFile
from bosket.apiserver.persistence.row import Row, checksum

#: Of the tables below; a file with another number was written by another version of Bosket.
SCHEMA_VERSION: Final = 2
#: Without checksums; such a file is given them when it is opened.
_UNCHECKED: Final = 1
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
    document BLOB NOT NULL,
    checksum BLOB NOT NULL      -- of all that is before it
);
CREATE TABLE number (name TEXT PRIMARY KEY, value INTEGER NOT NULL, checksum BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE memo (name TEXT PRIMARY KEY, value BLOB NOT NULL, checksum BLOB NOT NULL) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
_NAMES: Final = "version, previous, deleted, api_group, plural, namespace, name, creator, document, checksum"
_COLUMNS: Final = 10
#: Rows of one statement; below SQLite's oldest limit on parameters.
_ROWS_AT_ONCE: Final = 100
_HORIZON: Final = "horizon"


class StorageError(Exception):
    """What is kept can't be read, or what should be kept can't be written."""


class Database:
    """The open file. One thread at a time, which its lock sees to."""

    def __init__(self, path: Path, *, accept_loss: bool = False, in_use: bool = False) -> None:
        """Open the file, or make it. One that lost something is refused, or with `accept_loss` replaced by the rest.

        `in_use`: the file was complete once, so it has lost everything if it is missing or empty now.
        """
        self.path = path
        #: what is lost, where that was accepted; empty where nothing is
        self.loss = ""
        self._lock = threading.Lock()
        self._progress = ProgressFile.beside(path)
        #: how many there are, and the version of the last of them
        self._rows = self._last_version = 0
        try:
            is_empty = not path.exists() or path.stat().st_size == 0
            # Progress is first written after the tables are on disk.
            is_new = is_empty and not in_use and not self._progress.exists
            if is_new:
                path.touch(mode=0o600)
            found = Findings() if is_new else self._examined(is_empty=is_empty)
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror}") from error
        if found.is_damaged:
            if not accept_loss:
                raise self._damaged(found.loss)
            self._set_aside()
        try:
            self._open(found, fill=is_new or found.is_damaged)
        except sqlite3.Error as error:  # the rows can be read, and the file can't be written
            if found.is_damaged or not accept_loss:
                raise self._damaged(error) from error
            found.problem = f"SQLite: {error}"
            self._set_aside()
            self._open(found, fill=True)
        #: all that is kept, oldest first, until it was asked for or more was written
        self._found: list[Row] | None = found.rows

    def _examined(self, *, is_empty: bool) -> Findings:
        """What is in the file; raises where it isn't ours. Nothing is written to it, but checksums to an old one."""
        progress, readable = self._progress.read()
        # SQLite removes the write-ahead log of an empty file even if it may only read: such a file isn't opened.
        found = all_lost(progress, "the file is missing or empty") if is_empty else self._found_in_file(progress)
        if not readable:
            found.altered_memos.append("how far it had got")
        return found

    def _found_in_file(self, progress: Progress | None) -> Findings:
        try:
            connection = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)
            try:
                (application,) = connection.execute("PRAGMA application_id").fetchone()
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            finally:
                connection.close()
        except sqlite3.Error as error:
            return all_lost(progress, f"SQLite: {error}")
        if (application, version, tables) == (0, 0, 0):
            return all_lost(progress, "the file has no tables")
        if application != APPLICATION_ID:
            raise StorageError(f"{self.path}: is a database of something else than Bosket")
        if version == _UNCHECKED:
            self._add_checksums()
        elif version != SCHEMA_VERSION:
            raise StorageError(
                f"{self.path}: has format {version}, this version of Bosket reads format {SCHEMA_VERSION} only"
            )
        return examine(self.path, progress, _NAMES)

    def _add_checksums(self) -> None:
        """Bring a file of the format before to this one."""
        connection = sqlite3.connect(self.path, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            for table in ("write", "number", "memo"):
                connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum BLOB NOT NULL DEFAULT x''")
            connection.create_function("row_checksum", -1, lambda *values: checksum(values), deterministic=True)
            plain = _NAMES.removesuffix(", checksum")
            connection.execute(f"UPDATE write SET checksum = row_checksum({plain})")  # noqa: S608 - names of columns
            for table in ("number", "memo"):
                connection.execute(f"UPDATE {table} SET checksum = row_checksum(name, value)")  # noqa: S608 - two names
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._damaged(error) from error
        finally:
            connection.close()

    def _set_aside(self) -> None:
        """Move the damaged files out of the way; who repairs them by hand finds them there."""
        number = 1
        while (target := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
            number += 1
        try:
            for suffix in ("", "-wal"):
                file = self.path.with_name(self.path.name + suffix)
                if file.exists():
                    file.rename(target.with_name(target.name + suffix))
            self.path.with_name(self.path.name + "-shm").unlink(missing_ok=True)
            self.path.touch(mode=0o600)
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror}") from error

    def _open(self, found: Findings, *, fill: bool) -> None:
        self._connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        try:
            self._prepare(found, fill=fill)
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self, found: Findings, *, fill: bool) -> None:
        connection = self._connection
        connection.execute("PRAGMA journal_mode = WAL")
        # Every commit is on disk before it counts, so that not even a power cut takes back what was acknowledged.
        connection.execute("PRAGMA synchronous = FULL")
        if fill:
            connection.executescript(_SCHEMA)
        if found.is_damaged:
            self.loss = found.loss
            # History with gaps is none: watches begin anew, and no version is given out twice.
            found.horizon = found.last_version
            found.rows = _newest(found.rows)
            for name, value in found.memos.items():
                self.put_memo(name, value)
            self.append(found.rows)
            self.compact(found.horizon)
        self._rows = len(found.rows)
        self._note(found.rows[-1].version if found.rows else 0)

    def _damaged(self, problem: object) -> StorageError:
        return StorageError(
            f"{self.path} is damaged ({problem}): restore it from a copy, "
            "or go on with what can be read by --accept-loss"
        )

    # reading, before the first write

    @property
    def horizon(self) -> int:
        """History up to this version has been dropped; later rows are complete."""
        return self._number(_HORIZON)

    def rows(self) -> Iterator[Row]:
        """All that is kept, oldest first, each as it was written."""
        found, self._found = self._found, None
        if found is None:  # another server on a file that is open, and whose rows were examined or written since
            plain = _NAMES.removesuffix(", checksum")
            with self._lock:
                found = [
                    Row._make(values)
                    for values in self._connection.execute(f"SELECT {plain} FROM write ORDER BY version")  # noqa: S608 - names
                ]
        yield from found

    # writing

    def append(self, rows: Sequence[Row]) -> None:
        """Keep these writes; they are on disk when this returns."""
        self._found = None
        with self._lock, self._writing():
            if len(rows) <= _ROWS_AT_ONCE:
                if rows:
                    self._insert(rows)  # a transaction by itself
            else:
                self._connection.execute("BEGIN")
                for start in range(0, len(rows), _ROWS_AT_ONCE):
                    self._insert(rows[start : start + _ROWS_AT_ONCE])
                self._connection.execute("COMMIT")
            self._rows += len(rows)
            self._note(rows[-1].version if rows else 0)

    def _insert(self, rows: Sequence[Row]) -> None:
        placeholders = ",".join(["(" + ",".join("?" * _COLUMNS) + ")"] * len(rows))
        self._connection.execute(
            f"INSERT INTO write VALUES {placeholders}",  # noqa: S608 - question marks only
            [value for row in rows for value in (*row, checksum(row))],
        )

    def compact(self, horizon: int) -> None:
        """Drop the history up to `horizon`. Costs what has been written since the last time."""
        with self._lock, self._writing():
            span = (self._number(_HORIZON), horizon)
            self._connection.execute("BEGIN")
            replaced = self._connection.execute(
                "DELETE FROM write WHERE version IN "
                "(SELECT previous FROM write WHERE version > ? AND version <= ? AND previous > 0)",
                span,
            ).rowcount
            gone = self._connection.execute(
                "DELETE FROM write WHERE version > ? AND version <= ? AND deleted", span
            ).rowcount
            kept = (_HORIZON, horizon)
            self._connection.execute("INSERT OR REPLACE INTO number VALUES (?, ?, ?)", (*kept, checksum(kept)))
            self._connection.execute("COMMIT")
            self._rows -= replaced + gone
            self._note(self._last_version)

    def memo(self, name: str) -> bytes | None:
        """What was last put down under a name."""
        with self._lock:
            found = self._connection.execute("SELECT value FROM memo WHERE name = ?", (name,)).fetchone()
        return None if found is None else bytes(found[0])

    def put_memo(self, name: str, value: bytes) -> None:
        with self._lock, self._writing():
            kept = (name, value)
            self._connection.execute("INSERT OR REPLACE INTO memo VALUES (?, ?, ?)", (*kept, checksum(kept)))

    def close(self) -> None:
        with self._lock:
            self._connection.close()
            self._progress.close()

    def _note(self, version: int) -> None:
        """Remember beside the file how far it has got; what it says is on disk by now."""
        self._last_version = max(version, self._last_version)
        self._progress.write(Progress(self._last_version, self._number(_HORIZON), self._rows))

    def _number(self, name: str) -> int:
        found = self._connection.execute("SELECT value FROM number WHERE name = ?", (name,)).fetchone()
        return 0 if found is None else int(found[0])

    def _writing(self) -> _Writing:
        return _Writing(self.path, self._connection)


def _newest(rows: list[Row]) -> list[Row]:
    """The last known state of each object that is there."""
    objects = {(row.group, row.plural, row.namespace, row.name): row for row in rows}
    return sorted(row._replace(previous=0) for row in objects.values() if not row.deleted)


class _Writing:
    """Around writes: what fails is taken back as a whole, and raised as a `StorageError`."""

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
