"""Jobs: pod groups with their tasks, in the order of their priority classes.

A job is rebuilt when its group, one of its tasks, an annotation of it or a priority class changes. A job that needs
nothing, because all tasks are placed and there is nothing to report, is in no list except `known`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from operator import itemgetter

from bosket.api.kai import PodGroup
from bosket.api.keys import DEFAULT_NODE_POOL, DEFAULT_WORK_PRIORITY
from bosket.api.object import ObjectKey
from bosket.api.quantity import integer_or_none
from bosket.api.scheduling_k8s import PriorityClass
from bosket.api.time import time_or_zero
from bosket.kube.access import annotations_of_rule
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.job_build import build_job
from bosket.scheduler.model.shared import Shared
from bosket.scheduler.state.invalidation import Dirty
from bosket.scheduler.state.own.notes import Notes
from bosket.scheduler.state.own.preemption_history import PreemptionHistory
from bosket.scheduler.state.queue_uses import QueueUses
from bosket.scheduler.state.tasks import Tasks

_namespace, _name = itemgetter(0), itemgetter(1)
#: spec.schedulingBackoff of groups that are retried for ever; unset means the same.
NO_BACKOFF = -1


class Jobs:
    """All pod groups and priority classes, and the jobs built from them."""

    def __init__(
        self,
        tasks: Tasks,
        preemptions: PreemptionHistory,
        dirty: Dirty,
        node_pool_label: str,
        report: Callable[[str], None],
    ) -> None:
        self._report = report
        self._tasks, self._preemptions, self._dirty = tasks, preemptions, dirty
        self._node_pool_label = node_pool_label
        self.groups: dict[ObjectKey, PodGroup] = {}
        self.priorities: dict[str, PriorityClass] = {}
        self.notes = Notes()  #: pending annotations of groups
        self._known: Shared[ObjectKey, Job] = Shared()
        self.uses = QueueUses()
        self.unread: set[ObjectKey] = set()  #: groups from which no job can be built
        self._unsettled: set[ObjectKey] = set()
        self.ended: list[Job] = []  #: as they last were, since somebody cleared the list
        self._stale: set[ObjectKey] = set()

    # What is seen

    def put_group(self, group: PodGroup) -> None:
        key = group.key
        before = self.groups.get(key)
        if before is not None and (before.metadata.uid, before.spec) != (group.metadata.uid, group.spec):
            self._preemptions.forget_job(key)
        self.groups[key] = group
        self.notes.observe(group)
        if before is None or _what_counts(before) != _what_counts(group):
            self._dirty.jobs.add(key)

    def drop_group(self, key: ObjectKey) -> None:
        self.groups.pop(key, None)
        self._preemptions.forget_job(key)
        self.notes.forget_group(key)
        self._dirty.jobs.add(key)

    def put_priority_class(self, priority: PriorityClass) -> None:
        before = self.priorities.get(priority.metadata.name)
        self.priorities[priority.metadata.name] = priority
        if before is None or (before.value, before.globalDefault) != (priority.value, priority.globalDefault):
            self._priorities_changed()
        elif annotations_of_rule(before.metadata.annotations) != annotations_of_rule(priority.metadata.annotations):
            self._dirty.jobs.update(self.known)

    def drop_priority_class(self, name: str) -> None:
        if self.priorities.pop(name, None) is not None:
            self._priorities_changed()

    def _priorities_changed(self) -> None:
        self._preemptions.forget_all()
        self._dirty.jobs.update(self.known)

    # What goes out

    @property
    def known(self) -> Mapping[ObjectKey, Job]:
        """All jobs; a new object whenever one of them changed."""
        return self._known.freeze()

    def groups_with_notes(self) -> Iterator[PodGroup]:
        """All groups with their pending annotations."""
        return map(self.notes.overlay, self.groups.values())

    def group_with_notes(self, key: ObjectKey) -> PodGroup | None:
        """The group as it will be."""
        found = self.groups.get(key)
        return self.notes.overlay(found) if found is not None else None

    def unsettled(self) -> tuple[Job, ...]:
        """Jobs with a task that isn't placed or that needs a report."""
        return tuple(map(self.known.__getitem__, _in_order(self._unsettled)))

    def any_unsettled(self) -> bool:
        return bool(self._unsettled)

    def stale(self) -> tuple[Job, ...]:
        """Jobs below their minimum, and jobs with the stale annotation."""
        return tuple(map(self.known.__getitem__, _in_order(self._stale)))

    def renew(self, most: int | None = None) -> bool:
        """Rebuilds dirty jobs, at most `most` of them. True when some are left."""
        dirty = self._dirty.jobs
        if not dirty:
            return False
        known, is_empty = self._known, not self._known
        now = list(dirty if most is None else islice(dirty, most))
        for key in now:
            before = None if is_empty else known.get(key, None)
            if before is not None:
                self._unsettled.discard(key)
                self._stale.discard(key)
            if self.unread:
                self.unread.discard(key)
            try:
                job = self._build(key)
            except Exception as error:  # a defect must not stop other jobs
                job = None
                self.unread.add(key)
                what = f"{type(error).__name__}: {error}"
                self._report(f"PodGroup {key} is left out, because the scheduler fails with it: {what}")
            self.uses.replace(key, before, job)
            if before is not None and before.is_active and (job is None or _has_ended(job)):
                self.ended.append(before)
            if job is None:
                known.drop(key)
                continue
            known.put(key, job)
            if job.orphan_tasks or job.problem or job.has_waiting or job.group.status.schedulingConditions:
                self._unsettled.add(key)
            if job.is_stale or job.history.stale_since is not None:
                self._stale.add(key)
        dirty.difference_update(now)
        return bool(dirty)

    def _build(self, key: ObjectKey) -> Job | None:
        group = self.groups.get(key)
        if group is None or (group.spec.schedulingBackoff is not None and _gave_up(group, self._node_pool_label)):
            return None
        group = self.notes.overlay(group)
        return build_job(
            key,
            group,
            self._tasks.members(key),
            priority=self._priority_of(group.spec.priorityClassName or ""),
            created=time_or_zero(group.metadata.creationTimestamp),
            pod_problem=self._tasks.problem_of(key),
        )

    def _priority_of(self, class_name: str) -> int:
        found = self.priorities.get(class_name)
        if found is None:
            found = min(
                (p for p in self.priorities.values() if p.globalDefault), key=lambda p: p.metadata.name, default=None
            )
        return found.value if found is not None else DEFAULT_WORK_PRIORITY


