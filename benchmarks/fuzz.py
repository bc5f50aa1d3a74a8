"""Fuzzed snapshots: none may make the scheduler raise, take 10 s of the processor for a cycle, or 1 GiB of memory.

Cases are those of `tests/fuzz/snapshot_case.py`: realistic clusters, recorded ones among them where there are some,
with changes that break their sense. A case that fails is made small and written down; its seed makes it again.
Warnings count as failures.
"""

from __future__ import annotations

import os
import resource
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import msgspec

from benchmarks.report import Column, Report, number, progress
from tests.conformance.cases import conformance_folder
from tests.fuzz import snapshot_case
from tests.fuzz.snapshot_case import CYCLE_SECONDS, Case, Slow, Survived, describe, make, shrink

CASES = 100_000
PROCESSES = 2
MOST_MIB = 1024
_BATCH = 500
#: A case has two cycles, and some work around them.
_CASE_SECONDS = 4 * CYCLE_SECONDS

COLUMNS = (
    Column("cases", "cases", number()),
    Column("failed", "failed", number()),
    Column("slowest_s", "slowest cycle", number(2, " s CPU")),
    Column("peak_mib", "most memory", number(0, " MiB")),
    Column("cpu_s", "CPU", number(0, " s")),
)


@dataclass
class _Batch:
    """What some cases came to."""

    cases: int = 0
    slowest: float = 0.0
    peak_mib: float = 0.0
    cpu: float = 0.0
    failures: dict[str, list[int]] = field(default_factory=dict)  #: seeds by what went wrong


def run(cases: int = CASES, seed: int = 0, folder: Path | None = None) -> Report:
    """So many cases from this seed on; failing ones are written to the folder."""
    report = Report("Fuzzed snapshots", COLUMNS)
    total = _Batch()
    batches = [(first, min(_BATCH, seed + cases - first)) for first in range(seed, seed + cases, _BATCH)]
    # Not ProcessPoolExecutor: in Python 3.11 it waits for ever once it has replaced its processes.
    with get_context("spawn").Pool(PROCESSES, maxtasksperchild=20) as pool:
        for done in pool.imap(_run, batches):
            _add(total, done)
            if total.cases % 5000 == 0:
                progress(f"{total.cases:,} of {cases:,} cases, {len(total.failures)} failures")
    failed = sum(map(len, total.failures.values()))
    report.rows.append(
        {
            "cases": total.cases,
            "failed": failed,
            "slowest_s": total.slowest,
            "peak_mib": total.peak_mib,
            "cpu_s": total.cpu,
        }
    )
    report.expect(total.peak_mib < MOST_MIB, f"{total.peak_mib:.0f} MiB of memory, {MOST_MIB} are allowed")
    for text, seeds in sorted(total.failures.items()):
        path = _save(seeds[0], text, folder or Path(tempfile.mkdtemp(prefix="bosket-fuzz-")))
        report.broken.append(f"{len(seeds)} cases, the first with --seed {seeds[0]} --cases 1: {text}; see {path}")
    return report


def _add(total: _Batch, more: _Batch) -> None:
    total.cases += more.cases
    total.cpu += more.cpu
    total.slowest = max(total.slowest, more.slowest)
    total.peak_mib = max(total.peak_mib, more.peak_mib)
    for text, seeds in more.failures.items():
        total.failures.setdefault(text, []).extend(seeds)


def _recordings() -> list[Path]:
    folder = conformance_folder("differential")
    return sorted(folder.glob("cases/*.jsonl")) if folder else []


def _run(seeds: tuple[int, int]) -> _Batch:
    """So many cases from the first seed on, in a process of its own."""
    first, count = seeds
    os.setpriority(os.PRIO_PROCESS, 0, 10)
    warnings.simplefilter("error")
    batch, started, recordings = _Batch(cases=count), time.process_time(), _recordings()
    for seed in range(first, first + count):
        case = make(seed, recordings)
        try:
            with _no_longer_than(_CASE_SECONDS):
                batch.slowest = max(batch.slowest, snapshot_case.run(case))
        except (Exception, Survived) as error:
            batch.failures.setdefault(describe(error), []).append(seed)
    batch.cpu = time.process_time() - started
    batch.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return batch


@contextmanager
def _no_longer_than(seconds: float) -> Iterator[None]:
    """Raises `Slow` where the processor is busy for so long: a cycle without end would never be measured."""

    def ring(*_: object) -> None:
        raise Slow(f"a case took more than {seconds:.0f} s of the processor")

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _save(seed: int, text: str, folder: Path) -> Path:
    """Writes a small case that fails in the same way."""

    def fails(case: Case) -> bool:
        try:
            with warnings.catch_warnings(), _no_longer_than(_CASE_SECONDS):
                warnings.simplefilter("error")
                snapshot_case.run(case)
        except (Exception, Survived) as error:
            return describe(error).partition(":")[0] == text.partition(":")[0]
        return False

    small = shrink(make(seed, _recordings()), fails)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed-{seed}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(small.as_recording())))
    return path
