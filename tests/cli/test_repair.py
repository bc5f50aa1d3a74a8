"""`bosket repair` keeps what can be read of a damaged data directory; `bosket up` refuses one until it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from bosket.apiserver.storage.directory import DATABASE, DataDirectory
from bosket.apiserver.storage.row import Row
from bosket.cli.main import main


def damaged(path: Path) -> Path:
    """A directory with 20 objects, of which one is not as it was written."""
    with DataDirectory(path) as data:
        data.database.append(
            [
                Row(version, 0, 0, "", "configmaps", "default", f"c{version}", "test", b'{"n":"%08d"}' % version)
                for version in range(2, 22)
            ]
        )
    file = path / DATABASE
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
