"""Builds jobs from pod groups and their tasks; an invalid spec gives a job with a `problem`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from operator import attrgetter

from bosket.api.kai import PodGroup, PodGroupSpec, SubGroup
from bosket.api.kai import TopologyConstraint as TopologyConstraintObject
from bosket.api.keys import (
    LAST_EVICTION_ANNOTATION,
    LAST_START_ANNOTATION,
    NON_PREEMPTIBLE_PRIORITY,
    STALE_SINCE_ANNOTATION,
)
from bosket.api.object import ObjectKey
from bosket.api.time import InvalidDuration, InvalidTime, parse_duration, parse_time
from bosket.scheduler.model.job import (
    DEFAULT_POD_SET,
    History,
    Job,
    PodSet,
    SubGroupSet,
    TopologyConstraint,
    constraints_in,
)
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, ACTIVE_USED, PodClass, Task, TaskStatus

# At a start jobs are built from all pods at once: `map` with these takes a third of the time of a loop.
_status, _subgroup, _pod_class, _name = map(attrgetter, ("status", "subgroup", "pod_class", "key.name"))
_pending, _gated = map(attrgetter, ("pending", "gated"))
#: Deeper nesting is a mistake, or an attack on the stack.
DEEPEST = 64
PENDING = TaskStatus.PENDING


def build_job(
    key: ObjectKey,
    group: PodGroup,
    tasks: Iterable[Task],
    *,
    priority: int,
    created: float,
    pod_problem: str | None = None,
) -> Job:
    """Arranges tasks in the group's tree. An invalid tree gives one pod set and a `problem`."""
    ordered = tuple(tasks)
    if len(ordered) > 1:
        ordered = tuple(sorted(ordered, key=_name))  # all of the same namespace
    spec = group.spec
    preemptible = spec.preemptibility == "preemptible" if spec.preemptibility else priority < NON_PREEMPTIBLE_PRIORITY
    problem = _problem_of(spec) if spec.subGroups or spec.minSubGroup or (spec.minMember or 0) < 0 else None
    delay, grace = spec.preemptionDelay, spec.stalenessGracePeriod
    try:
        delay_seconds = max(0.0, parse_duration(delay)) if delay else 0.0
        grace_seconds = parse_duration(grace) if grace else None
    except InvalidDuration as error:
        delay_seconds, grace_seconds = 0.0, None
        problem = problem or f"spec.preemptionDelay or spec.stalenessGracePeriod: {error}"
    orphan_tasks: tuple[Task, ...] = ()
    pod_sets: tuple[PodSet, ...]
    is_plain = not spec.subGroups or problem is not None
    if not is_plain:
        by_subgroup: dict[str, list[Task]] = {}
        for task in ordered:
            by_subgroup.setdefault(task.subgroup, []).append(task)
        root = _build_root(spec, by_subgroup)
        pod_sets = tuple(root.pod_sets())
        known = {pod_set.name for pod_set in pod_sets}
        orphan_tasks = tuple(task for task in ordered if task.subgroup not in known)
    else:
        mine = ordered
        if any(map(_subgroup, ordered)) if len(ordered) > 1 else ordered and ordered[0].subgroup:
            mine = tuple(task for task in ordered if task.subgroup in ("", DEFAULT_POD_SET))
            orphan_tasks = tuple(task for task in ordered if task.subgroup not in ("", DEFAULT_POD_SET))
        minimum = 1 if spec.minMember is None else spec.minMember
        only = _pod_set(DEFAULT_POD_SET, minimum, mine)
        pod_sets = (only,)
        root = SubGroupSet("", 1, pod_sets, _topology(spec.topologyConstraint) if spec.topologyConstraint else None)
    if pod_problem is not None and not root.ready:
        problem = problem or pod_problem  # the gang may be complete without it
    has_pending = bool(pod_sets[0].pending) or (len(pod_sets) > 1 and any(map(_pending, pod_sets)))
    return Job(
        key=key,
        group=group,
        queue=spec.queue or "",
        priority=priority,
        preemptible=preemptible,
        created=created,
        root=root,
        pod_sets=pod_sets,
        orphan_tasks=orphan_tasks,
        problem=problem,
        has_pending=has_pending,
        has_waiting=has_pending or any(map(_gated, pod_sets)),
        is_plain=is_plain,
        is_constrained=root.topology is not None if is_plain else any(constraints_in(root)),
        history=_history(group.metadata.annotations) if group.metadata.annotations else NO_HISTORY,
        preemption_delay_seconds=delay_seconds,
        staleness_grace_seconds=grace_seconds,
    )


NO_HISTORY = History()


def _history(annotations: Mapping[str, str]) -> History:
    return History(
        last_started=_time(annotations.get(LAST_START_ANNOTATION)),
        last_evicted=_time(annotations.get(LAST_EVICTION_ANNOTATION)),
        stale_since=_time(annotations.get(STALE_SINCE_ANNOTATION)),
    )