def _has_ended(job: Job) -> bool:
    """Whether nothing of the job runs or will run: an evicted one waits again."""
    return not job.is_active and not job.has_waiting


def _in_order(keys: Iterable[ObjectKey]) -> list[ObjectKey]:
    """Sorted by namespace, then name. Two sorts by strings cost half of one sort by pairs."""
    ordered = sorted(keys, key=_name)
    ordered.sort(key=_namespace)
    return ordered


def _what_counts(group: PodGroup) -> tuple[object, ...]:
    """The fields of a group on which decisions and reports depend; its status is written all the time."""
    meta = group.metadata
    return (
        meta.uid,
        meta.generation,
        meta.creationTimestamp,
        meta.labels,
        meta.annotations,
        meta.deletionTimestamp,
        group.spec,
        lasting_conditions(group),
    )


def lasting_conditions(group: PodGroup) -> tuple[object, ...]:
    """The group's conditions without the sentence that begins their message, and without when it was written: numbers
    in it change with every job that starts, and must not cause a cycle each time."""
    return tuple(
        (each.type, each.nodePool, each.status, each.reason, each.message.partition("\n")[2], each.reasons)
        for each in group.status.schedulingConditions
    )


def _gave_up(group: PodGroup, node_pool_label: str) -> bool:
    """Whether the group wants only one attempt per node pool, and had it here; another component then changes its
    pool."""
    conditions = group.status.schedulingConditions
    if group.spec.schedulingBackoff in (None, NO_BACKOFF) or not conditions:
        return False
    newest = max(conditions, key=lambda condition: integer_or_none(condition.transitionID) or 0)
    return newest.nodePool == (group.metadata.labels.get(node_pool_label) or DEFAULT_NODE_POOL)
