"""What a cycle decided, as plain data. Applying it is the business of `bosket.scheduler.io`."""

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
    """Bind a task to a node whose resources are free now."""

    task: Task
    job: Job
    node: str
    gpu_groups: tuple[str, ...] = ()  #: the GPUs that it shares
    gpu_portion: float = 1.0  #: of each of them
    claims: tuple[ResourceClaimAllocation, ...] = ()  #: devices for its resource claims
    extended_claim: ExtendedResourceClaimAllocation | None = None  #: devices for its extended resources
    numa_zones: tuple[NUMAZonePlacement, ...] = ()  #: where on the node it is expected
    volumes: tuple[tuple[str, str], ...] = ()  #: by open claim: the volume that it is to have; empty: one is made


class Pipeline(msgspec.Struct, frozen=True, eq=False):
    """Keep a node for a task until what is being released there is free."""

    task: Task
    job: Job
    node: str
    action: str  #: that decided it
    gpu_groups: tuple[str, ...] = ()  #: the GPUs that it is to share


class Eviction(msgspec.Struct, frozen=True, eq=False):
    """Take a task from its node, to the end of it or to start it anew elsewhere."""

    task: Task
    job: Job
    node: str
    action: str  #: that decided it
    preemptor: Job | None  #: for whom; None when it goes on its own account
    cause: Cause | None = None
    moves_to: str = ""  #: the node that has room for it, if it is to start anew elsewhere
    lost_gpu_hours: float = 0.0  #: for how long the task has run in vain, times its GPUs
    job_lost_gpu_hours: float = 0.0  #: the same of all tasks of its job that go together with it

    @property
    def text(self) -> str:
        """Who takes the place, why and by which rule, and what is lost, for people."""
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
    """A job that has tasks left over, and why."""

    job: Job
    tasks: tuple[Task, ...]  #: not placed in this cycle
    reasons: tuple[JobReason, ...]  #: none: some of its tasks were placed, or wait for what is being released
    active: bool  #: whether others of its tasks run or have a place: then the job as a whole isn't called unschedulable

    @property
    def text(self) -> str:
        """All reasons, for people."""
        return in_words(self.reasons)


@dataclass(frozen=True, slots=True, eq=False)
class StaleGang:
    """A gang that runs below its minimum."""

    job: Job
    since: float
    is_due: bool  #: whether its grace is over, and what runs of it goes
    refused: EvictionRefused | None = None  #: why it doesn't go all the same


Operation = Bind | Pipeline | Eviction


class CycleStep(NamedTuple):
    """What one step of a cycle did: the choice of jobs that may be scheduled, or an action."""

    name: str  #: CANDIDATES, or the action's configured name
    jobs: int  #: how many jobs the step looked at
    operations: tuple[Operation, ...]  #: what it decided; a later step may have taken some of it back
    refusals: tuple[JobReason, ...]  #: why it placed no further task of a job, one or more for each such job


#: The name of the step that says which jobs may be scheduled at all.
CANDIDATES: Final = "candidates"


def by_age(job: Job) -> tuple[object, ...]:
    """Sort key of jobs among which no plugin has an order: the oldest first, then by name."""
    return job.created, job.key.name, job.key.namespace


@dataclass(frozen=True, eq=False)
class Decisions:
    """The outcome of one cycle."""

    #: in the order in which they were decided; a task that was placed may later have been evicted again, or moved
    operations: tuple[Operation, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    placed: tuple[Job, ...] = ()  #: jobs with nothing left to say about, if binding succeeds: conditions stay till then
    settled: tuple[Job, ...] = ()  #: jobs with nothing left to say about: old conditions are cleared
    started: tuple[Job, ...] = ()  #: jobs whose first tasks were bound in this cycle
    stale: tuple[StaleGang, ...] = ()
    recovered: tuple[Job, ...] = ()  #: jobs that are marked as stale and no longer are
    #: gangs that got nothing, and kept others from having it in this cycle, or for which KAI's estimates saw no room:
    #: that may happen once, and not again
    passed_over: tuple[Job, ...] = ()
    #: nodes that are held from now on for jobs that start later; None: nothing was decided about that
    reservations: tuple[Reservation, ...] | None = None
    look_again_at: float = math.inf  #: from then on the outcome may differ though nothing but the time has changed
    #: (GPUs, millicores, bytes) by queue, with all ancestors, after the cycle
    queue_allocated: Mapping[str, QueueAmounts] = field(default_factory=dict)
    #: (GPUs, millicores, bytes) by queue: what each may count on, as divided when the cycle began
    fair_share: Mapping[str, QueueAmounts] = field(default_factory=dict)
    searches: SearchStatistics = field(default_factory=SearchStatistics)
    #: what the cycle did, in order; see `bosket.scheduler.answers.cycle_steps`
    steps: tuple[CycleStep, ...] = ()
    #: configured actions that look for victims and never find any, because no plugin generates scenarios
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
        """Those to carry out. A job that lost one of its new places to another job in the same cycle is left for the
        next cycle as a whole, so that no gang starts in part."""
        undone = {each.job.key for each in self.binds if not isinstance(self.outcome[each.task], Bind)}
        return tuple(each for each in self.binds if each.job.key not in undone)

    @cached_property
    def lasting_evictions(self) -> tuple[Eviction, ...]:
        """Those to carry out: of tasks that have a node in the cluster, each once. Others had a place in this cycle
        alone, and lose it by not being bound."""
        first = {each.task: each for each in reversed(self.evictions) if each.task.status != TaskStatus.PENDING}
        return tuple(each for each in self.evictions if first.get(each.task) is each)

    def has_a_place(self, waiting: Waiting) -> bool:
        """Whether what a first action found no room for has it by another one, as soon as others are gone."""
        if waiting.tasks:
            return False
        pending = [task for task in waiting.job.tasks if task.status == TaskStatus.PENDING]
        return bool(pending) and all(isinstance(self.outcome.get(task), Pipeline) for task in pending)

    @cached_property
    def outcome(self) -> Mapping[Task, Operation]:
        """What it comes to for each task: the last that was decided about it."""
        return {each.task: each for each in self.operations}
