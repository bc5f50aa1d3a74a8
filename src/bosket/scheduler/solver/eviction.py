"""Which tasks of a victim are evicted next: extras one at a time, then surplus sub-groups, then all remaining tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.job import PodSet, SubGroupSet
from bosket.scheduler.model.node import NOWHERE
from bosket.scheduler.model.resource import NOTHING, QueueAmounts, plus
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, ALLOCATED, Task


@dataclass(frozen=True, slots=True, eq=False)
class Victim:
    """A job with the tasks that may still be taken from it."""

    state: JobState  #: the job's state as if only these tasks, and those in `staying`, were active
    original: JobState
    tasks: tuple[Task, ...]
    staying: tuple[Task, ...] = ()  #: active tasks that can't be evicted: they count for the minimum all the same

    def held(self) -> QueueAmounts:
        """The amounts by which queues are ordered: as in KAI, the tasks' requests.

        In KAI a request for GPU memory counts as no GPU here.
        """
        total = NOTHING
        for task in self.tasks:
            status, row, _ = self.original.placement(task)
            if status in ALLOCATED and row != NOWHERE:
                total = plus(total, task.pod_class.charge)
        return total

    def without(self, tasks: Iterable[Task]) -> Victim | None:
        """The victim after these tasks are taken; None when nothing is left."""
        return self._left(set(tasks), self.staying)

    def keeping(self, tasks: Sequence[Task]) -> Victim | None:
        """The victim after some of its tasks turned out not to be evictable; None when nothing is left."""
        return self._left(set(tasks), (*self.staying, *tasks))

    def _left(self, gone: set[Task], staying: tuple[Task, ...]) -> Victim | None:
        left = tuple(task for task in self.tasks if task not in gone)
        if not left:
            return None
        return Victim(self.original.reduced_to((*left, *staying)), self.original, left, staying)


def victim_of(state: JobState) -> Victim:
    """A job with all its active tasks as a victim."""
    return Victim(state, state, tuple(state.active_tasks()))


def next_to_evict(session: Session, victim: Victim) -> list[Task]:
    """The tasks to evict next; empty where the tasks that must stay need all others."""
    tasks, job = victim.tasks, victim.original.job
    if job.is_plain:  # the same without looking for sub-groups: most jobs have none
        has_surplus = len(tasks) + len(victim.staying) > job.pod_sets[0].min_available
        if victim.staying and not has_surplus:
            return []
        if len(tasks) == 1:
            return list(tasks)
        ordered = sorted(tasks, key=session.orders.task_key, reverse=True)
        return ordered[:1] if has_surplus else ordered
    return _Step(session, victim).tasks()


def may_go_alone(job: JobState, tasks: Collection[Task]) -> bool:
    """Whether the job without these tasks is no partial gang: each part keeps its minimum or loses everything."""
    return _is_sound(job, job.job.root, set(tasks))


def _is_sound(job: JobState, part: PodSet | SubGroupSet, gone: Collection[Task]) -> bool:
    active = [task for each in part.pod_sets() for task in each.tasks if job.status(task) in ACTIVE_ALLOCATED]
    left = sum([task not in gone for task in active])
    if left in (0, len(active)):
        return True
    if isinstance(part, PodSet):
        return left >= part.min_available
    satisfied = sum([_is_satisfied(job, child, gone) for child in part.children])
    return satisfied >= part.min_children and all(_is_sound(job, child, gone) for child in part.children)


def _is_satisfied(job: JobState, part: PodSet | SubGroupSet, gone: Collection[Task]) -> bool:
    if isinstance(part, PodSet):
        left = sum([job.status(task) in ACTIVE_ALLOCATED and task not in gone for task in part.tasks])
        return left >= part.min_available
    return sum([_is_satisfied(job, child, gone) for child in part.children]) >= part.min_children


class _Step:
    """One step of taking a job apart."""

    def __init__(self, session: Session, victim: Victim) -> None:
        self._session, self._state, self._victim = session, victim.state, victim
        self._by_set: dict[str, list[Task]] = {}
        for task in victim.tasks:
            self._by_set.setdefault(victim.original.pod_set(task).name, []).append(task)
        self._staying = Counter(victim.original.pod_set(task).name for task in victim.staying)

    def tasks(self) -> list[Task]:
        root = self._victim.state.job.root
        return self._surplus(root) or self._all_of(root)

    def _surplus(self, subgroup: PodSet | SubGroupSet) -> list[Task]:
        if isinstance(subgroup, PodSet):
            active = len(self._by_set.get(subgroup.name, ())) + self._staying[subgroup.name]
            has_surplus = active > subgroup.min_available
            return self._last_first(subgroup)[:1] if has_surplus else []
        satisfied = sum(map(self._state.satisfied, subgroup.children))
        if not satisfied:
            return []
        members = sorted(subgroup.children, key=self._session.orders.subgroup_key(self._state), reverse=True)
        for member in members:
            if tasks := self._surplus(member):
                return tasks
        if subgroup.min_children < satisfied:
            return next((tasks for member in members if (tasks := self._all_of(member))), [])
        return []

    def _all_of(self, subgroup: PodSet | SubGroupSet) -> list[Task]:
        """All tasks of the sub-group; empty if one of its tasks can't be evicted, because a partial gang would
        remain."""
        if any(self._staying[pod_set.name] for pod_set in subgroup.pod_sets()):
            return []
        return [task for pod_set in subgroup.pod_sets() for task in self._last_first(pod_set)]

    def _last_first(self, pod_set: PodSet) -> list[Task]:
        return sorted(self._by_set.get(pod_set.name, ()), key=self._session.orders.task_key, reverse=True)
