"""Job: one pod group with its tasks, arranged in a tree of sub-groups.

Leaves (`PodSet`) hold tasks and have a minimum; inner sets (`SubGroupSet`) require a number of satisfied children. A
job without sub-groups has one pod set, `default`. `job_build` creates them. Children don't refer to their parents, so
there are no reference cycles and the garbage collector may skip them (`gc=False`): there are tens of thousands.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

import msgspec

from bosket.api.kai import PodGroup
from bosket.api.object import ObjectKey
from bosket.scheduler.model.task import PodClass, Task

DEFAULT_POD_SET = "default"
_active = attrgetter("active")


class TopologyConstraint(NamedTuple):
    """Pods must be in one domain of the required level, and should be in one of the preferred level."""

    topology: str
    required: str
    preferred: str


class PodSet(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A leaf: equal-ranking tasks, at least `min_available` of which run together, those not counted that succeeded."""

    name: str
    min_available: int
    tasks: tuple[Task, ...]
    pending: tuple[Task, ...]
    only_class: PodClass | None  #: of the pending tasks, if they are all alike
    gated: int
    active: int  #: tasks that count towards the minimum
    used: int  #: active and terminating tasks
    succeeded: int
    topology: TopologyConstraint | None = None

    @property
    def alive(self) -> int:
        return self.active + self.gated + len(self.pending)

    @property
    def ready(self) -> bool:
        """Whether enough pods exist for the minimum, without gated ones."""
        return self.active + len(self.pending) >= self.min_available

    @property
    def leaves_choice(self) -> bool:
        return False

    def pod_sets(self) -> Iterator[PodSet]:
        yield self


class SubGroupSet(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An inner set: at least `min_children` of its children must be satisfied."""

    name: str
    min_children: int
    children: tuple[SubGroupSet | PodSet, ...]
    topology: TopologyConstraint | None = None
    says_minimum: bool = False  #: whether the pod group sets `min_children`; otherwise all children are required

    def pod_sets(self) -> Iterator[PodSet]:
        for child in self.children:
            yield from child.pod_sets()

    @property
    def ready(self) -> bool:
        return sum(child.ready for child in self.children) >= self.min_children

    @property
    def leaves_choice(self) -> bool:
        """Whether the pod group sets a minimum of children here or below."""
        return self.says_minimum or any(child.leaves_choice for child in self.children)


class History(msgspec.Struct, frozen=True, gc=False):
    """Times of events of a job, from annotations of its pod group."""

    last_started: float | None = None
    last_evicted: float | None = None
    stale_since: float | None = None


class Job(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A pod group in one cycle. Replaced as a whole when the group or one of its pods changes."""

    key: ObjectKey
    group: PodGroup
    queue: str
    priority: int
    preemptible: bool
    created: float
    root: SubGroupSet
    pod_sets: tuple[PodSet, ...]
    orphan_tasks: tuple[Task, ...]  #: tasks whose sub-group the pod group doesn't have
    problem: str | None  #: why the pod group's spec is invalid; "" if it is valid
    has_pending: bool
    has_waiting: bool  #: whether some task is pending or gated
    is_plain: bool  #: whether the job is a single pod set without sub-groups
    is_constrained: bool  #: whether the nodes of some pods depend on the nodes of other pods of the job
    history: History
    #: the preemption delay
    preemption_delay_seconds: float
    staleness_grace_seconds: float | None  #: its own; negative for ever

    @property
    def uid(self) -> str:
        return self.group.metadata.uid or str(self.key)

    @property
    def tasks(self) -> Iterator[Task]:
        for pod_set in self.pod_sets:
            yield from pod_set.tasks

    def shown_name(self, pod_set: PodSet) -> str:
        """The name of a pod set in messages; "" where the group has no sub-groups."""
        return pod_set.name if self.group.spec.subGroups else ""

    def topologies(self) -> tuple[TopologyConstraint | None, ...]:
        """The topology constraints of all parts, in order."""
        return tuple(constraints_in(self.root)) if self.is_constrained else ()

    @property
    def is_active(self) -> bool:
        return bool(self.pod_sets[0].active) or (len(self.pod_sets) > 1 and any(map(_active, self.pod_sets)))

    @property
    def is_stale(self) -> bool:
        """Whether the gang runs below its minimum. False once a member has succeeded.

        KAI compares every pod set with its minimum, whatever the minimum of sub-groups; here the tree's own minimum
        decides.
        """
        used = 0
        for pod_set in self.pod_sets:
            if pod_set.succeeded:
                return False
            used += pod_set.used
        return used > 0 and not _holds_together(self.root)


def constraints_in(part: PodSet | SubGroupSet) -> Iterator[TopologyConstraint | None]:
    """The constraint of a sub-group and those of all its parts."""
    yield part.topology
    for child in part.children if isinstance(part, SubGroupSet) else ():
        yield from constraints_in(child)


def _holds_together(subgroup: PodSet | SubGroupSet) -> bool:
    if isinstance(subgroup, PodSet):
        return subgroup.used >= subgroup.min_available
    return sum(map(_holds_together, subgroup.children)) >= subgroup.min_children
