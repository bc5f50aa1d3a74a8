"""`bosket repair` keeps what can be read of a damaged data directory; `bosket up` refuses one without a flag."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from bosket.apiserver.persistence.directory import DATABASE, DataDirectory
from bosket.apiserver.persistence.row import Row
from bosket.cli.main import main


def filled(path: Path) -> Path:
    """A directory with 20 objects."""
    with DataDirectory(path) as data:
        data.database.append(
            [
                Row(version, 0, 0, "", "configmaps", "default", f"c{version}", "test", b'{"n":"%08d"}' % version)
                for version in range(2, 22)
            ]
        )
    return path


def damaged(path: Path) -> Path:
    """A directory with 20 objects, of which one is not as it was written."""
    file = filled(path) / DATABASE
    file.write_bytes(file.read_bytes().replace(b'"00000007"', b'"00000008"'))
    return path


def test_a_damaged_directory_is_refused_with_numbers_and_the_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = damaged(tmp_path / "data")
    assert main(["up", "--data", str(path), "--kubeconfig", str(tmp_path / "kubeconfig"), "--services", "none"]) == 1
    said = capsys.readouterr().err
    assert "is damaged (1 write altered (configmaps default/c7); 19 writes can be read)" in said
    assert "--accept-loss" in said


def test_repair_keeps_the_rest_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = damaged(tmp_path / "data")
    assert main(["repair", str(path)]) == 0
    said = capsys.readouterr().out
    assert "1 write altered (configmaps default/c7)" in said
    assert "repaired: the last known state of 19 objects is kept" in said
    assert main(["repair", str(path)]) == 0
    assert "is not damaged: 19 writes can be read, and none is missing" in capsys.readouterr().out


def test_repair_of_what_is_no_data_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["repair", str(tmp_path)]) == 2
    assert "is no data directory" in capsys.readouterr().err


def truncated(file: Path) -> None:
    file.write_bytes(b"")


def without_tables(file: Path) -> None:
    file.unlink()
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 1")  # has it written
    connection.execute("PRAGMA user_version = 0")
    connection.close()


def without_table_of_writes(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("DROP TABLE write")
    connection.close()


@pytest.mark.parametrize("harm", [truncated, Path.unlink, without_tables, without_table_of_writes])
def test_a_database_that_lost_everything_is_refused_and_repaired_with_the_loss_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], harm: Callable[[Path], None]
) -> None:
    path = filled(tmp_path / "data")
    harm(path / DATABASE)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    assert main(["up", "--data", str(path), "--kubeconfig", str(tmp_path / "kubeconfig"), "--services", "none"]) == 1
    said = capsys.readouterr().err
    assert "is damaged (20 writes missing; " in said
    assert "--accept-loss" in said
    assert {name: (path / name).read_bytes() for name in before} == before
    assert (path / DATABASE).exists() == (DATABASE in before)
    assert main(["repair", str(path)]) == 0
    said = capsys.readouterr().out
    assert "was damaged: 20 writes missing; " in said
    assert "repaired: the last known state of 0 objects is kept" in said
    with DataDirectory(path) as data:
        assert data.database.horizon == 21  # no version is given out twice
    assert main(["repair", str(path)]) == 0
    assert "is not damaged: 0 writes can be read, and none is missing" in capsys.readouterr().out


@pytest.mark.parametrize("forgotten", ["lock", "progress"])
def test_an_emptied_database_is_noticed_by_either_file_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], forgotten: str
) -> None:
    path = filled(tmp_path / "data")
    truncated(path / DATABASE)
    (path / forgotten).unlink()
    assert main(["repair", str(path)]) == 0
    known = "20 writes" if forgotten == "lock" else "an unknown number of writes"
    assert f"was damaged: {known} missing; keys and tokens unreadable" in capsys.readouterr().out


def test_repair_of_an_empty_file_that_was_never_used_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / DATABASE).touch()
    assert main(["repair", str(tmp_path)]) == 2
    assert "is no data directory" in capsys.readouterr().err
