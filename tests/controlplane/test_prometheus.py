from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.build import BuildFailed
from tests.controlplane.prometheus import PROGRAMS, find_prometheus, obtain_prometheus


def folder_with(path: Path, *names: str) -> Path:
    path.mkdir(parents=True)
    for name in names:
        (path / name).touch(mode=0o755)
    return path


def test_a_prometheus_on_path_is_taken_if_its_tool_is_there(tmp_path: Path) -> None:
    cached = folder_with(tmp_path / "bosket" / "prometheus", *PROGRAMS)
    whole, half = folder_with(tmp_path / "whole", *PROGRAMS), folder_with(tmp_path / "half", "prometheus")
    assert find_prometheus({"PATH": str(whole), "XDG_CACHE_HOME": str(tmp_path)}) == whole
    assert find_prometheus({"PATH": str(half), "XDG_CACHE_HOME": str(tmp_path)}) == cached
    assert find_prometheus({"PATH": str(half), "XDG_CACHE_HOME": str(tmp_path / "none")}) is None


def test_where_it_can_not_be_fetched_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder_with(tmp_path / "bin")))
    with pytest.raises(BuildFailed, match=r"apt-get failed: .* put prometheus and promtool on PATH instead"):
        obtain_prometheus(lambda _: None, {"PATH": "", "XDG_CACHE_HOME": str(tmp_path)})
    assert find_prometheus({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}) is None
