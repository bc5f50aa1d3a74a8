"""Estimates of how long jobs run, as of one snapshot: declared, or learned from jobs that have ended.

Survival estimates (Kaplan and Meier): jobs that still run count as long as they have run so far, because leaving them
out would make every kind of job look shorter than it is. What a user declares is the longest that a job runs; how much
of it jobs of the kind take is learned.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from bosket.api.object import ObjectKey
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.run_time import declared_seconds, running_since
from bosket.scheduler.model.run_times import JobKind, Level, RunTimes, kind_of

Basis = Literal["declared", "learned", "unknown"]
#: A job that has run for longer than all before it is not expected to run for more than so many times as long.
_MOST_BEYOND: Final = 10.0


class Curve(NamedTuple):
    """Which part of jobs runs for longer than an amount."""

    amounts: list[float]  #: ascending, each of a job that has ended
    alive: list[float]  #: the part that runs for longer than each of these

    def beyond(self, amount: float) -> float:
        """The part of jobs that runs for longer."""
        place = bisect_right(self.amounts, amount)
        return self.alive[place - 1] if place else 1.0

    def quantile(self, part: float, so_far: float = 0.0) -> float:
        """How long a job runs that has run for `so_far`, if it is outlived by all but this part of its like."""
        left = self.beyond(so_far)
        wanted = left * (1.0 - part)
        first = bisect_right(self.amounts, so_far)
        for place in range(first, len(self.amounts)):
            if self.alive[place] <= wanted + 1e-12:
                return self.amounts[place]
        # Nobody has run for so long: the longer it has run, the longer it goes on.
        longest = max(so_far, self.amounts[-1] if self.amounts else 0.0)
        least = self.alive[-1] if self.alive and self.alive[-1] > 0 and first < len(self.amounts) else left or 1.0
        ratio = least / wanted if wanted > 0 else _MOST_BEYOND
        return longest * min(max(ratio, 1.0), _MOST_BEYOND)


class RunTimeEstimate(NamedTuple):
    """What is known about one job."""

    basis: Basis
    unit_seconds: float  #: what amounts of the curve are multiplied by
    curve: Curve | None
    most_seconds: float  #: what the user declared
    samples: int  #: jobs that have ended, and that this rests on

    def seconds(self, part: float, so_far: float = 0.0) -> float | None:
        """The run time that this part of such jobs doesn't exceed; None where there is nothing to go by."""
        if self.curve is None:
            return None if self.most_seconds == math.inf else self.most_seconds
        found = self.curve.quantile(part, so_far / self.unit_seconds) * self.unit_seconds
        return min(found, self.most_seconds)


class Estimates:
    """Estimates for the jobs of one snapshot."""

    def __init__(self, run_times: RunTimes, jobs: Mapping[ObjectKey, Job], now: float) -> None:
        self._run_times, self._jobs, self._now = run_times, jobs, now
        self._found: dict[ObjectKey, RunTimeEstimate] = {}
        self._curves: dict[Level, Curve] = {}
        self._running: dict[Level, list[float]] | None = None
        self._since: dict[ObjectKey, float | None] = {}

    def of(self, job: Job) -> RunTimeEstimate:
        """What is known about a job."""
        found = self._found.get(job.key)
        if found is None:
            found = self._found[job.key] = self._estimate(job)
        return found

    def since(self, job: Job) -> float | None:
        """Since when the job runs."""
        if job.key not in self._since:
            self._since[job.key] = running_since(job)
        return self._since[job.key]

    def end(self, job: Job, part: float) -> float:
        """Until when the job holds its nodes, if it starts now or has started before: the time that this part of such
        jobs doesn't exceed. Infinite where nobody knows.

        A job that runs for longer than declared is expected to go on for as long as it is over its time, at least a
        minute.
        """
        since = self.since(job)
        so_far = 0.0 if since is None else max(0.0, self._now - since)
        declared = declared_seconds(job)
        seconds = declared if declared is not None else self.of(job).seconds(part, so_far)
        if seconds is None:
            return math.inf
        end = (self._now if since is None else since) + seconds
        return end if end > self._now or since is None else self._now + max(60.0, self._now - end)

    def _estimate(self, job: Job) -> RunTimeEstimate:
        declared = declared_seconds(job)
        known = self._run_times.of(kind_of(job, is_declared=declared is not None))
        if declared is not None:
            curve = None if known is None else self._curve(known.level, known.amounts)
            return RunTimeEstimate("declared", declared, curve, declared, len(known.amounts) if known else 0)
        if known is None:
            return RunTimeEstimate("unknown", 1.0, None, math.inf, 0)
        return RunTimeEstimate("learned", 1.0, self._curve(known.level, known.amounts), math.inf, len(known.amounts))

    def _curve(self, level: Level, ended: Sequence[float]) -> Curve:
        curve = self._curves.get(level)
        if curve is None:
            if self._running is None:
                self._running = self._find_running()
            curve = self._curves[level] = survival(ended, self._running.get(level, ()))
        return curve

    def _find_running(self) -> dict[Level, list[float]]:
        """By level: how long its jobs that run have run so far, or which part of what they declare."""
        found: dict[Level, list[float]] = {}
        for job in self._jobs.values():
            if not job.is_active or (since := self.since(job)) is None:
                continue
            declared = declared_seconds(job)
            kind = kind_of(job, is_declared=declared is not None)
            for level in kind.levels():
                found.setdefault(level, []).append((self._now - since) / (declared or 1.0))
        return found


def survival(ended: Sequence[float], running: Sequence[float]) -> Curve:
    """The curve of jobs that ran for so long, beside others that run for so long already."""
    events = sorted([*((amount, 0) for amount in ended), *((amount, 1) for amount in running)])
    left, alive = len(events), 1.0
    amounts: list[float] = []
    parts: list[float] = []
    for amount, still_runs in events:
        if not still_runs:
            alive *= 1.0 - 1.0 / left
            if amounts and amounts[-1] == amount:
                parts[-1] = alive
            else:
                amounts.append(amount)
                parts.append(alive)
        left -= 1
    return Curve(amounts, parts)


def ended_amount(job: Job, now: float) -> tuple[JobKind, float] | None:
    """What is remembered of a job that has just ended; None where it isn't known since when it ran."""
    since = running_since(job)
    if since is None or now <= since:
        return None
    declared = declared_seconds(job)
    amount = (now - since) / declared if declared is not None else now - since
    return kind_of(job, is_declared=declared is not None), round(amount, 4 if declared is not None else 1)
