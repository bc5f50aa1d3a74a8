"""What other schedulers say of themselves: definitions of their kinds, and the source that reads their annotations.

Taken from their releases through the Go module proxy, with checksums verified, by `python -m tests.controlplane build`;
kept in the user's cache, never in the repository. A proxy may not have every release, so the newest one that it has is
taken.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.controlplane.assets import cache_folder
from tests.controlplane.build import BuildFailed
from tests.controlplane.toolchain import find_go


@dataclass(frozen=True, slots=True)
class Project:
    """Files of a project that its releases have."""

    name: str
    module: str
    #: The newest first.
    versions: tuple[str, ...]
    files: tuple[str, ...]


PROJECTS: Final = (
    Project(
        "volcano",
        "volcano.sh/volcano",
        ("v1.15.1", "v1.15.0", "v1.14.1"),
        (
            "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml",
            "config/crd/volcano/bases/topology.volcano.sh_hypernodes.yaml",
        ),
    ),
    Project(
        "koordinator",
        "github.com/koordinator-sh/koordinator",
        ("v1.8.0", "v1.7.0"),
        (
            "config/crd/bases/scheduling.sigs.k8s.io_podgroups.yaml",
            "config/crd/bases/scheduling.koordinator.sh_clusternetworktopologies.yaml",
        ),
    ),
    Project("yunikorn", "github.com/apache/yunikorn-k8shim", ("v1.8.0",), ("pkg/cache/amprotocol.go",)),
)


def find_files(project: str, environment: Mapping[str, str] = os.environ) -> list[Path] | None:
    """The project's files; None if they have to be fetched."""
    wanted = next(each for each in PROJECTS if each.name == project)
    files = [_cached(environment) / wanted.name / Path(each).name for each in wanted.files]
    return files if all(each.is_file() for each in files) else None


def obtain_files(say: Callable[[str], None], environment: Mapping[str, str] = os.environ) -> Path:
    """The folder with the files of all projects, fetched if need be; raises `BuildFailed`."""
    for project in PROJECTS:
        if find_files(project.name, environment) is None:
            _fetch(project, environment, say)
    return _cached(environment)


def _fetch(project: Project, environment: Mapping[str, str], say: Callable[[str], None]) -> None:
    target = _cached(environment) / project.name
    target.parent.mkdir(parents=True, exist_ok=True)
    source = _release(project, find_go(cache_folder(environment), say), say)
    with tempfile.TemporaryDirectory(prefix=f"{project.name}.", dir=target.parent) as text:
        folder = Path(text) / project.name
        folder.mkdir()
        for file in project.files:
            shutil.copyfile(source / file, folder / Path(file).name)
        shutil.rmtree(target, ignore_errors=True)
        folder.rename(target)


def _release(project: Project, go: Path, say: Callable[[str], None]) -> Path:
    """The folder of Go's module cache with the newest release that can be had."""
    answer = ""
    for version in project.versions:
        say(f"fetching {project.module} {version}")
        command: list[str | Path] = [go, "mod", "download", "-json", f"{project.module}@{version}"]
        with tempfile.TemporaryDirectory() as nowhere:  # in no module, so that no go.mod is changed
            done = subprocess.run(command, cwd=nowhere, capture_output=True, text=True, check=False)
        answer = done.stdout or done.stderr
        if done.returncode == 0:
            return Path(json.loads(done.stdout)["Dir"])
    raise BuildFailed(f"no release of {project.module} can be had: {answer.strip()}")


def _cached(environment: Mapping[str, str]) -> Path:
    return cache_folder(environment).with_name("other-schedulers")
