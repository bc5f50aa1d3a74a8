"""Where and when a gang can start as a whole: the earliest time with room for all of it, and the nodes then."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.estimates import Estimates
from bosket.scheduler.model.job import PodSet, SubGroupSet, TopologyConstraint
from bosket.scheduler.model.node import Mask
from bosket.scheduler.model.resource import GPU
from bosket.scheduler.model.task import Task
from bosket.scheduler.plugins.backfill.forecast import PASSING_PART, Amounts2D, Forecast, HeldInterval, needs_of, rooms


class Plan(NamedTuple):
    """When a gang can start, and what of which nodes it takes then."""

    start: float
    taken: Amounts2D  #: (resource, node)


class _Room(NamedTuple):
    """What is free on nodes at some time, and how long each of them was waited for."""

    free: Amounts2D
    ready: NDArray[np.float64]


class Planner:
    """Plans for the gangs of one session."""

    def __init__(self, session: Session, forecast: Forecast) -> None:
        self._session, self._forecast = session, forecast

    def earliest(self, job: JobState, holds: Sequence[HeldInterval]) -> Plan | None:
        """The first time at which the job's next tasks have room beside what is held for others; None: not to be
        foreseen, because nobody knows when those end that are in the way."""
        tasks = job.next_tasks()
        moments = self._forecast.moments(holds)
        low, high = 0, len(moments) - 1
        best = self._at(job, tasks, moments[high], holds)
        if best is None:
            return None
        while low < high:
            middle = (low + high) // 2
            found = self._at(job, tasks, moments[middle], holds)
            if found is None:
                low = middle + 1
            else:
                best, high = found, middle
        return best

    def _at(self, job: JobState, tasks: Sequence[Task], when: float, holds: Sequence[HeldInterval]) -> Plan | None:
        free = self._forecast.free_at(when, holds)
        room = _Room(free.copy(), self._forecast.ready(when))
        if not self._place(job, job.job.root, tasks, room, np.ones(free.shape[1], dtype=bool)):
            return None
        return Plan(when, free - room.free)

    def _place(self, job: JobState, part: PodSet | SubGroupSet, tasks: Sequence[Task], room: _Room, on: Mask) -> bool:
        """Takes what these tasks need out of the room; whether there is enough. One domain after the other is tried."""
        for domain in self._domains(part.topology, on):
            before = room.free.copy()
            if isinstance(part, PodSet):
                if self._place_tasks(tasks, room, domain):
                    return True
            elif all(
                self._place(job, child, [task for task in tasks if _is_in(job, task, child)], room, domain)
                for child in part.children
            ):
                return True
            room.free[:] = before
        return False

    def _domains(self, constraint: TopologyConstraint | None, on: Mask) -> Iterator[Mask]:
        if constraint is None or not constraint.required:
            yield on
            return
        tree = self._session.snapshot.topologies.get(constraint.topology)
        number = tree.number_of(constraint.required) if tree is not None else None
        if tree is None or number is None:
            return
        level = tree.levels[number]
        for domain in range(len(level.names)):
            inside = level.nodes_of(domain) & on
            if inside.any():
                yield inside

    def _place_tasks(self, tasks: Sequence[Task], room: _Room, on: Mask) -> bool:
        """The largest pods first; on nodes that become free last, so that those that are free now stay free for all."""
        free, ready = room.free, room.ready
        counts = Counter(task.pod_class for task in tasks)
        for pod_class in sorted(counts, key=lambda each: (-dict(needs_of(each)).get(GPU, 0.0), each.index)):
            left, needs = counts[pod_class], needs_of(pod_class)
            fitting = np.where(on & self._session.views.of(pod_class).allowed, rooms(free, needs), 0.0)
            usable = np.flatnonzero(fitting)
            for row in usable[np.lexsort((usable, -ready[usable]))]:
                count = min(left, int(fitting[row]))
                for resource, amount in needs:
                    free[resource, row] -= amount * count
                left -= count
                if not left:
                    break
            if left:
                return False
        return True


def hold_of(job: JobState, plan: Plan, estimates: Estimates) -> HeldInterval:
    """What a plan keeps on nodes, and until when."""
    rows = np.flatnonzero(plan.taken.any(axis=0))
    estimate = estimates.of(job.job)
    seconds = estimate.most_seconds if estimate.most_seconds < math.inf else estimate.seconds(PASSING_PART)
    return HeldInterval(plan.start, math.inf if seconds is None else plan.start + seconds, rows, plan.taken[:, rows])


def _is_in(job: JobState, task: Task, part: PodSet | SubGroupSet) -> bool:
    name = job.pod_set(task).name
    return any(pod_set.name == name for pod_set in part.pod_sets())
