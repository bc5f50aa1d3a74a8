"""A job: one pod group with its tasks, arranged in a tree of sub-groups.

Leaves (`PodSet`) hold tasks and have a minimum of their own; inner sets ask for a number of satisfied children. A job
without sub-groups has one pod set, `default`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from bosket.api.kai import PodGroup, SubGroup
from bosket.api.object import ObjectKey
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, Task, TaskStatus

DEFAULT_POD_SET = "default"
NON_PREEMPTIBLE_PRIORITY = 100
#: Sub-groups nested deeper than this are a mistake, or an attack on the stack.
DEEPEST = 64


class PodSet(msgspec.Struct, frozen=True, eq=False):
    """A leaf: equal-ranking tasks, at least `min_available` of which run together, those not counted that succeeded."""

    name: str
    min_available: int
    tasks: tuple[Task, ...]
    pending: tuple[Task, ...]
    gated: int
    active: int  #: tasks that count towards the minimum

    @property
    def alive(self) -> int:
        return self.active + self.gated + len(self.pending)

    @property
    def ready(self) -> bool:
        """Whether enough pods exist for the minimum; gated ones don't count."""
        return self.active + len(self.pending) >= self.min_available

    def pod_sets(self) -> Iterator[PodSet]:
        yield self


@dataclass(frozen=True, slots=True, eq=False)
class SubGroupSet:
    """An inner node: at least `min_children` of its children must be satisfied."""

    name: str
    min_children: int
    children: tuple[SubGroupSet | PodSet, ...]

    def pod_sets(self) -> Iterator[PodSet]:
        for child in self.children:
            yield from child.pod_sets()

    @property
    def ready(self) -> bool:
        return sum(child.ready for child in self.children) >= self.min_children


class Job(msgspec.Struct, frozen=True, eq=False):
    """A pod group in one cycle. Replaced as a whole when the group or one of its pods changes."""

    key: ObjectKey
    group: PodGroup
    queue: str
    priority: int
    preemptible: bool
    created: float
    root: SubGroupSet
    pod_sets: tuple[PodSet, ...]
    strangers: tuple[Task, ...]  #: tasks of a sub-group that the pod group doesn't have
    problem: str | None  #: why the pod group's own spec can't be followed
    has_pending: bool
    has_waiting: bool  #: whether some task isn't placed yet, gated or not

    @property
    def uid(self) -> str:
        return self.group.metadata.uid or str(self.key)

    @property
    def tasks(self) -> Iterator[Task]:
        for pod_set in self.pod_sets:
            yield from pod_set.tasks


def build_job(group: PodGroup, tasks: Iterable[Task], *, priority: int, created: float) -> Job:
    """Arranges tasks in the group's tree. A tree that can't be built leaves one pod set, and says why in `problem`."""
    ordered = sorted(tasks, key=lambda task: task.key)
    spec = group.spec
    preemptible = spec.preemptibility == "preemptible" if spec.preemptibility else priority < NON_PREEMPTIBLE_PRIORITY
    problem = _problem_of(spec.subGroups) if spec.subGroups else None
    strangers: tuple[Task, ...] = ()
    if spec.subGroups and problem is None:
        by_subgroup: dict[str, list[Task]] = {}
        for task in ordered:
            by_subgroup.setdefault(task.subgroup, []).append(task)
        root = _build_root(spec.subGroups, spec.minSubGroup, by_subgroup)
        known = {pod_set.name for pod_set in root.pod_sets()}
        strangers = tuple(task for task in ordered if task.subgroup not in known)
    else:
        mine = tuple(task for task in ordered if task.subgroup in ("", DEFAULT_POD_SET))
        strangers = tuple(task for task in ordered if task.subgroup not in ("", DEFAULT_POD_SET))
        minimum = 1 if spec.minMember is None else spec.minMember
        root = SubGroupSet("", 1, (_pod_set(DEFAULT_POD_SET, minimum, mine),))
    pod_sets = tuple(root.pod_sets())
    has_pending = any(pod_set.pending for pod_set in pod_sets)
    return Job(
        key=group.key,
        group=group,
        queue=spec.queue or "",
        priority=priority,
        preemptible=preemptible,
        created=created,
        root=root,
        pod_sets=pod_sets,
        strangers=strangers,
        problem=problem,
        has_pending=has_pending,
        has_waiting=has_pending or any(pod_set.gated for pod_set in pod_sets),
    )


def _problem_of(subgroups: tuple[SubGroup, ...]) -> str | None:
    names: dict[str, SubGroup] = {}
    for subgroup in subgroups:
        if subgroup.name in names:
            return f"spec.subGroups has two entries named '{subgroup.name}'"
        names[subgroup.name] = subgroup
    for subgroup in subgroups:
        seen = {subgroup.name}
        parent = (subgroup.parent or "").lower()
        while parent:
            if parent not in names:
                return f"sub-group '{subgroup.name}' names the parent '{parent}', which spec.subGroups doesn't have"
            if parent in seen:
                return f"the parents of sub-group '{subgroup.name}' form a circle"
            seen.add(parent)
            if len(seen) > DEEPEST:
                return f"sub-group '{subgroup.name}' is nested more than {DEEPEST} levels deep"
            parent = (names[parent].parent or "").lower()
    return None


def _build_root(subgroups: tuple[SubGroup, ...], minimum: int | None, tasks: Mapping[str, list[Task]]) -> SubGroupSet:
    children: dict[str, list[SubGroup]] = {}
    for subgroup in subgroups:
        children.setdefault((subgroup.parent or "").lower(), []).append(subgroup)

    def build(subgroup: SubGroup) -> SubGroupSet | PodSet:
        below = children.get(subgroup.name)
        if not below:
            return _pod_set(subgroup.name, subgroup.minMember or 0, tuple(tasks.get(subgroup.name, ())))
        return _set(subgroup.name, subgroup.minSubGroup, tuple(build(child) for child in below))

    return _set("", minimum, tuple(build(child) for child in children.get("", ())))


def _pod_set(name: str, minimum: int, tasks: tuple[Task, ...]) -> PodSet:
    """Members that succeeded have had their part in the gang: what is left of it must not wait for them.

    KAI counts living pods alone: the last members of a Job, or of a gang bound in two halves, then wait for ever.
    """
    statuses = [task.status for task in tasks]
    return PodSet(
        name,
        max(0, minimum - statuses.count(TaskStatus.SUCCEEDED)),
        tasks,
        pending=tuple(task for task in tasks if task.status == TaskStatus.PENDING),
        gated=statuses.count(TaskStatus.GATED),
        active=sum(status in ACTIVE_ALLOCATED for status in statuses),
    )


def _set(name: str, minimum: int | None, children: tuple[SubGroupSet | PodSet, ...]) -> SubGroupSet:
    return SubGroupSet(name, len(children) if minimum is None else minimum, children)
