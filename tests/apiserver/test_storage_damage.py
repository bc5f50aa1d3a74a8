"""A data directory whose files were damaged: what is served is as it was written, and what was lost is reported."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bosket.apiserver.persistence import examination
from bosket.apiserver.persistence.database import _NAMES, APPLICATION_ID, StorageError
from bosket.apiserver.persistence.directory import DATABASE, DataDirectory
from bosket.apiserver.persistence.examination import Progress
from bosket.apiserver.persistence.row import Row

WAL, PROGRESS = f"{DATABASE}-wal", "progress"
_HEAD_BYTES = 100


def row(version: int, name: str = "", *, previous: int = 0, size: int = 300) -> Row:
    document = b'{"metadata":{"name":"%s"},"data":"%s"}' % (name.encode() or b"c%d" % version, b"x" * size)
    return Row(version, previous, 0, "", "configmaps", "default", name or f"c{version}", "test", document)


WRITTEN = [row(version) for version in range(2, 60)]


def fill(path: Path) -> None:
    """A directory as a server leaves it that was killed: some writes are in the database, the last ones in its log."""
    living = path.with_name(path.name + "-living")
    data = DataDirectory(living)
    data.remembered("key", lambda: b"secret")
    data.database.append(WRITTEN[:40])
    data.database._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for each in WRITTEN[40:]:
        data.database.append([each])
    shutil.copytree(living, path)
    (path / f"{DATABASE}-shm").unlink(missing_ok=True)
    data.close()
    shutil.rmtree(living)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "killed"
    fill(path)
    return path


def read(path: Path, *, accept_loss: bool = False) -> tuple[list[Row], str]:
    with DataDirectory(path, accept_loss=accept_loss) as data:
        return list(data.database.rows()), data.database.loss


def flip(file: Path, chance: random.Random, count: int) -> None:
    content = bytearray(file.read_bytes())
    for _ in range(count):
        at = chance.randrange(len(content))
        content[at] ^= 1 << chance.randrange(8)
    file.write_bytes(content)


def cut(file: Path, chance: random.Random, count: int) -> None:
    os.truncate(file, chance.randrange(file.stat().st_size) if count else 0)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32),
    harm=st.sampled_from([flip, cut]),
    name=st.sampled_from([DATABASE, WAL, PROGRESS]),
    count=st.integers(1, 20),
)
def test_whatever_is_damaged_only_rows_as_they_were_written_are_served_and_the_loss_is_told(
    killed: Path,
    tmp_path: Path,
    seed: int,
    harm: Callable[[Path, random.Random, int], None],
    name: str,
    count: int,
) -> None:
    path = Path(tempfile.mkdtemp(dir=tmp_path)) / "damaged"
    shutil.copytree(killed, path)
    harm(path / name, random.Random(seed), count)
    before = {file.name: file.read_bytes() for file in path.iterdir() if not file.name.endswith("-shm")}
    try:
        rows, loss = read(path)
    except StorageError as error:
        message = str(error)
        if "something else" in message or "has format" in message:
            return  # the damage is in the few bytes that say whose file it is
        assert "is damaged (" in message
        assert "missing" in message or "altered" in message or "unreadable" in message or "SQLite" in message
        after = {file.name: file.read_bytes() for file in path.iterdir() if not file.name.endswith("-shm")}
        assert after == before  # what was refused is as it was
        rows, loss = read(path, accept_loss=True)
        assert loss
        assert {each._replace(previous=0) for each in rows} <= set(WRITTEN)
        assert read(path) == (rows, "")  # and from now on it is a directory like others
    else:
        assert (rows, loss) == (WRITTEN, "")


def test_a_directory_of_a_killed_server_that_is_not_damaged_is_used(killed: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy"
    shutil.copytree(killed, path)
    assert read(path) == (WRITTEN, "")
    assert read(path) == (WRITTEN, "")


def test_writes_that_are_missing_at_the_end_are_counted(killed: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy"
    shutil.copytree(killed, path)
    (path / WAL).unlink()
    with pytest.raises(StorageError, match=r"18 writes missing; 40 writes can be read.*--accept-loss"):
        DataDirectory(path)
    with DataDirectory(path, accept_loss=True) as data:
        assert list(data.database.rows()) == WRITTEN[:40]
        assert data.database.horizon == WRITTEN[-1].version  # no version is given out twice, and no watch resumes
        assert data.remembered("key", lambda: b"another") == b"secret"
    kept = path / f"{DATABASE}.damaged-1"
    assert kept.exists()


def test_a_row_that_was_changed_is_named_and_not_served(tmp_path: Path) -> None:
    with DataDirectory(tmp_path) as data:
        data.database.append([row(2, "a"), row(3, "b"), row(4, "a", previous=2, size=10)])
    connection = sqlite3.connect(tmp_path / DATABASE)
    connection.execute("UPDATE write SET document = replace(document, 'x', 'y') WHERE version = 4")
    connection.commit()
    connection.close()
    with pytest.raises(StorageError, match=r"1 write altered \(configmaps default/a\); 2 writes can be read"):
        DataDirectory(tmp_path)
    rows, _ = read(tmp_path, accept_loss=True)
    assert rows == [row(2, "a"), row(3, "b")]


def test_a_key_that_was_changed_is_not_used(tmp_path: Path) -> None:
    with DataDirectory(tmp_path) as data:
        data.remembered("service-account-key", lambda: b"first")
    connection = sqlite3.connect(tmp_path / DATABASE)
    connection.execute("UPDATE memo SET value = x'00'")
    connection.commit()
    connection.close()
    with pytest.raises(StorageError, match="service-account-key unreadable"):
        DataDirectory(tmp_path)
    with DataDirectory(tmp_path, accept_loss=True) as data:
        assert data.remembered("service-account-key", lambda: b"second") == b"second"


def test_a_file_of_the_format_before_is_given_checksums(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / DATABASE, isolation_level=None)
    connection.executescript(
        f"""
        CREATE TABLE write (version INTEGER PRIMARY KEY, previous INTEGER NOT NULL, deleted INTEGER NOT NULL,
            api_group TEXT NOT NULL, plural TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
            creator TEXT NOT NULL, document BLOB NOT NULL);
        CREATE TABLE number (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE memo (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
        INSERT INTO number VALUES ('horizon', 1);
        INSERT INTO memo VALUES ('key', x'01');
        PRAGMA application_id = {APPLICATION_ID};
        PRAGMA user_version = 1;
        """
    )
    connection.executemany(f"INSERT INTO write VALUES ({','.join('?' * 9)})", WRITTEN)
    connection.close()
    for _ in range(2):
        with DataDirectory(tmp_path) as data:
            assert list(data.database.rows()) == WRITTEN
            assert (data.database.horizon, data.remembered("key", lambda: b"")) == (1, b"\x01")


def test_history_that_is_dropped_is_not_missed(tmp_path: Path) -> None:
    with DataDirectory(tmp_path) as data:
        data.database.append([row(2, "a"), row(3, "a", previous=2), row(4, "b")])
        data.database.compact(3)
        data.database.append([row(5, "c")])
    assert [each.version for each in read(tmp_path)[0]] == [3, 4, 5]


def test_a_text_that_became_bytes_is_not_as_it_was_written(tmp_path: Path) -> None:
    """One flipped bit in the head of a record does that, and leaves every byte of the text."""
    with DataDirectory(tmp_path) as data:
        data.database.append([row(2, "a"), row(3, "b")])
    connection = sqlite3.connect(tmp_path / DATABASE)
    connection.execute("UPDATE write SET name = CAST(name AS BLOB) WHERE version = 3")
    connection.commit()
    connection.close()
    with pytest.raises(StorageError, match="1 write altered"):
        DataDirectory(tmp_path)
    assert read(tmp_path, accept_loss=True)[0] == [row(2, "a")]


PAGE_BYTES = 4096


def unreadable_pages(path: Path, rows: list[Row], every: int) -> list[Row]:
    """Overwrite every second, third … page that holds rows; those that are on the others."""
    file = path / DATABASE
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("VACUUM")  # leaves no old copies of rows in other pages
    content = bytearray(file.read_bytes())
    page_of = {each: content.index(each.document) // PAGE_BYTES for each in rows}
    harmed = set(sorted(set(page_of.values()))[::every])
    for page in harmed:
        content[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = b"\xff" * PAGE_BYTES
    file.write_bytes(content)
    return [each for each in rows if page_of[each] not in harmed]


@pytest.mark.parametrize("gap", [1, 1_000], ids=["dense", "sparse"])
@pytest.mark.parametrize("every", [2, 3])
def test_all_rows_between_damaged_pages_are_read(tmp_path: Path, every: int, gap: int) -> None:
    rows = [row(version, f"object-{version:09d}") for version in range(2, 2 + 400 * gap, gap)]
    with DataDirectory(tmp_path) as data:
        data.database.append(rows)
    left = unreadable_pages(tmp_path, rows, every)
    assert 150 < len(left) < 300
    assert read(tmp_path, accept_loss=True)[0] == left


class Counting(sqlite3.Connection):
    """Refuses to go on after more queries than there should be."""

    allowed = 0

    def execute(self, *query: Any) -> sqlite3.Cursor:
        assert Counting.allowed > 0, "too many queries"
        Counting.allowed -= 1
        return super().execute(*query)


@pytest.mark.parametrize("every", [1, 2], ids=["all pages", "every other page"])
def test_the_examination_of_a_badly_damaged_file_ends_whatever_versions_it_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    highest = 2**62
    rows = [row(version, f"object-{version:020d}") for version in (*range(2, 102), highest)]
    with DataDirectory(tmp_path) as data:
        data.database.append(rows)
    left = unreadable_pages(tmp_path, rows, every)
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Counting))
    Counting.allowed = 30_000
    found = examination.examine(tmp_path / DATABASE, Progress(highest, 0, len(rows)), _NAMES)
    assert (found.missing, found.last_version) == (len(rows) - len(found.rows), highest)
    assert set(found.rows) <= set(left)
    assert bool(found.rows) == bool(left)


def test_pages_that_lead_back_to_each_other_are_read_once(tmp_path: Path) -> None:
    """All children of the root are made its first one: its rows come again and again."""
    rows = [row(version, f"object-{version:09d}") for version in range(2, 402)]
    with DataDirectory(tmp_path) as data:
        data.database.append(rows)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'write'").fetchone()
    file = tmp_path / DATABASE
    content = bytearray(file.read_bytes())
    start = (root - 1) * PAGE_BYTES
    cells = int.from_bytes(content[start + 3 : start + 5])
    pointers = [start + int.from_bytes(content[start + 12 + 2 * each : start + 14 + 2 * each]) for each in range(cells)]
    first = content[pointers[0] : pointers[0] + 4]
    for at in (*pointers, start + 8):
        content[at : at + 4] = first
    file.write_bytes(content)
    with closing(sqlite3.connect(file)) as connection:
        reading = examination._Reading(connection, _NAMES)
        reading.all(401)
    assert "not in the order" in reading.problem
    versions = [each[0] for each in reading.rows]
    assert len(versions) == len(set(versions))
