"""Snapshots on which the scheduler failed are kept, within limits."""

from __future__ import annotations

import errno
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.faults import failed_snapshots
from bosket.scheduler.faults.failed_snapshots import MOST_BYTES, MOST_FILES, FailedSnapshots
from bosket.scheduler.recording.writer import take
from bosket.scheduler.state.options import StateOptions
from bosket.services.operator.workload import SCRATCH_MIB
from bosket.testing.build import gang, node, pod_group, queue
from bosket.testing.cluster import NOW, state_of


def list_files(directory: Path) -> list[Path]:
    return list(directory.iterdir())


FINE = (node("n0"), queue("q"), pod_group("fine"), *gang("fine", 1))


async def test_kept_snapshots_are_few_and_private(tmp_path: Path) -> None:
    kept = FailedSnapshots(tmp_path / "kept")
    recorded = take(state_of(FINE), StateOptions(), Configuration(), NOW)
    for _ in range(MOST_FILES + 2):
        assert await kept.keep(recorded) is not None
    files = list((tmp_path / "kept").iterdir())
    assert len(files) == MOST_FILES
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert zipfile.is_zipfile(kept.newest() or "")


async def test_kept_snapshots_fit_into_the_operators_volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while one more is being written, and after a process died while it wrote one."""
    monkeypatch.setattr(failed_snapshots, "zipped", lambda _: bytes(5 * 2**20))
    (tmp_path / "failed-1970-1-1.zip.part").write_bytes(bytes(3 * 2**20))
    most = 0
    opened = os.open

    def measuring(path: Any, *args: Any, **kwargs: Any) -> int:
        nonlocal most
        most = max(most, sum(each.stat().st_size for each in tmp_path.iterdir()))
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", measuring)
    kept = FailedSnapshots(tmp_path)
    recorded = take(state_of(FINE), StateOptions(), Configuration(), NOW)
    for _ in range(4):
        newest = await kept.keep(recorded)
        assert newest is not None
        assert kept.newest() == newest
    assert most + 5 * 2**20 <= MOST_BYTES < SCRATCH_MIB * 2**20
    assert [each.stat().st_size for each in list_files(tmp_path)] == [5 * 2**20] * 2
    monkeypatch.setattr(failed_snapshots, "zipped", lambda _: bytes(MOST_BYTES + 1))
    assert await kept.keep(recorded) is None
    assert kept.newest() == newest


async def test_a_volume_that_is_full_keeps_no_part_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    recorded = take(state_of(FINE), StateOptions(), Configuration(), NOW)
    assert await FailedSnapshots(tmp_path).keep(recorded) is None
    assert list_files(tmp_path) == []


async def test_a_directory_that_can_not_be_written_to_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    recorded = take(state_of(FINE), StateOptions(), Configuration(), NOW)
    assert await FailedSnapshots(tmp_path / "file").keep(recorded) is None
    (tmp_path / "link").symlink_to(tmp_path)
    assert await FailedSnapshots(tmp_path / "link").keep(recorded) is None
    assert await FailedSnapshots(None).keep(recorded) is None
