"""JobState: a job in the middle of a cycle: the snapshot's job with the cycle's decisions on top."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from bosket.scheduler.model.job import Job, PodSet, SubGroupSet
from bosket.scheduler.model.node import NOWHERE, NodeRow
from bosket.scheduler.model.queue import QueueRow
from bosket.scheduler.model.reason import NotReady
from bosket.scheduler.model.resource import NOTHING, QueueAmounts
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, ACTIVE_USED, ALIVE, PodClass, Task, TaskStatus

PENDING, ALLOCATED, PIPELINED = TaskStatus.PENDING, TaskStatus.ALLOCATED, TaskStatus.PIPELINED
GOING = ACTIVE_USED - ACTIVE_ALLOCATED


class Placement(NamedTuple):
    """A task's status, the row of its node, and its shared GPUs there."""

    status: TaskStatus
    row: NodeRow
    gpu_groups: tuple[str, ...] = ()


#: The placement of every pending task.
UNPLACED = Placement(PENDING, NOWHERE)


class PodSetState:
    """A pod set in the middle of a cycle: how many tasks are active, and which are pending."""

    __slots__ = ("_first", "_in_order", "active", "evicted", "minimum", "pipelined", "waiting")

    def __init__(self, pod_set: PodSet) -> None:
        self.minimum = pod_set.min_available
        self.active = pod_set.active
        self.pipelined = 0
        self.waiting: Sequence[Task] = pod_set.pending
        self.evicted: list[Task] = []  #: in this cycle, to be placed again if there is room
        self._in_order = len(self.waiting) < 2
        self._first = 0  # all before it have a place


class SetChange(NamedTuple):
    """The effect of a departure on one pod set."""

    state: PodSetState
    tasks: list[Task]  #: those that go
    pipelined: int  #: how many of them were only promised a place


class JobMemento(NamedTuple):
    """The placements of a job's tasks at one moment."""

    decided: dict[Task, Placement]
    #: of each pod set: the numbers of active and pipelined tasks, those that were evicted, and the first that waits
    sets: list[tuple[PodSetState, int, int, list[Task], int]]


class JobContext(Protocol):
    """What all job states of a session share."""

    @property
    def node_rows(self) -> Mapping[str, NodeRow]:
        """The row of each node by its name."""
        ...

    @property
    def smallest_device_mib(self) -> int | None: ...

    @property
    def largest_device_mib(self) -> int | None: ...

    def cost(self, pod_class: PodClass, row: NodeRow) -> QueueAmounts:
        """The amounts that a pod on a node charges to its queue."""
        ...

    def price(self, pod_class: PodClass, count: int, device_mib: int | None) -> QueueAmounts:
        """The request of so many pods of a class, if all devices were of this size. Equal requests are the same object,
        so that callers can compare by identity."""
        ...

    def in_order(self, tasks: Iterable[Task]) -> list[Task]:
        """Tasks in the order in which they are placed."""
        ...

    def subgroup_key(self, job: JobState) -> Callable[[PodSet | SubGroupSet], tuple[object, ...]]:
        """The sort key of a job's sub-groups."""
        ...


def requested_by(tasks: Sequence[Task], device_mib: int | None) -> QueueAmounts:
    """The request of several tasks, if all devices were of this size."""
    if len(tasks) == 1:
        return tasks[0].pod_class.charge_by(device_mib)
    gpus, millicores, memory = NOTHING
    for pod_class, count in Counter(task.pod_class for task in tasks).items():
        gpu, cpu, size = pod_class.charge_by(device_mib)
        gpus, millicores, memory = gpus + count * gpu, millicores + count * cpu, memory + count * size
    return gpus, millicores, memory


