"""CycleOutcome: what a cycle has decided so far, why jobs wait, and tentative placements."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bosket.api.object import ObjectKey
from bosket.scheduler.framework.eviction_limits import EvictionLimits
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.tentative import Tentative
from bosket.scheduler.model.decisions import CANDIDATES, CycleStep, Eviction, Operation, StaleGang
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.reason import JobReason, TopologyUnsatisfied
from bosket.scheduler.model.reservation import Reservation
from bosket.scheduler.model.search_statistics import SearchStatistics
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import Task


class CycleOutcome:
    """Filled by actions and committed statements; read when the session closes."""

    def __init__(self, snapshot: Snapshot, limits: EvictionLimits) -> None:
        self._snapshot, self._limits = snapshot, limits
        self.version = 0  #: changes with every commit
        self.operations: list[Operation] = []
        self.started: list[Job] = []
        self.stale: list[StaleGang] = []
        self.recovered: list[Job] = []
        self.passed_over: list[Job] = []
        self.reservations: tuple[Reservation, ...] | None = None
        self.look_again_at = math.inf
        self.searches = SearchStatistics()
        #: outcomes of searches for gangs that found victims but aren't served; visible to later jobs until `take_back`
        self.left_in_effect: list[Tentative] = []
        self.jobs_seen = 0  #: by the step that is under way
        self.steps: list[CycleStep] = []  #: those that have ended
        self._step_operations: list[Operation] = []
        self._step_refusals: list[JobReason] = []
        self._evictions = 0  # among the operations
        self._preempted_by = {victim: set(jobs) for victim, jobs in snapshot.preempted_by.items()}
        self._reasons: dict[ObjectKey, list[JobReason]] = {}
        self._without_estimates: set[ObjectKey] = set()  # jobs for which KAI's estimates are ignored from now on

    # What was decided

    def decided(self, operations: Sequence[Operation], *, evicts: bool) -> None:
        """Records the operations of a committed statement; `evicts`: whether evictions are among them."""
        self.operations += operations
        self._step_operations += operations
        for each in operations if evicts else ():
            if isinstance(each, Eviction):
                self._evictions += 1
                self._limits.spend(each.task)
                if each.preemptor is not None:
                    self._preempted_by.setdefault(each.job.key, set()).add(each.preemptor.key)
        self.version += 1

    @property
    def has_evicted(self) -> bool:
        """Whether any task was evicted or moved in this cycle."""
        return self._evictions > 0

    def stays(self, task: Task) -> None:
        """Removes the operations of a task that was to move and now stays."""
        self.operations = [each for each in self.operations if each.task is not task]
        self._evictions = sum(isinstance(each, Eviction) for each in self.operations)

    def has_started(self, job: JobState) -> None:
        """Records that the job's first tasks are bound."""
        if not job.had_active:
            job.had_active = True
            self.started.append(job.job)

    def successors(self, job: Job) -> set[ObjectKey]:
        """Jobs that preempted this job, directly or through a chain: the job may not preempt them.

        Otherwise two jobs with changing shares would preempt each other forever, losing their work each time.
        """
        found: set[ObjectKey] = set()
        ahead = [job.key]
        while ahead:
            fresh = self._preempted_by.get(ahead.pop(), set()) - found
            found |= fresh
            ahead += fresh
        return found

    def end_step(self, name: str) -> None:
        """Records what happened since the last step ended."""
        done = CycleStep(name, self.jobs_seen, tuple(self._step_operations), tuple(self._step_refusals))
        self.steps.append(done)
        self.jobs_seen, self._step_operations, self._step_refusals = 0, [], []

    # Why jobs wait

    def not_placed(self, job: JobState, reason: JobReason) -> None:
        """Adds a reason why the job waits. Of several reasons of the same kind the first is kept."""
        if isinstance(reason, TopologyUnsatisfied) and reason.shortage is not None:
            self._add_reason(job.job, reason.shortage)
        self._step_refusals.append(reason)
        self._add_reason(job.job, reason)

    def candidates_found(self, count: int, refused: Sequence[tuple[Job, JobReason]]) -> None:
        """Records how many jobs may be scheduled at all, and the reasons of those that may not. Called by the first
        action that asks for candidates."""
        for job, reason in refused:
            self._add_reason(job, reason)
        self.steps.append(CycleStep(CANDIDATES, count + len(refused), (), tuple([reason for _, reason in refused])))

    def _add_reason(self, job: Job, reason: JobReason) -> None:
        known = self._reasons.setdefault(job.key, [])
        if all(each.code != reason.code or (not reason.code and type(each) is not type(reason)) for each in known):
            known.append(reason)

    def reasons(self, job: Job) -> list[JobReason]:
        """The reasons why the job waits, in the order in which they were found."""
        return self._reasons.get(job.key, [])

    def placed_after_all(self, job: JobState) -> None:
        """Drops the reasons that earlier actions gave for the job."""
        self._reasons.pop(job.job.key, None)

    def consider_again_at(self, when: float) -> None:
        """Records a time from which the outcome may differ although no object changed."""
        self.look_again_at = min(self.look_again_at, when)

    # Gangs for which KAI's estimates are not followed

    def is_passed_over(self, job: Job) -> bool:
        """Whether an earlier cycle left the job's outcome in effect for nothing, or KAI's estimates refused the job."""
        return job.key in self._snapshot.passed_over

    def pass_over(self, job: Job) -> None:
        """Records that the job gets nothing in this cycle, which follows KAI's estimates; the next cycle ignores them
        for it."""
        self.passed_over.append(job)
        self.consider_again_at(self._snapshot.now)

    def ignores_estimates(self, job: JobState) -> bool:
        """Whether the job may be placed wherever it fits, and not only where KAI's estimates allow an attempt.

        In a job's first cycle this is so at the end only, after every job that KAI serves; later also in the job's turn
        and in searches for victims.
        """
        return job.job.key in self._without_estimates or self.is_passed_over(job.job)

    def ignore_estimates(self, job: JobState) -> None:
        """Ignores KAI's estimates for the job for the rest of this cycle."""
        self._without_estimates.add(job.job.key)

    # Tentative placements

    def take_back(self) -> None:
        """Rolls back what was left in effect, the newest first."""
        while self.left_in_effect:
            self.left_in_effect.pop().take_back()
