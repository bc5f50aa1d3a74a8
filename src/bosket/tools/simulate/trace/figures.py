"""The figures of a replayed trace, as `bosket simulate trace --json` prints them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Final

import msgspec

from bosket.tools.simulate.trace.job import TraceJob
from bosket.tools.simulate.trace.run import Outcome

HOUR: Final = 3600.0
#: By name: which jobs count.
SIZES: Final[Mapping[str, Callable[[TraceJob], bool]]] = {
    "all": lambda _: True,
    "lt8": lambda job: job.gpus < 8,
    "8to31": lambda job: 8 <= job.gpus < 32,
    "ge32": lambda job: job.gpus >= 32,
}


class Waits(msgspec.Struct, frozen=True):
    """Waiting times of a group of jobs in hours; null where it has no jobs."""

    n: int
    mean: float | None
    p50: float | None
    p95: float | None


class EtaFigures(msgspec.Struct, frozen=True):
    """How good start estimates were; null where none was resolved."""

    asked: int  #: estimates that were made, and whose jobs have started
    coverage80: float | None  #: part of them whose 80 % interval held
    median_abs_error_hours: float | None
    median_wait_hours: float | None  #: of the jobs that were asked about
    unknown: int  #: jobs of which no estimate could be made


class Figures(msgspec.Struct, frozen=True):
    """What came of a trace under one policy."""

    policy: str
    jobs: int
    makespan_hours: float
    use: float  #: part of all GPU hours, until the last job ended, in which a GPU was held
    wait_hours: dict[str, Waits]
    eta: EtaFigures
    delayed_reservations: int  #: jobs that started later than was reserved for them
    never_started: int
    evicted: int  #: how often a job was evicted, and began anew
    lost_gpu_hours: float  #: what evicted jobs had done
    decisions: int
    cpu_s: float


def figures(outcome: Outcome, *, policy: str, gpus: int, cpu_seconds: float) -> Figures:
    """Sums up a replay on a cluster with so many GPUs."""
    runs = outcome.runs
    begin = min((run.job.arrival for run in runs), default=0.0)
    makespan = max((run.ended for run in runs), default=0.0) - begin
    held = sum(run.job.gpus * run.job.duration_seconds for run in runs)
    waits = {
        name: _waits(sorted(run.wait_seconds / HOUR for run in runs if counts(run.job)))
        for name, counts in SIZES.items()
    }
    return Figures(
        policy=policy,
        jobs=len(runs) + len(outcome.never_started),
        makespan_hours=round(makespan / HOUR, 2),
        use=round(held / (gpus * makespan), 4) if makespan else 0.0,
        wait_hours=waits,
        eta=_eta(outcome),
        delayed_reservations=outcome.delayed_reservations,
        never_started=len(outcome.never_started),
        evicted=outcome.evicted,
        lost_gpu_hours=round(outcome.lost_gpu_seconds / HOUR, 1),
        decisions=outcome.decisions,
        cpu_s=round(cpu_seconds, 1),
    )


def _eta(outcome: Outcome) -> EtaFigures:
    asked = outcome.asked
    if not asked:
        return EtaFigures(0, None, None, None, outcome.unknown_starts)
    return EtaFigures(
        len(asked),
        round(fmean(each.told.covers(each.waited_seconds) for each in asked), 3),
        round(median(abs(each.told.middle - each.waited_seconds) for each in asked) / HOUR, 2),
        round(median(each.waited_seconds for each in asked) / HOUR, 2),
        outcome.unknown_starts,
    )


def _waits(hours: Sequence[float]) -> Waits:
    if not hours:
        return Waits(0, None, None, None)
    return Waits(len(hours), round(fmean(hours), 2), round(quantile(hours, 0.5), 2), round(quantile(hours, 0.95), 2))


def quantile(ordered: Sequence[float], part: float) -> float:
    """The first of these sorted numbers that is larger than this part of them; published figures are made so."""
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]
