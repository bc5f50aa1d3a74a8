"""When a job starts: the coming cycles are simulated several times, each time with other run times.

The run times are drawn from what is known of each job (`model.estimates`); with the same `decide` as the scheduler's.
Nobody is guessed about: where the job starts in no simulation, because nobody knows how long those run that are in its
way, the answer is "unknown".
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, field
from statistics import median
from typing import Final, Literal

from bosket.api.object import ObjectKey
from bosket.scheduler.answers.conformal import Interval
from bosket.scheduler.answers.future import Future
from bosket.scheduler.answers.thinning import thinned
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.model.estimates import Basis, Estimates
from bosket.scheduler.model.job import Job
from bosket.scheduler.state.cluster_state import ClusterState

Verdict = Literal["running", "next-cycle", "not-now", "unknown"]
#: Nobody plans further ahead.
_HORIZON_SECONDS: Final = 90 * 86400.0
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Effort:
    """How much may be simulated."""

    simulations: int = 9
    most_decides: int = 3000  #: of all simulations together


@dataclass(frozen=True, slots=True)
class StartEstimate:
    """When a job starts, in seconds from now."""

    verdict: Verdict
    wait: Interval | None = None
    basis: Basis = "unknown"
    samples: int = 0  #: jobs that have ended, and that the run times rest on
    #: jobs that run now where the job starts, and when half of their like would have ended (epoch seconds)
    waits_for: tuple[tuple[ObjectKey, float], ...] = field(default=())
    decides: int = 0


def estimate_start(
    state: ClusterState, configuration: Configuration, now: float, key: ObjectKey, effort: Effort | None = None
) -> StartEstimate:
    """When the job with this key starts. The state is the same before and after."""
    effort = effort or Effort()
    snapshot = state.snapshot(now)
    job = snapshot.jobs[key]
    if job.is_active:
        return StartEstimate("running")
    estimates = Estimates(snapshot.run_times, snapshot.jobs, now)
    starts: list[float] = []
    waited_for: list[ObjectKey] = []
    decides, before = 0, -1
    with thinned(state, snapshot, configuration) as lines:
        for number in range(effort.simulations):
            if decides >= effort.most_decides:
                break
            draw = _Draw(estimates, now, number / effort.simulations)
            with Future(state, configuration, now, draw, lines).imagined() as future:
                start = future.until_started(key, _HORIZON_SECONDS, effort.most_decides - decides)
            decides += future.decides
            starts.append(math.inf if start is None else start - now)
            if number == 0:
                waited_for = future.waited_for
            # Where all run times are certain every simulation is the same; one that starts at once depends on none.
            if starts[-1] == 0.0 or (draw.fingerprint == before and len(starts) > 1):
                break
            before = draw.fingerprint
    wait = _interval(starts)
    if wait is None:
        return StartEstimate("unknown", decides=decides)
    running = [snapshot.jobs[each] for each in waited_for if snapshot.jobs[each].is_active][:_MOST_NAMED]
    bases = {estimates.of(each).basis for each in running} or {estimates.of(job).basis}
    basis: Basis = "learned" if "learned" in bases else "declared" if "declared" in bases else "unknown"
    return StartEstimate(
        "next-cycle" if wait.high == 0.0 else "not-now",
        wait,
        basis,
        max((estimates.of(each).samples for each in running), default=0),
        tuple((each.key, estimates.end(each, 0.5)) for each in running),
        decides,
    )


class _Draw:
    """Draws the run time of each job for one simulation. Those of several are spread evenly, job by job."""

    def __init__(self, estimates: Estimates, now: float, turn: float) -> None:
        self._estimates, self._now, self._turn = estimates, now, turn
        self.fingerprint = 0  #: equal where all run times were

    def __call__(self, job: Job) -> float:
        part = (zlib.crc32(str(job.key).encode()) / 2**32 + self._turn) % 1.0
        since = self._estimates.since(job)
        so_far = 0.0 if since is None else max(0.0, self._now - since)
        seconds = self._estimates.of(job).seconds(part, so_far)
        if seconds is None:
            return math.inf
        left = seconds - so_far
        if left <= 0:  # it has run for longer than was ever known
            left = max(60.0, so_far - seconds)
        self.fingerprint = hash((self.fingerprint, job.key, left))
        return left


def _interval(starts: list[float]) -> Interval | None:
    """10th, 50th and 90th percentile; None where half of the simulations or more saw no start."""
    ordered = sorted(starts)
    if not ordered or median(ordered) == math.inf:
        return None
    finite = [each for each in ordered if each < math.inf]
    last = len(finite) - 1
    return Interval(finite[round(0.1 * last)], finite[round(0.5 * last)], finite[round(0.9 * last)])
