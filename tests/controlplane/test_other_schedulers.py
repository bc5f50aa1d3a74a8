from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.controlplane.build import BuildFailed
from tests.controlplane.other_schedulers import PROJECTS, find_files, obtain_files


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `go` whose proxy has only the last release of each project."""
    releases = tmp_path / "releases"
    for project in PROJECTS:
        for file in project.files:
            path = releases / project.name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(project.name)
    answers = {
        f"{project.module}@{project.versions[-1]}": json.dumps({"Dir": str(releases / project.name)})
        for project in PROJECTS
    }
    cases = "\n".join(f"{name}) echo '{answer}'; exit 0;;" for name, answer in answers.items())
    script = f"""#!/bin/sh
        case "$1" in version) echo "go version go1.26.1 linux/amd64"; exit 0;; esac
        case "$4" in {cases} esac
        echo 'not available'; exit 1
    """
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(script)
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    return go


def test_the_newest_release_that_can_be_had_is_kept(tmp_path: Path, go: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert find_files("volcano", environment) is None
    said: list[str] = []
    obtain_files(said.append, environment)
    files = find_files("volcano", environment)
    assert files is not None
    assert [each.read_text() for each in files] == ["volcano", "volcano"]
    assert said[:2] == ["fetching volcano.sh/volcano v1.15.1", "fetching volcano.sh/volcano v1.15.0"]
    go.unlink()
    obtain_files(said.append, environment)  # nothing is fetched twice


def test_where_none_can_be_had_that_is_said(tmp_path: Path, go: Path) -> None:
    go.write_text('#!/bin/sh\ncase "$1" in version) echo "go version go1.26.1 linux/amd64"; exit 0;; esac\nexit 1\n')
    with pytest.raises(BuildFailed, match=r"no release of volcano\.sh/volcano can be had"):
        obtain_files(lambda _: None, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
