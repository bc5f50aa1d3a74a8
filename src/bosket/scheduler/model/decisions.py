"""Decisions: what a cycle decided, as plain data. `bosket.scheduler.io` carries decisions out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import msgspec

from bosket.api.kai import ExtendedResourceClaimAllocation, NUMAZonePlacement, ResourceClaimAllocation
from bosket.scheduler.model.cause import LOST, Cause
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.reason import EvictionRefused, JobReason, in_words
from bosket.scheduler.model.reservation import Reservation
from bosket.scheduler.model.resource import QueueAmounts
from bosket.scheduler.model.search_statistics import SearchStatistics
from bosket.scheduler.model.task import Task, TaskStatus


class Bind(msgspec.Struct, frozen=True, eq=False):
    """Bind a task to a node on resources that are free now."""

    task: Task
    job: Job
    node: str
    gpu_groups: tuple[str, ...] = ()  #: groups of shared GPUs
    gpu_portion: float = 1.0  #: the part of each of these GPUs
    claims: tuple[ResourceClaimAllocation, ...] = ()  #: devices for its resource claims
    extended_claim: ExtendedResourceClaimAllocation | None = None  #: devices for its extended resources
    numa_zones: tuple[NUMAZonePlacement, ...] = ()  #: the expected NUMA zones
    volumes: tuple[tuple[str, str], ...] = ()  #: by open claim: the chosen volume; "" to provision one


class Pipeline(msgspec.Struct, frozen=True, eq=False):
    """Keep resources of a node that are being released for a task."""

    task: Task
    job: Job
    node: str
    action: str  #: that decided it
    gpu_groups: tuple[str, ...] = ()  #: groups of shared GPUs


class Eviction(msgspec.Struct, frozen=True, eq=False):
    """Evict a task, for good or to start it again on another node."""

    task: Task
    job: Job
    node: str
    action: str  #: that decided it
    preemptor: Job | None  #: None for a stale gang
    cause: Cause | None = None
    moves_to: str = ""  #: the new node of a moved task, else ""
    lost_gpu_hours: float = 0.0  #: GPU hours of the task's work that are lost
    job_lost_gpu_hours: float = 0.0  #: the same for all tasks of the job that are evicted together

    @property
    def text(self) -> str:
        """The message for people: who preempts, why and by which rule, and what is lost."""
        if self.cause is None:
            return f"Pod {self.task.key} was evicted by {self.action}"
        text = self.cause.text(self.task.key, self.preemptor.key if self.preemptor else None)
        if not self.job_lost_gpu_hours:
            return text
        return (
            f"{text}\n{LOST}{self.lost_gpu_hours:.2f} GPU hours of the pod, "
            f"{self.job_lost_gpu_hours:.2f} of workload {self.job.key}"
        )


class Waiting(msgspec.Struct, frozen=True, eq=False):
    """A job with pending tasks, and the reasons."""

    job: Job
    tasks: tuple[Task, ...]  #: not placed in this cycle
    reasons: tuple[JobReason, ...]  #: empty when some tasks were placed or pipelined
    #: whether other tasks of the job run or are placed: the job as a whole isn't reported as unschedulable then
    active: bool

    @property
    def text(self) -> str:
        """All reasons as one message."""
        return in_words(self.reasons)


@dataclass(frozen=True, slots=True, eq=False)
class StaleGang:
    """A gang that runs below its minimum."""

    job: Job
    since: float
    is_due: bool  #: whether the grace period is over, so that the gang is evicted
    refused: EvictionRefused | None = None  #: why it isn't evicted although it is due


Operation = Bind | Pipeline | Eviction


class CycleStep(NamedTuple):
    """What one step of a cycle did: the choice of jobs that may be scheduled, or an action."""

    name: str  #: CANDIDATES, or the action's configured name
    jobs: int  #: how many jobs the step looked at
    operations: tuple[Operation, ...]  #: its decisions; a later step may have reverted some
    refusals: tuple[JobReason, ...]  #: why it placed no further task of a job; one or more per job


#: The name of the step that says which jobs may be scheduled at all.
CANDIDATES: Final = "candidates"


def by_age(job: Job) -> tuple[object, ...]:
    """Sort key of jobs among which no plugin has an order: the oldest first, then by name."""
    return job.created, job.key.name, job.key.namespace


@dataclass(frozen=True, eq=False)
class Decisions:
    """The outcome of one cycle."""

    #: in the order of decisions; a task that was placed may later have been evicted or moved
    operations: tuple[Operation, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    placed: tuple[Job, ...] = ()  #: jobs whose tasks all have a node; old conditions stay until the binds succeed
    settled: tuple[Job, ...] = ()  #: jobs that need no report: old conditions are cleared
    started: tuple[Job, ...] = ()  #: jobs whose first tasks were bound in this cycle
    stale: tuple[StaleGang, ...] = ()
    recovered: tuple[Job, ...] = ()  #: jobs with the stale annotation that are no longer stale
    #: gangs whose outcome was left in effect for nothing, or that KAI's estimates refused:
    #: later cycles ignore the estimates for them
    passed_over: tuple[Job, ...] = ()
    #: nodes that are held from now on for jobs that start later; None: nothing was decided about that
    reservations: tuple[Reservation, ...] | None = None
    look_again_at: float = math.inf  #: epoch seconds from which the outcome may differ although no object changed
    #: (GPUs, millicores, bytes) by queue, with all ancestors, after the cycle
    queue_allocated: Mapping[str, QueueAmounts] = field(default_factory=dict)
    #: (GPUs, millicores, bytes) by queue: the fair share at the start of the cycle
    fair_share: Mapping[str, QueueAmounts] = field(default_factory=dict)
    searches: SearchStatistics = field(default_factory=SearchStatistics)
    #: what the cycle did, in order; see `bosket.scheduler.answers.cycle_steps`
    steps: tuple[CycleStep, ...] = ()
    #: configured actions that can't find victims, because no plugin generates scenarios
    idle_actions: tuple[str, ...] = ()
    #: sort key of jobs of one queue that wait: the order in which the next cycle tries them
    job_key: Callable[[Job], tuple[object, ...]] = by_age
    #: (plugin, error) of `close` methods that raised; the decisions are the same as without the error
    plugin_failures: tuple[tuple[str, str], ...] = ()

    @cached_property
    def binds(self) -> tuple[Bind, ...]:
        return tuple(each for each in self.operations if isinstance(each, Bind))

    @cached_property
    def pipelined(self) -> tuple[Pipeline, ...]:
        return tuple(each for each in self.operations if isinstance(each, Pipeline))

    @cached_property
    def evictions(self) -> tuple[Eviction, ...]:
        return tuple(each for each in self.operations if isinstance(each, Eviction))

    @cached_property
    def lasting_binds(self) -> tuple[Bind, ...]:
        """The binds to carry out. A job that lost one of its placements to another job in this cycle is left for the
        next cycle as a whole, so that no gang starts in part."""
        undone = {each.job.key for each in self.binds if not isinstance(self.outcome[each.task], Bind)}
        return tuple(each for each in self.binds if each.job.key not in undone)

    @cached_property
    def lasting_evictions(self) -> tuple[Eviction, ...]:
        """The evictions to carry out: of tasks that had a node before the cycle, each once. A task that was placed only
        in this cycle loses its place by not being bound."""
        first = {each.task: each for each in reversed(self.evictions) if each.task.status != TaskStatus.PENDING}
        return tuple(each for each in self.evictions if first.get(each.task) is each)

    def has_a_place(self, waiting: Waiting) -> bool:
        """Whether a later action pipelined the tasks for which an earlier one found no room."""
        if waiting.tasks:
            return False
        pending = [task for task in waiting.job.tasks if task.status == TaskStatus.PENDING]
        return bool(pending) and all(isinstance(self.outcome.get(task), Pipeline) for task in pending)

    @cached_property
    def outcome(self) -> Mapping[Task, Operation]:
        """By task: the last decision about it."""
        return {each.task: each for each in self.operations}
