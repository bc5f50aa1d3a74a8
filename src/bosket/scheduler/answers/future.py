"""The coming cycles of a cluster in virtual time: jobs end when their run times say so, and the scheduler decides.

Works on a `ClusterState` that somebody else goes on using: what a simulation changed is put back when it ends. Made for
many short simulations, so that it leaves out what `virtual_cluster` follows in detail: binds succeed at once, evicted
pods wait again at once, and nobody else arrives.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import msgspec

from bosket.api.core import Pod, PodStatus
from bosket.api.object import ObjectKey
from bosket.api.shared_gpu import group_labels
from bosket.api.time import format_micro_time
from bosket.kube.codec import gc_paused
from bosket.scheduler.actions import SEARCHING
from bosket.scheduler.answers.thinning import FIRST, Lines, Shape
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.model.decisions import Bind, Decisions, Eviction
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.resource import GPU
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import ACTIVE_USED
from bosket.scheduler.state.cluster_state import ClusterState

#: Evicted pods have ended by then.
_END_SECONDS = 1.0
#: Seconds that a job runs that starts now, or goes on running; infinite where nobody knows.
RunTime = Callable[[Job], float]


class Future:
    """One simulation. `until_started` is to be called once, inside `imagined`."""

    def __init__(
        self, state: ClusterState, configuration: Configuration, now: float, run_time: RunTime, lines: Lines
    ) -> None:
        """`lines`: jobs that were taken out of the state, and that come when those before them have started."""
        self._lines, self._let_in = lines, dict[Shape, int]()
        self._waiting = dict(lines.waiting)  # by line: jobs that aren't held back and haven't started
        self._state, self._configuration, self._run_time = state, configuration, run_time
        self.now = now
        self.decides = 0
        self._before: dict[ObjectKey, Pod | None] = {}  # pods as they were; None: they weren't there
        self._ends: list[tuple[float, ObjectKey]] = []
        self._jobs: dict[ObjectKey, tuple[float, dict[ObjectKey, Pod]]] = {}  # end and pods of jobs that run
        self._left: dict[str, list[ObjectKey]] = {}  # by node: jobs that ended there, in that order
        self.waited_for: list[ObjectKey] = []  #: jobs that ended on the nodes where the target started

    @contextmanager
    def imagined(self) -> Iterator[Future]:
        """Puts everything back at the end."""
        state, now = self._state, self.now
        evicts = not SEARCHING.isdisjoint(self._configuration.actions)
        memory = state.memory(now) if evicts else None
        reservations, mix = state.own.reservations(), state.pod_mix(now)
        state.run_times.is_learning = False
        try:
            yield self
        finally:
            for key, pod in self._before.items():
                if pod is not None:
                    state.put(pod)
                elif (task := state.task(key)) is not None:
                    state.drop(task.pod)
            if memory is not None:
                state.restore(memory, now)
            state.own.hold(reservations)
            state.put_pod_mix(mix, now)
            state.snapshot(now)
            state.run_times.is_learning = True

    def until_started(self, target: ObjectKey, horizon_seconds: float, most_decides: int) -> float | None:
        """When the job's gang starts; None: not within so many seconds or cycles, or not before jobs end of which
        nobody knows when."""
        end = self.now + horizon_seconds
        snapshot = self._state.snapshot(self.now)
        for job in snapshot.jobs.values():
            if job.is_active:
                self._runs(job, {task.key: task.pod for task in job.tasks if task.status in ACTIVE_USED})
        while self.decides < most_decides:
            decisions = self._cycle()
            nodes = {bind.node for bind in decisions.lasting_binds if bind.job.key == target}
            if nodes:
                before = [key for node in sorted(nodes) for key in self._left.get(node, ())]
                self.waited_for = list(dict.fromkeys(before))
                return self.now
            again = self.now + self._carry_out(decisions)
            soon = decisions.look_again_at if decisions.look_again_at > self.now else math.inf
            when = min(self._ends[0][0] if self._ends else math.inf, soon, again)
            if when > end or when == math.inf:
                return None
            self.now = max(self.now, when)
            while self._ends and self._ends[0][0] <= self.now:
                self._end(*heapq.heappop(self._ends))
        return None

    def _cycle(self) -> Decisions:
        self.decides += 1
        with gc_paused():
            if self._lines.held:
                self._let_in_next(self._state.snapshot(self.now))
            snapshot = replace(self._state.snapshot(self.now), now=self.now)
        return decide(snapshot, self._configuration)

    def _carry_out(self, decisions: Decisions) -> float:
        """Seconds until another cycle may do more: none where not all jobs had their turn, as long as pods take to end
        where somebody was evicted, otherwise infinitely many."""
        self._state.remember(decisions, self.now)
        started: dict[ObjectKey, tuple[Job, dict[ObjectKey, Pod]]] = {}
        for bind in decisions.lasting_binds:
            started.setdefault(bind.job.key, (bind.job, {}))[1][bind.task.key] = self._bound(bind)
        for job, pods in started.values():
            for pod in pods.values():
                self._put(pod)
            self._runs(job, pods)
        for key in started:
            if (shape := self._lines.shape_of.get(key)) is not None:
                self._waiting[shape] -= 1
        evicted = [each for each in decisions.lasting_evictions if isinstance(each, Eviction)]
        for eviction in evicted:
            self._evict(eviction)
        if started and self._configuration.queue_depth:
            return 0.0
        return _END_SECONDS if evicted else math.inf

    def _let_in_next(self, snapshot: Snapshot) -> None:
        """Lets in jobs that are held back, as long as those before them in their line don't ask for all that is
        free."""
        used = sum(use.allocated[0] for use in snapshot.use.values())
        free = float(snapshot.nodes.allocatable[GPU].sum()) - used
        for shape, held in self._lines.held.items():
            gpus, number = self._lines.gpus[shape], self._let_in.get(shape, 0)
            while number < len(held) and (self._waiting.get(shape, 0) < FIRST or self._waiting[shape] * gpus <= free):
                for pod in held[number]:
                    self._put(pod)
                number += 1
                self._waiting[shape] = self._waiting.get(shape, 0) + 1
            self._let_in[shape] = number

    def _bound(self, bind: Bind) -> Pod:
        pod = bind.task.pod
        metadata = pod.metadata
        if bind.gpu_groups:
            share = bind.task.pod_class.share
            several = share is not None and share.devices > 1
            metadata = msgspec.structs.replace(
                metadata, labels=metadata.labels | group_labels(bind.gpu_groups, several=several)
            )
        return msgspec.structs.replace(
            pod,
            metadata=metadata,
            spec=msgspec.structs.replace(pod.spec, nodeName=bind.node),
            status=PodStatus(phase="Running", startTime=format_micro_time(self.now)),
        )

    def _runs(self, job: Job, pods: dict[ObjectKey, Pod]) -> None:
        if job.key in self._jobs:
            self._jobs[job.key][1].update(pods)
            return
        end = self.now + self._run_time(job)
        self._jobs[job.key] = end, pods
        if end < math.inf:
            heapq.heappush(self._ends, (end, job.key))

    def _end(self, when: float, key: ObjectKey) -> None:
        running = self._jobs.get(key)
        if running is None or running[0] != when:
            return  # evicted since
        del self._jobs[key]
        for pod in running[1].values():
            self._left.setdefault(pod.spec.nodeName, []).append(key)
            self._remember(pod)
            self._state.drop(pod)

    def _evict(self, eviction: Eviction) -> None:
        pod = eviction.task.pod
        running = self._jobs.get(eviction.job.key)
        if running is not None:
            running[1].pop(pod.key, None)
            if not running[1]:
                del self._jobs[eviction.job.key]
        spec = msgspec.structs.replace(pod.spec, nodeName="")
        self._put(msgspec.structs.replace(pod, spec=spec, status=PodStatus(phase="Pending")))

    def _put(self, pod: Pod) -> None:
        self._remember(pod)
        self._state.put(pod)

    def _remember(self, pod: Pod) -> None:
        if pod.key not in self._before:
            task = self._state.task(pod.key)
            self._before[pod.key] = task.pod if task is not None else None