class JobState:
    """The placements of a job's tasks, and what follows from them: which tasks are placed next.

    `decide` is called for every operation of every statement, so derived values (`_next`, `_next_request`) are only
    cleared there and computed on the next question.
    """

    __slots__ = (
        "_context",
        "_decided",
        "_found",
        "_least_request",
        "_min_children",
        "_narrowed",
        "_next",
        "_next_request",
        "_part",
        "_sets",
        "had_active",
        "is_constrained",
        "job",
        "only_set",
        "queue_row",
    )  # fmt: skip

    def __init__(self, job: Job, context: JobContext, queue_row: QueueRow) -> None:
        self.job = job
        self.queue_row = queue_row
        self._context = context
        self._decided: dict[Task, Placement] = {}  # placements that differ from the snapshot's
        self._found: dict[Task, Placement] | None = None  # cache of the snapshot's placements
        pod_sets = job.pod_sets
        self.only_set: PodSetState | None = None
        if len(pod_sets) == 1:
            self.only_set = only = PodSetState(pod_sets[0])
            self._sets = {pod_sets[0].name: only}
        else:
            self._sets = {pod_set.name: PodSetState(pod_set) for pod_set in pod_sets}
        #: whether the nodes of some pods depend on the nodes of other pods of the job
        self.is_constrained = job.is_constrained
        self._narrowed: Sequence[Task] | None = None  # the only tasks to be placed for now; see `narrowed_to`
        self._part: Mapping[str, list[Task]] | None = None  # by pod set: the tasks among which `narrowed_to` chooses
        # by sub-group: the minimum of children while the job is narrowed
        self._min_children: dict[str, int] | None = None
        self.had_active = job.is_active
        self._next: list[Task] | None = None
        self._next_request: QueueAmounts | None = None
        self._least_request: QueueAmounts | None = None

    # Placements

    def placement(self, task: Task) -> Placement:
        found = self._decided.get(task)
        if found is not None:
            return found
        if task.status is PENDING:
            return UNPLACED
        # Made on first use: for most jobs no running task is ever asked about.
        if self._found is None:
            self._found = {}
        found = self._found.get(task)
        if found is None:
            row = self._context.node_rows.get(task.node, NOWHERE)
            found = self._found[task] = Placement(task.status, row, task.gpu_groups)
        return found

    def cost(self, task: Task) -> QueueAmounts:
        """The amounts that the task charges to its queue on its present node."""
        row = self.placement(task).row
        return self._context.cost(task.pod_class, row) if row != NOWHERE else task.pod_class.charge

    def status(self, task: Task) -> TaskStatus:
        found = self._decided.get(task)
        return task.status if found is None else found.status

    def statuses(self) -> set[TaskStatus]:
        """All statuses that occur among the job's tasks."""
        decided = self._decided
        if not decided:
            return {task.status for pod_set in self.job.pod_sets for task in pod_set.tasks}
        return {
            decided[task].status if task in decided else task.status
            for pod_set in self.job.pod_sets
            for task in pod_set.tasks
        }

    def decide(self, task: Task, after: Placement) -> Placement:
        """Records a placement; returns the placement before, for `restore`."""
        before = self.placement(task)
        self._move(task, before, after)
        return before

    def allocate_waiting(self, tasks: Sequence[Task], after: Placement) -> None:
        """Records that pending tasks of one pod set are allocated; equals `decide` for each."""
        self._next = self._next_request = self._least_request = None
        self._decided.update(dict.fromkeys(tasks, after))
        self.state_of(tasks[0]).active += len(tasks)

    def restore(self, task: Task, before: Placement) -> None:
        self._move(task, self.placement(task), before)

    def _move(self, task: Task, before: Placement, after: Placement) -> None:
        self._next = self._next_request = self._least_request = None
        state = self.only_set if self.only_set is not None else self._sets[task.subgroup]
        # Nearly all calls are this one, and cost half without the general bookkeeping.
        if before is UNPLACED and after.status is ALLOCATED:
            self._decided[task] = after
            state.active += 1
            return
        if after.status == task.status:
            self._decided.pop(task, None)
        else:
            self._decided[task] = after
        state.active += (after.status in ACTIVE_ALLOCATED) - (before.status in ACTIVE_ALLOCATED)
        state.pipelined += (after.status == PIPELINED) - (before.status == PIPELINED)
        if before.status == TaskStatus.RELEASING and task in state.evicted:
            state.evicted.remove(task)
        if after.status == TaskStatus.RELEASING:
            state.evicted.append(task)
        elif after.status == PENDING:
            state._first = 0

    def state_of(self, task: Task) -> PodSetState:
        return self.only_set if self.only_set is not None else self._sets[task.subgroup]

    def pod_set(self, task: Task) -> PodSet:
        pod_sets = self.job.pod_sets
        return pod_sets[0] if len(pod_sets) == 1 else next(each for each in pod_sets if each.name == task.subgroup)

    def in_set(self, pod_set: PodSet) -> PodSetState:
        return self._sets[pod_set.name]

    def left_over(self) -> list[Task]:
        """The tasks that are still pending."""
        return [task for state in self._sets.values() for task in state.waiting if task not in self._decided]

    @property
    def has_left_over(self) -> bool:
        decided, only = self._decided, self.only_set
        if only is not None and len(only.waiting) > len(decided):
            return True
        for state in self._sets.values():
            for task in state.waiting:
                if task not in decided:
                    return True
        return False

    def is_satisfied(self) -> bool:
        """Whether the gang's minimum is placed."""
        only = self.only_set
        if only is not None and self.job.is_plain:
            return only.active >= only.minimum
        return self.satisfied(self.job.root)

    @property
    def has_active(self) -> bool:
        return any(state.active for state in self._sets.values())

    @property
    def was_evicted(self) -> bool:
        """Whether some of the job's tasks were evicted in this cycle."""
        return any(each.status == TaskStatus.RELEASING for each in self._decided.values())

    def short_of_pods(self) -> NotReady | None:
        """A reason if, after evictions of this cycle, too few pods are left for the gang; else None."""
        if self._is_ready(self.job.root):
            return None
        short = next((each for each in self.job.pod_sets if not self._is_ready(each)), self.job.pod_sets[0])
        return NotReady(short.min_available, self._alive(short), short.gated, self.job.shown_name(short))

    def _is_ready(self, subgroup: PodSet | SubGroupSet) -> bool:
        if isinstance(subgroup, PodSet):
            return self._alive(subgroup) - subgroup.gated >= subgroup.min_available
        return sum(map(self._is_ready, subgroup.children)) >= subgroup.min_children

    def _alive(self, pod_set: PodSet) -> int:
        return sum(self.status(task) in ALIVE for task in pod_set.tasks)

    def is_stale(self) -> bool:
        """Whether the gang is below its minimum, also counting what was placed in this cycle."""
        return self.job.is_stale and not self._holds_together(self.job.root)

    def _holds_together(self, subgroup: PodSet | SubGroupSet) -> bool:
        if isinstance(subgroup, PodSet):
            used = sum(self.status(task) in ACTIVE_USED for task in subgroup.tasks)
            return used >= subgroup.min_available
        return sum(map(self._holds_together, subgroup.children)) >= subgroup.min_children

    def active_tasks(self) -> list[Task]:
        """The tasks that count towards the gang and may be evicted."""
        return [task for task in self.job.tasks if self.status(task) in ACTIVE_ALLOCATED]

    def satisfied(self, subgroup: PodSet | SubGroupSet) -> bool:
        if isinstance(subgroup, PodSet):
            state = self._sets[subgroup.name]
            return state.active >= state.minimum
        return sum(map(self.satisfied, subgroup.children)) >= self.min_children(subgroup)

    def min_children(self, subgroup: SubGroupSet) -> int:
        """How many children of the sub-group must be satisfied."""
        own = subgroup.min_children
        return own if self._min_children is None else self._min_children.get(subgroup.name, own)

    def is_whole(self) -> bool:
        """Whether every pod set has its minimum, including those that the pod group could do without."""
        return all(self._sets[each.name].active + self._going(each) >= each.min_available for each in self.job.pod_sets)

    def _going(self, pod_set: PodSet) -> int:
        """The number of terminating tasks: until they are gone they count for the gang."""
        return sum(self.status(task) in GOING for task in pod_set.tasks)

    def evictions_are_final(self) -> None:
        """Forgets which tasks were evicted, so that they aren't placed again in this cycle."""
        self._next = self._next_request = self._least_request = None
        for state in self._sets.values():
            state.evicted.clear()

    # Many tasks at once

    def depart(self, leaves: Mapping[Task, Placement], sets: Iterable[SetChange]) -> None:
        """Records that active tasks are evicted; equals `decide` for each. `sets`: the effect on pod sets, computed
        once per departure."""
        self._next = self._next_request = self._least_request = None
        self._decided.update(leaves)
        for state, tasks, pipelined in sets:
            state.active -= len(tasks)
            state.pipelined -= pipelined
            state.evicted += tasks

    def recall(self, tasks: list[Task], request: QueueAmounts, least: QueueAmounts) -> None:
        """Sets the results of `next_tasks`, `next_request` and `least_request` that were computed for the same
        placements before."""
        self._next, self._next_request, self._least_request = tasks, request, least

    def arrive(self, tasks: Sequence[Task], placements: Sequence[Placement]) -> None:
        """Records that evicted or pending tasks get a placement; equals `decide` for each."""
        self._next = self._next_request = self._least_request = None
        for task, after in zip(tasks, placements, strict=True):
            if after.status == task.status:
                self._decided.pop(task, None)
            else:
                self._decided[task] = after
            state = self.state_of(task)
            state.active += 1
            state.pipelined += after.status is PIPELINED
        placed = set(tasks)
        for state in self._sets.values():
            if state.evicted:
                state.evicted = [task for task in state.evicted if task not in placed]

    def memento(self) -> JobMemento:
        """The present placements, for `revert`."""
        sets = [(each, each.active, each.pipelined, each.evicted[:], each._first) for each in self._sets.values()]
        return JobMemento(self._decided.copy(), sets)

    def revert(self, memento: JobMemento) -> None:
        """Restores placements, whatever was decided since."""
        self._next = self._next_request = self._least_request = None
        self._decided = memento.decided
        for state, active, pipelined, evicted, first in memento.sets:
            state.active, state.pipelined, state.evicted, state._first = active, pipelined, evicted, first

    # Parts of a job

    @contextmanager
    def narrowed_to(self, tasks: Sequence[Task]) -> Iterator[None]:
        """Within the block the job consists of these pending tasks only, and no sub-group's minimum exceeds what it has
        of them.

        As in KAI, a sub-group without any task keeps its minimum. One without a minimum needs nothing to be satisfied,
        and where the pod group says how many sub-groups are enough, others may be left out.
        """
        # Minima are changed in the states themselves, because `satisfied` and `next_tasks` run for every placement.
        minima = {name: state.minimum for name, state in self._sets.items()}
        if self.only_set is None:
            part: dict[str, list[Task]] = {name: [] for name in self._sets}
            for task in tasks:
                part[self.pod_set(task).name].append(task)
            for name, state in self._sets.items():
                if there := state.active + len(part[name]):
                    state.minimum = min(state.minimum, there)
            self._narrow(self.job.root, part)
            self._part = part
            tasks = self._next_of(self.job.root)
            self._part = None
        self._narrowed = tasks
        self._next = self._next_request = self._least_request = None
        try:
            yield
        finally:
            for name, state in self._sets.items():
                state.minimum = minima[name]
            self._min_children = None
            self._narrowed = self._next = self._next_request = self._least_request = None

    def _narrow(self, subgroup: PodSet | SubGroupSet, part: Mapping[str, list[Task]]) -> bool:
        """Lowers a sub-group's minimum to its number of children with tasks; returns whether it has any."""
        if isinstance(subgroup, PodSet):
            return bool(self._sets[subgroup.name].active or part[subgroup.name])
        populated = sum([self._narrow(child, part) for child in subgroup.children])
        if subgroup.says_minimum:
            if self._min_children is None:
                self._min_children = {}
            self._min_children[subgroup.name] = min(subgroup.min_children, populated)
        return populated > 0

    def reduced_to(self, tasks: Sequence[Task]) -> JobState:
        """The job as if only these of its active tasks were left."""
        left = JobState(self.job, self._context, self.queue_row)
        for state in left._sets.values():
            state.active = 0
        for task in tasks:
            left.state_of(task).active += 1
        return left

    # What comes next

    def next_tasks(self) -> list[Task]:
        """The tasks to place next: the gang's missing tasks, or one extra (or one extra sub-group) when the minimum is
        placed."""
        if self._next is None:
            narrowed, only = self._narrowed, self.only_set
            if narrowed is not None:
                self._next = [task for task in narrowed if task not in self._decided]
            elif only is not None and self.job.is_plain:
                self._next = self._first_waiting(only, max(1, only.minimum - only.active))
            else:
                self._next = self._next_of(self.job.root)
        return self._next

    def next_request(self) -> QueueAmounts:
        """The request of the next tasks if all GPUs were as small as the smallest."""
        if self._next_request is None:
            self._next_request = self._request_by(self._context.smallest_device_mib)
        return self._next_request

    def least_request(self) -> QueueAmounts:
        """The request of the next tasks if all GPUs were as large as the largest."""
        if self._least_request is None:
            largest = self._context.largest_device_mib
            is_same = self._context.smallest_device_mib == largest
            self._least_request = self.next_request() if is_same else self._request_by(largest)
        return self._least_request

    def _request_by(self, device_mib: int | None) -> QueueAmounts:
        alike = self.next_alike()
        return requested_by(self.next_tasks(), device_mib) if alike is None else self._context.price(*alike, device_mib)

    def next_alike(self) -> tuple[PodClass, int] | None:
        """The class and the number of the next tasks, if these two describe the job's request completely; else None.

        Jobs with equal answers are interchangeable: what was found for one (no room, say) holds for the next.
        """
        state = self.only_set
        if state is None or self.is_constrained or self._decided or self._narrowed is not None:
            return None
        only_class = self.job.pod_sets[0].only_class
        if only_class is None:
            return None
        missing, waiting = state.minimum - state.active, len(state.waiting)
        return only_class, 1 if missing <= 1 <= waiting else min(max(1, missing), waiting)

    def _next_of(self, subgroup: PodSet | SubGroupSet) -> list[Task]:
        if isinstance(subgroup, PodSet):
            state = self._sets[subgroup.name]
            count = max(1, state.minimum - state.active)
            return self._first_waiting(state, count) if self._part is None else self._part[subgroup.name][:count]
        children = subgroup.children
        if len(children) == subgroup.min_children == 1:
            return self._next_of(children[0])
        ordered = sorted(children, key=self._context.subgroup_key(self))
        if self.satisfied(subgroup):
            # KAI gives pods also to a sub-group that can't reach its own minimum; they would run for nothing.
            complete = (child for child in ordered if self._may_be_satisfied(child))
            return next((tasks for child in complete if (tasks := self._next_of(child))), [])
        wanted = self.min_children(subgroup)
        if wanted < len(ordered):
            # KAI takes the first by order, and fails if their pods aren't there; those that can be satisfied go first.
            ordered.sort(key=lambda child: not self._may_be_satisfied(child))
        first = ordered[:wanted]
        return [task for child in first if not self.satisfied(child) for task in self._next_of(child)]

    def _may_be_satisfied(self, subgroup: PodSet | SubGroupSet) -> bool:
        """Whether the sub-group has enough pods for its minimum. While a part of the job is tried, every sub-group
        counts as such."""
        return self._part is not None or subgroup.ready or self.satisfied(subgroup)

    def _first_waiting(self, state: PodSetState, count: int) -> list[Task]:
        if state.evicted:
            everything = [*(task for task in state.waiting if task not in self._decided), *state.evicted]
            return self._context.in_order(everything)[:count]
        if not state._in_order:
            state.waiting = self._context.in_order(state.waiting)
            state._in_order = True
        decided, waiting, first = self._decided, state.waiting, state._first
        while first < len(waiting) and waiting[first] in decided:
            first += 1
        state._first = first
        if not decided:
            return list(waiting[first : first + count])
        result = []
        for task in waiting[first:] if count > 1 else waiting[first : first + 1]:
            if task not in decided:
                result.append(task)
                if len(result) == count:
                    break
        return result
