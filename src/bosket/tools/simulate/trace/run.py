"""Replays a trace in virtual time: from one event to the next, with a decision wherever something changed.

An event is the arrival or the end of a job. What is decided happens at once: a bound gang runs for its duration from
that moment on.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from bosket.api.core import Pod
from bosket.api.kai import PodGroup
from bosket.scheduler.answers.conformal import Calibration, Interval, Resolved
from bosket.scheduler.answers.eta import Effort, estimate_start
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.tools.simulate.document import InvalidDocument
from bosket.tools.simulate.trace.cluster import ClusterShape, running, waiting
from bosket.tools.simulate.trace.job import TraceJob

#: A trace asks about hundreds of jobs.
_EFFORT: Final = Effort(simulations=5, most_decides=1500)
#: On the average of all chosen jobs, also of those that start at once; where it is exceeded, jobs are left out.
_DECIDES_PER_QUESTION: Final = 600

Progress = Callable[[int], None]  #: called with the number of jobs that have ended


@dataclass(frozen=True, slots=True)
class Run:
    """When a job of the trace started, and where."""

    job: TraceJob
    started: float
    nodes: tuple[str, ...]

    @property
    def wait_seconds(self) -> float:
        return self.started - self.job.arrival

    @property
    def ended(self) -> float:
        return self.started + self.job.duration_seconds


@dataclass(frozen=True, slots=True)
class Asked:
    """What was said of a job's wait when it had arrived and couldn't start at once."""

    job: str
    stated: Interval
    waited_seconds: float


@dataclass(slots=True)
class Outcome:
    """What came of a trace."""

    runs: list[Run] = field(default_factory=list)  #: the last one of each job, in the order in which they started
    evicted: int = 0  #: how often a job was evicted
    lost_gpu_seconds: float = 0.0  #: what evicted jobs had done
    never_started: list[TraceJob] = field(default_factory=list)
    decisions: int = 0  #: how often the scheduler decided
    #: by name of the job: the earliest start that was ever reserved for it
    reserved: dict[str, float] = field(default_factory=dict)

    asked: list[Asked] = field(default_factory=list)  #: start estimates, in the order in which the jobs started
    unknown_starts: int = 0  #: jobs of which no estimate could be made

    @property
    def delayed_reservations(self) -> int:
        """Jobs that started later than was reserved for them."""
        return sum(run.started > self.reserved.get(run.job.name, run.started) + 1e-3 for run in self.runs)


def replay(
    jobs: Sequence[TraceJob],
    shape: ClusterShape,
    configuration: Configuration,
    progress: Progress = lambda _: None,
    *,
    estimates: int = 0,
) -> Outcome:
    """Runs all jobs, which are in order of arrival; those that can never start are left over.

    `estimates`: so many jobs at most, evenly among all, are asked about when they have arrived and wait.
    """
    every = max(1, math.ceil(len(jobs) / estimates)) if estimates else 0
    return _Replay(jobs, shape, configuration, every).run(progress)


class _Replay:
    """The cluster between two events."""

    def __init__(self, jobs: Sequence[TraceJob], shape: ClusterShape, configuration: Configuration, every: int) -> None:
        self._every, self._seen, self._spent = every, 0, 0
        self._calibration = Calibration()
        self._simulated: dict[str, tuple[Interval, Interval]] = {}  # of jobs that wait: as simulated, and as stated
        self._jobs, self._shape, self._configuration = jobs, shape, configuration
        self._state = ClusterState(report=_refuse)
        self._outcome = Outcome()
        self._waiting: dict[str, tuple[TraceJob, PodGroup, list[Pod]]] = {}
        self._running: dict[str, tuple[PodGroup, list[Pod]]] = {}
        self._runs: dict[str, Run] = {}  # by name of the job: its latest run
        self._ends: list[tuple[float, int, str]] = []
        self._number = itertools.count()
        self._look_again_at = math.inf
        begin = jobs[0].arrival if jobs else 0.0
        for each in (*shape.nodes(), *shape.topologies(), *shape.queues(list(jobs), begin)):
            self._state.put(each)

    def run(self, progress: Progress) -> Outcome:
        ended = 0
        for now, arrivals, ends in self._events():
            for name in ends:
                self._end(name)
            for job in arrivals:
                self._arrive(job)
            ended += len(ends)
            if self._waiting:
                while self._decide(now):
                    pass
            for job in arrivals:
                self._seen += 1
                if self._every and self._seen % self._every == 0 and job.name in self._waiting:
                    self._ask(job, now)
            progress(ended)
        self._outcome.runs = list(self._runs.values())
        self._outcome.never_started = [job for job, _, _ in self._waiting.values()]
        return self._outcome

    def _events(self) -> Iterator[tuple[float, list[TraceJob], list[str]]]:
        """Each moment at which jobs arrive or end, or at which the scheduler asked to look again. The caller adds ends
        while it goes through them."""
        at = 0
        while at < len(self._jobs) or self._ends or (self._waiting and self._look_again_at < math.inf):
            now = min(
                self._jobs[at].arrival if at < len(self._jobs) else math.inf,
                self._ends[0][0] if self._ends else math.inf,
                self._look_again_at if self._waiting else math.inf,
            )
            ends: list[str] = []
            while self._ends and self._ends[0][0] <= now:
                end, _, name = heapq.heappop(self._ends)
                if name in self._running and self._runs[name].ended == end:  # else it was evicted since
                    ends.append(name)
            first = at
            while at < len(self._jobs) and self._jobs[at].arrival <= now:
                at += 1
            yield now, list(self._jobs[first:at]), ends

    def _arrive(self, job: TraceJob) -> None:
        group, pods = self._shape.gang(job)
        self._waiting[job.name] = job, group, pods
        self._state.put(group)
        for pod in pods:
            self._state.put(pod)

    def _end(self, name: str) -> None:
        group, pods = self._running.pop(name)
        for pod in pods:
            self._state.drop(pod)
        self._state.drop(group)

    def _evict(self, name: str, now: float) -> None:
        """All that the job has done is lost: it waits again, and starts anew."""
        run = self._runs.pop(name)
        group, pods = self._running.pop(name)
        again = [waiting(pod) for pod in pods]
        for pod in again:
            self._state.put(pod)
        self._waiting[name] = run.job, group, again
        self._outcome.lost_gpu_seconds += run.job.gpus * (now - run.started)
        self._outcome.evicted += 1

    def _decide(self, now: float) -> bool:
        """One cycle; whether another one may do more at once."""
        # While nothing but the time has changed, the state gives the same snapshot again, with its time.
        snapshot = replace(self._state.snapshot(now), now=now)
        decisions = decide(snapshot, self._configuration)
        self._outcome.decisions += 1
        self._state.remember(decisions, now)
        self._look_again_at = decisions.look_again_at if decisions.look_again_at > now else math.inf
        for each in decisions.reservations or ():
            reserved = self._outcome.reserved
            reserved[each.job.name] = min(each.start, reserved.get(each.job.name, math.inf))
        evicted = sorted({each.job.key.name for each in decisions.lasting_evictions})
        for name in evicted:
            self._evict(name, now)
        return (self._start(decisions, now) and bool(self._configuration.queue_depth)) or bool(evicted)

    def _ask(self, job: TraceJob, now: float) -> None:
        """Estimates when the job starts, from what is known by now; not where earlier questions took too long."""
        if self._spent > _DECIDES_PER_QUESTION * self._seen / self._every + _EFFORT.most_decides:
            return
        key = self._waiting[job.name][1].key
        estimate = estimate_start(self._state, self._configuration, now, key, _EFFORT)
        self._spent += estimate.decides
        if estimate.wait is None:
            self._outcome.unknown_starts += 1
        else:
            self._simulated[job.name] = estimate.wait, self._calibration.corrected(estimate.wait)

    def _resolve(self, run: Run) -> None:
        simulated = self._simulated.pop(run.job.name, None)
        if simulated is not None:
            self._calibration.resolve(Resolved(*simulated, run.wait_seconds))
            self._outcome.asked.append(Asked(run.job.name, simulated[1], run.wait_seconds))

    def _start(self, decisions: Decisions, now: float) -> bool:
        bound: dict[str, dict[str, str]] = {}
        for bind in decisions.lasting_binds:
            bound.setdefault(bind.job.key.name, {})[bind.task.key.name] = bind.node
        for name, nodes in bound.items():
            job, group, pods = self._waiting.pop(name)
            started = [running(pod, nodes[pod.metadata.name], now) for pod in pods]
            for pod in started:
                self._state.put(pod)
            self._running[name] = group, started
            run = self._runs[name] = Run(job, now, tuple(sorted(set(nodes.values()))))
            self._resolve(run)
            heapq.heappush(self._ends, (run.ended, next(self._number), name))
        return bool(bound)


def _refuse(problem: str) -> None:
    raise InvalidDocument(problem)