def _time(text: str | None) -> float | None:
    """The time in an annotation; unreadable text counts as absent."""
    try:
        return parse_time(text) if text else None
    except InvalidTime:
        return None


def _problem_of(spec: PodGroupSpec) -> str | None:
    """Why the group's spec is invalid; "" if it is valid."""
    if spec.minMember is not None and spec.minMember < 0:
        return f"spec.minMember is {spec.minMember}, it must be 0 or more"
    if (spec.minSubGroup or 0) < 0:
        return f"spec.minSubGroup is {spec.minSubGroup}, it must be 0 or more"
    return _problem_of_tree(spec.subGroups, spec.minSubGroup) if spec.subGroups else None


def _problem_of_tree(subgroups: tuple[SubGroup, ...], min_subgroup: int | None) -> str | None:
    names: dict[str, SubGroup] = {}
    for subgroup in subgroups:
        if not subgroup.name:
            return "spec.subGroups has an entry without a name"
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
    children = Counter((subgroup.parent or "").lower() for subgroup in subgroups)
    for subgroup in subgroups:
        if (subgroup.minMember or 0) < 0:
            return f"minMember of sub-group '{subgroup.name}' is {subgroup.minMember}, it must be 0 or more"
        if (subgroup.minSubGroup or 0) < 0:
            return f"minSubGroup of sub-group '{subgroup.name}' is {subgroup.minSubGroup}, it must be 0 or more"
        if children[subgroup.name] and (subgroup.minSubGroup or 0) > children[subgroup.name]:
            return (
                f"minSubGroup of sub-group '{subgroup.name}' is {subgroup.minSubGroup}, "
                f"it has {children[subgroup.name]} sub-groups"
            )
    if (min_subgroup or 0) > children[""]:
        return f"spec.minSubGroup is {min_subgroup}, there are {children['']} sub-groups"
    return None


def _build_root(spec: PodGroupSpec, tasks: Mapping[str, list[Task]]) -> SubGroupSet:
    children: dict[str, list[SubGroup]] = {}
    for subgroup in spec.subGroups:
        children.setdefault((subgroup.parent or "").lower(), []).append(subgroup)

    def build(subgroup: SubGroup) -> SubGroupSet | PodSet:
        below = children.get(subgroup.name)
        if not below:
            mine = tuple(tasks.get(subgroup.name, ()))
            return _pod_set(subgroup.name, subgroup.minMember or 0, mine, _topology(subgroup.topologyConstraint))
        parts = tuple(build(child) for child in below)
        return _set(subgroup.name, subgroup.minSubGroup, parts, _topology(subgroup.topologyConstraint))

    parts = tuple(build(child) for child in children.get("", ()))
    return _set("", spec.minSubGroup, parts, _topology(spec.topologyConstraint))


def _topology(constraint: TopologyConstraintObject | None) -> TopologyConstraint | None:
    """The constraint; None if it names no topology."""
    if constraint is None or not constraint.topology:
        return None
    return TopologyConstraint(constraint.topology, constraint.requiredTopologyLevel, constraint.preferredTopologyLevel)


def _pod_set(name: str, minimum: int, tasks: tuple[Task, ...], topology: TopologyConstraint | None = None) -> PodSet:
    """A pod set. Members that succeeded lower its minimum: the remaining members must not wait for them.

    KAI counts only pods that are alive: the last members of a Job, or of a gang that was bound in two halves, then wait
    for ever.
    """
    if len(tasks) == 1 and tasks[0].status is PENDING:  # most of what comes in is
        only = tasks[0].pod_class
        return PodSet(name, minimum, tasks, tasks, only, gated=0, active=0, used=0, succeeded=0, topology=topology)
    statuses = list(map(_status, tasks))
    pending: tuple[Task, ...] = ()
    gated = active = going = succeeded = 0
    for status in set(statuses):  # few: most gangs are all pending or all running
        count = statuses.count(status)
        if status is PENDING:
            pending = tasks if count == len(tasks) else tuple([task for task in tasks if task.status is PENDING])
        elif status in ACTIVE_ALLOCATED:
            active += count
        elif status in ACTIVE_USED:
            going += count
        elif status is TaskStatus.GATED:
            gated = count
        elif status is TaskStatus.SUCCEEDED:
            succeeded = count
    return PodSet(
        name,
        minimum if active + len(pending) >= minimum else max(0, minimum - succeeded),
        tasks,
        pending=pending,
        only_class=_only_class(pending),
        gated=gated,
        active=active,
        used=active + going,
        succeeded=succeeded,
        topology=topology,
    )


def _only_class(tasks: tuple[Task, ...]) -> PodClass | None:
    classes = set(map(_pod_class, tasks))
    return classes.pop() if len(classes) == 1 else None


def _set(
    name: str,
    minimum: int | None,
    children: tuple[SubGroupSet | PodSet, ...],
    topology: TopologyConstraint | None = None,
) -> SubGroupSet:
    if minimum is None:
        return SubGroupSet(name, len(children), children, topology)
    return SubGroupSet(name, minimum, children, topology, says_minimum=True)
