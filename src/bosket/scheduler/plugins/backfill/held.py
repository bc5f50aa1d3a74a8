"""Held nodes: which large gangs have a reservation, and which jobs their nodes are kept from."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from bosket.api.object import ObjectKey
from bosket.api.time import format_time
from bosket.scheduler.framework.extension import HeldNodes, PlacementListener
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.estimates import Estimates
from bosket.scheduler.model.node import Mask
from bosket.scheduler.model.queue import UNLIMITED
from bosket.scheduler.model.reservation import HeldNode, Reservation
from bosket.scheduler.model.task import PodClass, Task
from bosket.scheduler.plugins.backfill.forecast import PASSING_PART, Amounts2D, Forecast, HeldInterval, needs_of, rooms
from bosket.scheduler.plugins.backfill.planning import Plan, Planner, hold_of

#: A preemptible job that would be evicted sooner than that doesn't begin.
_LEAST_GAIN_SECONDS: Final = 900.0


class Terms(NamedTuple):
    """Who gets a reservation."""

    least_gpus: float  #: a gang of fewer is not large
    wait_seconds: float  #: how long a gang has waited before anything is held for it
    most: int  #: so many gangs have a reservation at the same time
    evicts: bool  #: whether preemptible jobs pass though they may not end in time, and are evicted then


class _Held:
    """One reservation in a session, and what its nodes can spare."""

    def __init__(
        self, number: int, state: JobState, reservation: Reservation, hold: HeldInterval, spare: Amounts2D
    ) -> None:
        self.number, self.state, self.reservation, self.hold = number, state, reservation, hold
        #: (resource, node): what is left on its nodes when the gang has started, for jobs that are still there then
        self.spare = spare
        self.nodes: Mask = np.zeros(spare.shape[1], dtype=bool)
        self.nodes[hold.rows] = True
        self.placed = 0  #: tasks of the gang that were placed in this cycle


class HeldForLargeGangs(PlacementListener):
    """Makes the reservations of a session, and says which nodes each job may use beside them."""

    def __init__(self, session: Session, terms: Terms) -> None:
        self._session, self._terms = session, terms
        self._now = session.snapshot.now
        snapshot = session.snapshot
        self._estimates = Estimates(snapshot.run_times, snapshot.jobs, snapshot.now)
        self._forecast: Forecast | None = None
        self._held: list[_Held] = []
        self._ends: dict[ObjectKey, float] = {}
        self._masks: dict[Hashable, tuple[int, Mask]] = {}
        self._version = 0  # changes with what can be spared

    def reserve(self) -> tuple[Reservation, ...]:
        """Earlier reservations keep their nodes as long as these will be free in time, or get better ones; gangs that
        have waited for long get new ones."""
        gangs = list(self._gangs())
        if not gangs:
            return ()
        forecast = Forecast(self._session, self._estimates, evicts=self._terms.evicts)
        self._forecast = forecast
        planner = Planner(self._session, forecast)
        before = {each.job: each for each in self._session.snapshot.reservations}
        plans: dict[ObjectKey, tuple[Plan, HeldInterval]] = {}
        for state in gangs:
            kept = self._kept(before.get(state.job.key), forecast, [hold for _, hold in plans.values()])
            if kept is not None:
                plans[state.job.key] = kept, hold_of(state, kept, self._estimates)
        for state in gangs:
            # Beside all others, also those that come after it: their starts don't move back when its own moves forward.
            key = state.job.key
            known = plans.get(key)
            plan = planner.earliest(state, [hold for other, (_, hold) in plans.items() if other != key])
            if plan is not None and (known is None or plan.start < known[0].start):
                plans[key] = plan, hold_of(state, plan, self._estimates)
        made = [
            (state, self._reservation(state, plans[key][0], before.get(key)), plans[key][1])
            for state in gangs
            if (key := state.job.key) in plans
        ]
        holds = [hold for _, _, hold in made]
        for number, (state, reservation, hold) in enumerate(made):
            others = [each for each in holds if each is not hold and each.start <= hold.start]
            spare = forecast.free_at(hold.start, others)
            spare[:, hold.rows] -= hold.amounts
            self._held.append(_Held(number, state, reservation, hold, spare))
            self._session.outcome.consider_again_at(max(hold.start, math.nextafter(self._now, math.inf)))
        return tuple(reservation for _, reservation, _ in made)

    def overdue(self) -> Iterable[tuple[JobState, float, list[JobState]]]:
        """Where preemptible jobs may pass: those that hold nodes of a gang whose time has come."""
        session, forecast = self._session, self._forecast
        for each in self._held if forecast is not None and self._terms.evicts else ():
            if each.hold.start > self._now or forecast is None:
                continue
            keys = sorted({key for row in each.hold.rows for key in forecast.evictable.get(int(row), ())})
            states = [session.jobs.state_of(session.snapshot.jobs[key]) for key in keys]
            if jobs := [state for state in states if state is not None]:
                yield each.state, each.reservation.start, jobs

    def held_from(self, job: JobState, tasks: Sequence[Task]) -> HeldNodes | None:
        if not self._held:
            return None
        bound = [each for each in self._held if self._binds(each, job)]
        own = next((each for each in self._held if each.state.job.key == job.job.key), None)
        if own is not None and own.hold.start <= self._now:
            return None if not bound else HeldNodes(("own", own.number), own.nodes, _objection(bound))
        if not bound:
            return None
        classes: dict[PodClass, int] = {}
        for task in tasks:
            classes[task.pod_class] = classes.get(task.pod_class, 0) + 1
        numbers = tuple(each.number for each in bound)
        on: Mask | None = None
        for pod_class, count in classes.items():
            usable = self._usable(bound, numbers, pod_class, count)
            on = usable if on is None else on & usable
        if on is None or on.all():
            return None
        return HeldNodes(numbers, on, _objection(bound))

    # What can be spared follows what is placed

    def arrived(self, task: Task, row: int) -> None:
        self._account(task, row, 1)

    def left(self, task: Task, row: int) -> None:
        self._account(task, row, -1)

    def _account(self, task: Task, row: int, sign: int) -> None:
        if not self._held:
            return
        job = self._session.snapshot.jobs.get(task.group) if task.group else None
        end = self._end(task.group)
        self._version += 1
        for each in self._held:
            if job is not None and each.state.job.key == job.key:
                each.placed += sign
            elif end > each.hold.start:
                for resource, amount in needs_of(task.pod_class):
                    each.spare[resource, row] -= sign * amount

    def _usable(self, bound: Sequence[_Held], numbers: tuple[int, ...], pod_class: PodClass, count: int) -> Mask:
        key = (numbers, pod_class.index, count)
        found = self._masks.get(key)
        if found is not None and found[0] == self._version:
            return found[1]
        needs = needs_of(pod_class)
        nodes = self._session.nodes
        fit = np.minimum(rooms(nodes.idle + nodes.releasing, needs), count)
        usable = np.ones(len(fit), dtype=bool)
        for each in bound:
            can_spare = rooms(each.spare, needs) >= np.maximum(fit, 1.0)
            usable &= ~each.nodes | can_spare
        self._masks[key] = (self._version, usable)
        return usable

    # Which jobs a reservation binds

    def _binds(self, held: _Held, job: JobState) -> bool:
        """Whether the job must not be in the way of a reservation: it wouldn't end in time, and has no better right."""
        key = job.job.key
        if self._terms.evicts and job.job.preemptible and held.hold.start >= self._now + _LEAST_GAIN_SECONDS:
            return False
        if held.state.job.key == key or held.placed or self._end(key) <= held.hold.start:
            return False
        return not self._has_better_right(job, held.state)

    def _has_better_right(self, job: JobState, gang: JobState) -> bool:
        """Whether holding nodes against the job would cost it its priority, its queue's quota or its fair share."""
        if job.queue_row == gang.queue_row:
            return job.job.priority > gang.job.priority
        queues, tree = self._session.queues, self._session.snapshot.queues
        more = job.least_request()[0]
        path = [row for row in tree.paths[job.queue_row] if row not in tree.paths[gang.queue_row]]
        held = [queues.allocated[row][0] + more for row in path]
        quotas = [tree.queues[row].quota[0] for row in path]
        if all(quota not in (UNLIMITED, 0.0) and amount <= quota for amount, quota in zip(held, quotas, strict=True)):
            return True
        gang_is_over = any(
            queues.allocated[row][0] + gang.least_request()[0] > queues.fair_share[row][0]
            for row in tree.paths[gang.queue_row]
            if row not in tree.paths[job.queue_row]
        )
        return gang_is_over and all(amount <= queues.fair_share[row][0] for amount, row in zip(held, path, strict=True))

    def _end(self, key: ObjectKey | None) -> float:
        if key is None:
            return math.inf
        end = self._ends.get(key)
        if end is None:
            job = self._session.snapshot.jobs.get(key)
            end = self._ends[key] = math.inf if job is None else self._estimates.end(job, PASSING_PART)
        return end

    # Who gets a reservation

    def _gangs(self) -> Iterator[JobState]:
        """Those that have one already, in their order; then others that are large and have waited long enough."""
        session, terms = self._session, self._terms
        had = {each.job: number for number, each in enumerate(session.snapshot.reservations)}
        large = [state for state in session.jobs.candidates() if _is_large(state, terms.least_gpus)]
        due: list[JobState] = []
        for state in large:
            since = state.job.created + terms.wait_seconds
            if state.job.key in had or since <= self._now:
                due.append(state)
            else:
                session.outcome.consider_again_at(since)
        due.sort(key=lambda each: (had.get(each.job.key, math.inf), -each.job.priority, each.job.created, each.job.key))
        taken = 0
        for state in due:
            if taken == terms.most:
                return
            if session.capacity.objection(state) is None:
                taken += 1
                yield state

    def _kept(self, reservation: Reservation | None, forecast: Forecast, holds: Sequence[HeldInterval]) -> Plan | None:
        """The reservation as a plan, if its nodes will still be free in time."""
        if reservation is None or reservation.start < self._now:
            return None
        snapshot = self._session.snapshot
        indexes = {name: index for index, name in enumerate(snapshot.resource_names)}
        taken = np.zeros_like(snapshot.nodes.idle)
        for each in reservation.nodes:
            row = snapshot.nodes.rows.get(each.node)
            if row is None:
                return None
            for name, amount in each.amounts:
                taken[indexes[name], row] = amount
        free = forecast.free_at(reservation.start, holds)
        rows = taken.any(axis=0)
        if (free[:, rows] < taken[:, rows] - 1e-6).any():
            return None
        return Plan(reservation.start, taken)

    def _reservation(self, state: JobState, plan: Plan, before: Reservation | None) -> Reservation:
        snapshot, meta = self._session.snapshot, state.job.group.metadata
        names = snapshot.resource_names
        since = {each.node: each.since for each in before.nodes} if before is not None else {}
        held: list[HeldNode] = []
        for row in np.flatnonzero(plan.taken.any(axis=0)):
            name = snapshot.nodes.nodes[row].metadata.name
            amounts = [
                (names[resource], float(plan.taken[resource, row])) for resource in np.flatnonzero(plan.taken[:, row])
            ]
            held.append(HeldNode(name, tuple(amounts), since.get(name, self._now)))
        return Reservation(state.job.key, meta.uid, meta.generation, plan.start, tuple(held))


def _is_large(state: JobState, least_gpus: float) -> bool:
    return not state.had_active and state.least_request()[GPU_AMOUNT] >= least_gpus


#: Where GPUs stand in the amounts of queues.
GPU_AMOUNT = 0


def _objection(bound: Sequence[_Held]) -> str:
    first = min((each.reservation for each in bound), key=lambda each: each.start)
    others = f" and {len(bound) - 1} more" if len(bound) > 1 else ""
    return f"node(s) held for job {first.job} from {format_time(first.start)}{others}"
