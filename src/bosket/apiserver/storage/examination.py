"""Looking at a database before it is used: what in it is as it was written, and what was lost.

A file loses what was written when bits of it flip, when its end is cut off, or when the write-ahead log beside it is
damaged: SQLite then goes back to the last write before the damage, and says nothing. So each row has a checksum, and
the directory remembers apart from the database how far it had got (`Progress`). The files are only read here.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from bosket.apiserver.storage.row import Row, checksum

#: Objects that a message names; the others are counted.
_NAMED: Final = 3


class Progress(msgspec.Struct, frozen=True):
    """How far a database had got when it was last written to, as the directory remembers it."""

    version: int
    horizon: int
    rows: int


@dataclass
class Findings:
    """What an examination found. Rows are in the order of their versions, each as it was written."""

    rows: list[Row] = field(default_factory=list)
    horizon: int = 0
    memos: dict[str, bytes] = field(default_factory=dict)
    #: objects whose rows could be read, but are not as they were written
    altered: list[str] = field(default_factory=list)
    #: rows that are known to have been there, and are not; None: it can't be told how many
    missing: int | None = 0
    #: of what the server keeps beside its objects: keys, tokens
    altered_memos: list[str] = field(default_factory=list)
    #: what is wrong with the file as a whole
    problem: str = ""
    #: the last version that was ever given out, as far as is known
    last_version: int = 0

    @property
    def is_damaged(self) -> bool:
        return bool(self.altered or self.missing != 0 or self.altered_memos or self.problem)

    @property
    def loss(self) -> str:
        """What was lost, in numbers and names."""
        parts = []
        if self.altered:
            named = ", ".join(self.altered[:_NAMED])
            more = f" and {len(self.altered) - _NAMED} more" if len(self.altered) > _NAMED else ""
            parts.append(f"{_count(len(self.altered), 'write')} altered ({named}{more})")
        if self.missing is None:
            parts.append("an unknown number of writes missing")
        elif self.missing:
            parts.append(f"{_count(self.missing, 'write')} missing")
        if self.altered_memos:
            parts.append(f"{', '.join(self.altered_memos)} unreadable")
        if not parts:
            parts.append("no write lost, as far as can be told")
        return f"{'; '.join(parts)}; {_count(len(self.rows), 'write')} can be read" + (
            f" ({self.problem})" if self.problem else ""
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def all_lost(progress: Progress | None, problem: str) -> Findings:
    """The findings about a file of which nothing can be read; what was in it is known from `progress` alone."""
    found = Findings(problem=problem, missing=None, altered_memos=["keys and tokens"])
    if progress is not None:
        found.missing, found.last_version = progress.rows, max(progress.version, progress.horizon)
    return found


def examine(path: Path, progress: Progress | None, columns: str) -> Findings:
    """Read all that can be read. `progress` is None where nothing is remembered, `columns` those of a row."""
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    except sqlite3.Error as error:
        return all_lost(progress, f"SQLite: {error}")
    found = Findings(last_version=progress.version if progress is not None else 0)
    try:
        _examine(connection, found, progress, columns)
    finally:
        connection.close()
    return found


def _examine(connection: sqlite3.Connection, found: Findings, progress: Progress | None, columns: str) -> None:
    try:
        check = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        found.problem = "" if check == "ok" else f"SQLite: {' '.join(str(check).split())}"
    except sqlite3.Error as error:
        found.problem = f"SQLite: {error}"
    _read_numbers(connection, found)
    read = _Reading(connection, columns)
    read.span(0, max(read.last(), found.last_version))
    intact: dict[int, Row] = {}  # a damaged tree may lead to a row twice
    for values in read.rows:
        *row, digest = values
        if _is_intact(row, digest):
            intact[row[0]] = Row._make(row)
        else:
            found.altered.append(_named(row))
    found.rows = [intact[version] for version in sorted(intact)]
    found.last_version = max(found.last_version, found.rows[-1].version if found.rows else 0, found.horizon)
    if progress is None:
        if found.problem or read.failed:
            found.missing = None
    elif progress.horizon == found.horizon:
        before = sum(1 for version in intact if version <= progress.version)
        found.missing = max(0, progress.rows - before - len(found.altered))
    elif read.failed or not any(row.version >= progress.version for row in found.rows):
        found.missing = None  # its history was dropped after the last time that progress was remembered


def _read_numbers(connection: sqlite3.Connection, found: Findings) -> None:
    for table in ("number", "memo"):
        try:
            rows = connection.execute(f"SELECT name, value, checksum FROM {table}").fetchall()  # noqa: S608 - two names
        except sqlite3.Error as error:
            found.problem = found.problem or f"SQLite: {error}"
            found.altered_memos.append("numbers" if table == "number" else "keys and tokens")
            continue
        for name, value, digest in rows:
            if not _is_intact([name, value], digest):
                found.altered_memos.append(f"{name!s:.40}")
            elif table == "number":
                found.horizon = int(value)
            else:
                found.memos[name] = bytes(value)


def _is_intact(values: list[Any], digest: object) -> bool:
    """Whether values are as they were written; some that damage leaves behind (null, fractions) never are."""
    return all(isinstance(each, int | str | bytes) for each in values) and digest == checksum(values)


def _named(values: list[object]) -> str:
    try:
        return Row._make(values).shown[:100]
    except (TypeError, ValueError):
        return "one that can't be named"


class _Reading:
    """Reads rows around those that can't be read: a span that fails is read in halves."""

    def __init__(self, connection: sqlite3.Connection, columns: str) -> None:
        self._connection = connection
        self._columns = columns
        self.rows: list[tuple[Any, ...]] = []
        self.failed = False

    def last(self) -> int:
        """The highest version, as far as the file can tell."""
        try:
            (version,) = self._connection.execute("SELECT max(version) FROM write").fetchone()
        except sqlite3.Error:
            return 0
        return int(version or 0)

    def span(self, first: int, last: int) -> None:
        try:
            self.rows += self._connection.execute(
                f"SELECT {self._columns} FROM write WHERE version BETWEEN ? AND ? ORDER BY version",  # noqa: S608 - names
                (first, last),
            ).fetchall()
        except (sqlite3.Error, OverflowError):
            self.failed = True
            if first < last:
                middle = (first + last) // 2
                self.span(first, middle)
                self.span(middle + 1, last)
