"""The workloads that the Go scheduler was measured with, run through `bosket replay` in a process of its own.

They are written by `perf/gen.py` below `$BOSKET_SHARED`, or `../shared` beside the repository. The child process
reports its own CPU time and memory, so that nothing of this one is in the figures.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

BOSKET = Path(sys.executable).with_name("bosket")
#: Whoever needs longer for one workload has failed it.
PATIENCE_SECONDS = 600.0


class NotMeasured(Exception):
    """Something that the measurement needs isn't there, or went wrong; the text says what."""


class _PodGroup(msgspec.Struct):
    pods: dict[str, int]


class _Answer(msgspec.Struct):
    """What `bosket replay --json` prints, as far as it matters here."""

    cpu_ms: dict[str, float]
    peak_rss_mb: float
    binds: list[msgspec.Raw]
    evictions: list[msgspec.Raw]
    pipelined: list[msgspec.Raw]
    podGroups: dict[str, _PodGroup]  # noqa: N815


@dataclass(frozen=True)
class Replayed:
    """What became of a workload, and what it cost."""

    pods: int
    binds: int
    evictions: int
    pipelined: int
    cpu_ms: Mapping[str, float]  #: by step: `load`, `open`, each action, and `total` without `load`
    peak_rss_mb: float


def shared_folder() -> Path:
    """Where workloads and traces are that the repository doesn't have."""
    beside = Path(__file__).resolve().parents[1].parent / "shared"
    return Path(os.environ.get("BOSKET_SHARED", beside))


def perf_folder() -> Path:
    """Where the generators and the Go scheduler's figures are."""
    folder = shared_folder() / "perf"
    if not (folder / "gen.py").is_file():
        raise NotMeasured(
            f"there are no workloads: {folder}/gen.py is missing; set BOSKET_SHARED to a folder with perf/"
        )
    return folder


@contextmanager
def workload(kind: str, generator_name: str = "gen.py", **parameters: int) -> Iterator[Path]:
    """The recording of a cluster with work to do, for the length of the block."""
    generator = perf_folder() / generator_name
    if not generator.is_file():
        raise NotMeasured(f"there is no workload {kind}: {generator} is missing")
    with TemporaryDirectory() as folder:
        file = Path(folder) / "snapshot.zip"
        settings = [f"{name}={value}" for name, value in parameters.items()]
        _run([sys.executable, str(generator), kind, *settings, str(file)])
        yield file


def replay(file: Path, repeat: int = 1) -> Replayed:
    """One cycle on a recording: the cheapest of several."""
    printed = _run([str(BOSKET), "replay", str(file), "--json", f"--repeat={repeat}"])
    answer = msgspec.json.decode(printed, type=_Answer)
    return Replayed(
        pods=sum(sum(group.pods.values()) for group in answer.podGroups.values()),
        binds=len(answer.binds),
        evictions=len(answer.evictions),
        pipelined=len(answer.pipelined),
        cpu_ms=answer.cpu_ms,
        peak_rss_mb=answer.peak_rss_mb,
    )


def _run(command: list[str]) -> bytes:
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotMeasured(f"{' '.join(command)}: not done after {PATIENCE_SECONDS:.0f} s") from None
    except subprocess.CalledProcessError as error:
        raise NotMeasured(f"{' '.join(command)}: exit {error.returncode}: {error.stderr.decode().strip()}") from error
    return done.stdout
