"""Reclaim rules: when a queue may take resources from other queues.

A reclaimer must stay within its fair share. A victim's queue must hold more than it may have, or, for a reclaimer that
stays within its quota, more than its own quota. Queues are compared where their paths to the root part. Afterwards the
reclaimer's side must not be further above its fair share than the victim's side.
"""

from __future__ import annotations

import math

from bosket.scheduler.framework.job_state import JobState, requested_by
from bosket.scheduler.framework.scenario import Scenario
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.queue import UNLIMITED, QueueRow, fits
from bosket.scheduler.model.resource import QueueAmounts, minus, plus
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, Task
from bosket.scheduler.plugins.proportion.share import RESOURCES, allocatable_shares


class Reclaim:
    """The rules, for one session."""

    by_job = False

    def __init__(self, session: Session, saturation_multiplier: float) -> None:
        self._tree = session.snapshot.queues
        self._queues = self._tree.queues
        self._ledger = session.queues
        self._fair_share = session.queues.fair_share
        self._allocatable = allocatable_shares(self._tree, session.queues.fair_share)
        self._multiplier = saturation_multiplier
        self._smallest_device = session.snapshot.nodes.devices.smallest
        #: by the queues that are compared: what was asked, with what they hold, and the answer
        self._known: dict[tuple[QueueRow, QueueRow], tuple[tuple[QueueAmounts, QueueAmounts, QueueAmounts], bool]] = {}
        self._consolidating = session.settings.allow_consolidating_reclaim

    def may_reclaim(self, reclaimer: JobState) -> bool:
        """Whether the job stays within the fair share; a non-preemptible job also within the quota."""
        row, request = reclaimer.queue_row, reclaimer.next_request()
        if not fits(plus(self._ledger.allocated[row], request), self._fair_share[row]):
            return False
        held = plus(self._ledger.non_preemptible[row], request)
        return reclaimer.job.preemptible or fits(held, self._queues[row].quota)

    # A victim filter

    def takes_from(self, preemptor: JobState, queue_row: QueueRow) -> bool:
        # The answer depends on the ancestors that are compared, so it is the same for all queues below them.
        sides = self._tree.where_paths_part(preemptor.queue_row, queue_row)
        mine, theirs = (self._ledger.allocated[row] for row in sides)
        asked = (preemptor.next_request(), mine, theirs)
        known = self._known.get(sides)
        if known is None or known[0] != asked:
            known = self._known[sides] = (asked, self._may_take(*sides, asked[0]))
        return known[1]

    def _may_take(self, mine: int, theirs: int, request: QueueAmounts) -> bool:
        """The same for siblings."""
        held = self._ledger.allocated[theirs]
        if not fits(plus(self._ledger.allocated[mine], request), self._queues[mine].quota):
            return not fits(held, self._allocatable[theirs])
        quota = self._queues[theirs].quota
        compared = [r for r in RESOURCES if request[r] > 0 and quota[r] != UNLIMITED]
        return any(held[r] > quota[r] for r in compared) or not any(held[r] < quota[r] for r in compared)

    def takes(self, preemptor: JobState, victim: JobState) -> bool:
        del preemptor, victim
        return True

    # A scenario validator

    def is_just(self, scenario: Scenario) -> bool:
        remaining: dict[QueueRow, QueueAmounts] = {}
        involved: dict[QueueRow, set[int]] = {}
        for row, steps in self._taken_by_queue(scenario).items():
            if not self._takes_justly(scenario, row, steps, remaining, involved):
                return False
        return self._stays_below_those_who_lost(scenario, remaining, involved)

    def _taken_by_queue(self, scenario: Scenario) -> dict[QueueRow, list[QueueAmounts]]:
        """What is taken from each queue, step by step: extras one by one, what a gang needs as a whole."""
        result: dict[QueueRow, list[QueueAmounts]] = {}
        for job, tasks in scenario.by_job().items():
            extras, core = _split(job, tasks)
            steps = [self._held(job, [task]) for task in extras] + [self._held(job, core)]
            result.setdefault(job.queue_row, []).extend(step for step in steps if step is not None)
        return {row: steps for row, steps in result.items() if steps}

    def _held(self, job: JobState, tasks: list[Task]) -> QueueAmounts | None:
        """What tasks lose; None when nobody does, because all found another place."""
        losing = [t for t in tasks if not (self._consolidating and job.status(t) in ACTIVE_ALLOCATED)]
        if not losing:
            return None
        total = job.cost(losing[0])
        for task in losing[1:]:
            total = plus(total, job.cost(task))
        return total

    def _takes_justly(
        self,
        scenario: Scenario,
        row: QueueRow,
        steps: list[QueueAmounts],
        remaining: dict[QueueRow, QueueAmounts],
        involved: dict[QueueRow, set[int]],
    ) -> bool:
        reclaimer = scenario.preemptor
        mine, theirs = self._tree.where_paths_part(reclaimer.queue_row, row)
        within_quota = fits(plus(scenario.allocated[mine], self._request(scenario)), self._queues[mine].quota)
        resources = {r for step in steps for r in RESOURCES if step[r] > 0}
        for step in steps:
            left = remaining.get(theirs, scenario.allocated[theirs])
            over_share = not fits(left, self._allocatable[theirs])
            if not over_share and not (within_quota and not fits(left, self._queues[theirs].quota)):
                return False
            for above in self._tree.paths[row]:
                remaining[above] = minus(remaining.get(above, scenario.allocated[above]), step)
                involved.setdefault(above, set()).update(resources)
        return True

    def _stays_below_those_who_lost(
        self, scenario: Scenario, remaining: dict[QueueRow, QueueAmounts], involved: dict[QueueRow, set[int]]
    ) -> bool:
        request = self._request(scenario)
        wanted = {r for r in RESOURCES if request[r] > 0}
        for row in self._tree.paths[scenario.preemptor.queue_row]:
            mine = plus(remaining.get(row, scenario.allocated[row]), request)
            for other, theirs in remaining.items():
                if other == row or self._tree.parents[other] != self._tree.parents[row]:
                    continue
                if self._is_more_saturated(row, mine, other, theirs, involved[other] | wanted):
                    return False
            firm = plus(scenario.non_preemptible[row], request)
            if not scenario.preemptor.job.preemptible and not fits(firm, self._queues[row].quota):
                return False
        return True

    def _is_more_saturated(
        self, row: QueueRow, mine: QueueAmounts, other: QueueRow, theirs: QueueAmounts, resources: set[int]
    ) -> bool:
        for resource in resources:
            my_share, their_share = self._fair_share[row][resource], self._fair_share[other][resource]
            if my_share == their_share == UNLIMITED:
                continue
            ours = _saturation(mine[resource], my_share)
            if ours > 1 and their_share > 0 and ours * self._multiplier >= _saturation(theirs[resource], their_share):
                return True
        return False

    def _request(self, scenario: Scenario) -> QueueAmounts:
        return requested_by(scenario.pending, self._smallest_device)


def _split(job: JobState, tasks: list[Task]) -> tuple[list[Task], list[Task]]:
    """Extras, and what a pod set needs for its minimum, by how many tasks go."""
    if len(job.job.pod_sets) == 1:
        least = job.job.pod_sets[0].min_available
        return tasks[least:], tasks[:least]
    by_set: dict[str, list[Task]] = {}
    for task in tasks:
        by_set.setdefault(job.pod_set(task).name, []).append(task)
    extras: list[Task] = []
    core: list[Task] = []
    for pod_set in job.job.pod_sets:
        going = by_set.get(pod_set.name, [])
        core += going[: pod_set.min_available]
        extras += going[pod_set.min_available :]
    return extras, core


def _saturation(held: float, fair_share: float) -> float:
    if fair_share == 0:
        return math.inf if held > 0 else 0.0
    return 0.0 if fair_share == UNLIMITED else held / fair_share
