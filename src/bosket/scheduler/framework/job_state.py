"""A job as it stands in the middle of a cycle: the snapshot's job, with what has been decided laid over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bosket.api.object import ObjectKey
from bosket.scheduler.framework.ledger import requested_by
from bosket.scheduler.model.job import Job, PodSet, SubGroupSet
from bosket.scheduler.model.resource import Vector
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, Task, TaskStatus

if TYPE_CHECKING:
    from bosket.scheduler.framework.session import Session


class JobState:
    """Statuses of a job's tasks, and what follows from them: which tasks come next."""

    def __init__(self, job: Job, session: Session, queue_row: int) -> None:
        self.job = job
        self.queue_row = queue_row
        self._session = session
        self._decided: dict[ObjectKey, TaskStatus] = {}
        self.active: dict[str, int] = {
            pod_set.name: sum(task.status in ACTIVE_ALLOCATED for task in pod_set.tasks)
            for pod_set in job.root.pod_sets()
        }  #: pod set → tasks that count towards its minimum
        self.had_active = any(self.active.values())
        self._pod_set_of = {task.key: pod_set for pod_set in job.root.pod_sets() for task in pod_set.tasks}
        self._waiting = {
            pod_set.name: self._in_order([t for t in pod_set.tasks if t.status == TaskStatus.PENDING])
            for pod_set in job.root.pod_sets()
        }
        self._next: list[Task] | None = None
        self._next_request: Vector | None = None

    def status(self, task: Task) -> TaskStatus:
        return self._decided.get(task.key, task.status)

    def pod_set(self, task: Task) -> PodSet:
        return self._pod_set_of[task.key]

    def decide(self, task: Task, status: TaskStatus) -> None:
        """Notes a placement, or with PENDING that it was undone."""
        self._next = self._next_request = None
        before = self.status(task)
        if status == task.status:
            self._decided.pop(task.key, None)
        else:
            self._decided[task.key] = status
        self.active[self._pod_set_of[task.key].name] += (status in ACTIVE_ALLOCATED) - (before in ACTIVE_ALLOCATED)

    def left_over(self) -> list[Task]:
        """Tasks that still wait."""
        return [t for tasks in self._waiting.values() for t in tasks if self.status(t) == TaskStatus.PENDING]

    def pipelined(self, pod_set: PodSet) -> int:
        return sum(self.status(task) == TaskStatus.PIPELINED for task in pod_set.tasks) if self._decided else 0

    def satisfied(self, subgroup: PodSet | SubGroupSet) -> bool:
        if isinstance(subgroup, PodSet):
            return self.active[subgroup.name] >= subgroup.min_available
        return sum(map(self.satisfied, subgroup.children)) >= subgroup.min_children

    def next_tasks(self) -> list[Task]:
        """The gang's missing tasks; when the minimum is there, one extra (or one sub-group) at a time."""
        if self._next is None:
            self._next = self._next_of(self.job.root)
        return self._next

    def next_request(self) -> Vector:
        """What the next tasks ask for together: (GPUs, millicores, bytes)."""
        if self._next_request is None:
            self._next_request = requested_by(self.next_tasks())
        return self._next_request

    def _next_of(self, subgroup: PodSet | SubGroupSet) -> list[Task]:
        if isinstance(subgroup, PodSet):
            waiting = [t for t in self._waiting[subgroup.name] if self.status(t) == TaskStatus.PENDING]
            return waiting[: max(1, subgroup.min_available - self.active[subgroup.name])]
        children = sorted(subgroup.children, key=self._session.subgroup_key(self))
        if self.satisfied(subgroup):
            return next((tasks for child in children if (tasks := self._next_of(child))), [])
        if subgroup.min_children < len(children):
            # KAI takes the first by order, and fails if their pods aren't there; those that can be satisfied go first.
            children.sort(key=lambda child: not (child.ready or self.satisfied(child)))
        first = children[: subgroup.min_children]
        return [task for child in first if not self.satisfied(child) for task in self._next_of(child)]

    def _in_order(self, tasks: list[Task]) -> list[Task]:
        return sorted(tasks, key=self._session.task_key)
