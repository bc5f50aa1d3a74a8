"""Checks a database before it is used: which rows are intact, and which were lost.

A file loses what was written when bits of it flip, when its end is cut off, or when the write-ahead log beside it is
damaged: SQLite then goes back to the last write before the damage, and says nothing. So each row has a checksum, and
the directory remembers apart from the database how far it had got (`Progress`). The files are only read here.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from bosket.apiserver.persistence.row import Row, checksum

#: Objects that a message names; the others are counted.
_NAMED: Final = 3
#: Spans that are read around damage, some hundred microseconds each. Damage comes in pages: to read a file of which
#: every other page is damaged takes about four for each page, more where versions are spread unevenly.
_SPANS_PER_PAGE: Final = 8
_MIN_SPANS: Final = 5_000
_MAX_VERSION: Final = 2**63 - 1
#: The pages of a damaged tree can lead back to each other, and reading them would never end.
_OUT_OF_ORDER: Final = "rows are not in the order of their versions"


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
    #: rows that are known to be missing; None: unknown how many
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
            parts.append("no write lost, as far as known")
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
    read.all(found.last_version)
    found.problem = found.problem or read.problem
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
        if found.problem:
            found.missing = None
    elif progress.horizon == found.horizon:
        before = sum(1 for version in intact if version <= progress.version)
        found.missing = max(0, progress.rows - before - len(found.altered))
    elif read.problem or not any(row.version >= progress.version for row in found.rows):
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
    """Reads the rows around those that can't be read, by a number of queries that is bounded by the file's size.

    A span of versions is read from both ends up to the damage, and what is between in halves, breadth first: else a
    span of which nothing can be read would use up all queries. There may be as many versions in it as were ever given
    out, or as a damaged file claims, up to 2⁶³.
    """

    def __init__(self, connection: sqlite3.Connection, columns: str) -> None:
        self._connection = connection
        self._columns = columns
        self.rows: list[tuple[Any, ...]] = []
        #: what SQLite said when rows could not be read; empty where all could
        self.problem = ""

    def all(self, known_version: int) -> None:
        """Read what can be read; a row of `known_version` was written once."""
        first, _ = self._read(0, _MAX_VERSION, "ASC")
        if not self.problem:
            return
        spans = deque([(first, max(self._last_version(), known_version))])
        for _ in range(_MIN_SPANS + _SPANS_PER_PAGE * self._pages()):
            if not spans:
                return
            first, last = self._read(*spans.popleft(), "ASC")
            first, last = self._read(first, last, "DESC")
            if first < last:
                middle = (first + last) // 2
                spans += [(first, middle), (middle + 1, last)]

    def _read(self, first: int, last: int, order: str) -> tuple[int, int]:
        """Read a span from one end up to the damage; first and last version of what is left, (1, 0) for nothing."""
        # Python's cursor looks one row ahead, and gives up the row before the damaged one with it. That is asked for
        # by itself, or each such row would have to be found by halving.
        for limit in (-1, 1) if first <= last else ():
            try:
                for row in self._connection.execute(
                    f"SELECT {self._columns} FROM write WHERE version BETWEEN ? AND ? "  # noqa: S608 - names of columns
                    f"ORDER BY version {order} LIMIT {limit}",
                    (first, last),
                ):
                    if not first <= row[0] <= last:
                        raise sqlite3.DatabaseError(_OUT_OF_ORDER)
                    self.rows.append(row)
                    first, last = (row[0] + 1, last) if order == "ASC" else (first, row[0] - 1)
                if limit < 0:
                    return 1, 0
            except sqlite3.Error as error:
                self.problem = self.problem or f"SQLite: {error}"
        return first, last

    def _last_version(self) -> int:
        """The highest version, as far as the file can tell."""
        try:
            (version,) = self._connection.execute("SELECT max(version) FROM write").fetchone()
        except sqlite3.Error:
            return 0
        return int(version or 0)

    def _pages(self) -> int:
        """The number of pages of the file, by its size."""
        try:
            (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        except sqlite3.Error:
            return 0
        return int(pages)
