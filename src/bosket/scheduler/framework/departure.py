"""Departure: tasks of one job that are evicted together, prepared once for the many simulations of a search.

A search evicts the same tasks again and again, each time from the same state, its `Baseline`. The effect is computed
once and then added to the accounts in one step instead of task by task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.job_state import JobState, Placement, PodSetState, SetChange
from bosket.scheduler.framework.ledger import NodeLedger, QueueLedger, is_exact
from bosket.scheduler.framework.operation import Operation
from bosket.scheduler.model.node import NOWHERE
from bosket.scheduler.model.resource import NOTHING, QueueAmounts, plus
from bosket.scheduler.model.task import PodClass, Task, TaskStatus

PIPELINED, RELEASING = TaskStatus.PIPELINED, TaskStatus.RELEASING


class Baseline:
    """The accounts before a search: the state that every simulation starts from and returns to."""

    __slots__ = ("_nodes", "_queues", "allocated", "idle", "non_preemptible", "overdrawn", "releasing")

    def __init__(self, nodes: NodeLedger, queues: QueueLedger) -> None:
        self._nodes, self._queues = nodes, queues
        self.idle, self.releasing, self.overdrawn = nodes.idle.copy(), nodes.releasing.copy(), nodes.overdrawn
        self.allocated, self.non_preemptible = queues.allocated[:], queues.non_preemptible[:]

    def restore(self) -> None:
        """Restores all accounts to the bit. Accounts of queues that did not change stay the same objects."""
        nodes, queues = self._nodes, self._queues
        # Copied in place: class views and cells hold views of these very arrays.
        np.copyto(nodes.idle, self.idle)
        np.copyto(nodes.releasing, self.releasing)
        nodes.overdrawn = self.overdrawn
        # The lists are refilled, not replaced, because `Turns` holds a reference to them; unchanged tuples keep their
        # identity, which caches rely on.
        queues.allocated[:] = self.allocated
        queues.non_preemptible[:] = self.non_preemptible


class Change(NamedTuple):
    """Amounts to add to an array over (resource, node)."""

    cells: NDArray[np.intp]  #: in the flattened array, each once
    amounts: NDArray[np.float64]


class Aftermath(NamedTuple):
    """What is derived from a job's placements after a departure."""

    key: tuple[object, ...]  #: of the job, in the order of jobs
    tasks: list[Task]  #: that come next
    request: QueueAmounts  #: what these ask for
    least: QueueAmounts  #: the same, if all GPUs were as large as the largest


class Departure:
    """The effect of evicting some tasks of a job. Valid while their placements are those at construction."""

    __slots__ = (
        "after", "aftermath", "before", "cost", "costs", "is_exact",
        "is_simple", "is_whole", "job", "operations", "releasing", "rows",
        "sets", "taken_from_idle", "tasks",
    )  # fmt: skip

    def __init__(self, job: JobState, tasks: Sequence[Task], node_count: int) -> None:
        self.job, self.tasks = job, tasks
        self.before: dict[Task, Placement] = {task: job.placement(task) for task in tasks}
        self.after = {task: Placement(RELEASING, row, groups) for task, (_, row, groups) in self.before.items()}
        self.rows = list({before.row: None for before in self.before.values()})
        self.operations: list[Operation] = []  #: one for each task, made by the first statement that evicts them
        #: cache: the job's next tasks when exactly these tasks are evicted
        self.aftermath: Aftermath | None = None
        self.costs: list[QueueAmounts] = []  #: by task: the amounts in its queue's account
        self.cost: QueueAmounts = NOTHING  #: the sum of `costs`
        classes = {task.pod_class for task in tasks}
        #: whether all requests are whole numbers, so that float sums don't depend on their order
        self.is_whole = all(amount.is_integer() for each in classes for _, amount in each.holds)
        #: whether the tasks may be evicted in one step; not with shared GPUs, whose groups are accounted one by one
        self.is_simple = self._find_changes(node_count)
        #: whether the queue accounts are the same whatever the order of evictions
        costs = {self.costs[0]} if self.is_simple and len(classes) == 1 else {job.cost(task) for task in tasks}
        self.is_exact = job.job.preemptible and all(map(is_exact, costs))

    def _find_changes(self, node_count: int) -> bool:
        released: dict[int, float] = {}
        from_idle: dict[int, float] = {}
        going: dict[PodSetState, list[Task]] = {}
        promised: dict[PodSetState, int] = {}
        if not self.is_whole or not all(map(_is_simple, {task.pod_class for task in self.tasks})):
            return False
        for task, (status, row, _) in self.before.items():
            pod_class = task.pod_class
            if row == NOWHERE:
                return False
            is_promised = status is PIPELINED
            for resource, amount in pod_class.holds:
                cell = resource * node_count + row
                released[cell] = released.get(cell, 0.0) + (2 * amount if is_promised else amount)
                if is_promised:
                    from_idle[cell] = from_idle.get(cell, 0.0) - amount
            self.costs.append(pod_class.charge)
            self.cost = plus(self.cost, pod_class.charge)
            state = self.job.state_of(task)
            going.setdefault(state, []).append(task)
            if is_promised:
                promised[state] = promised.get(state, 0) + 1
        self.sets = [SetChange(state, tasks, promised.get(state, 0)) for state, tasks in going.items()]
        self.releasing = _change(released)
        self.taken_from_idle = _change(from_idle) if from_idle else None
        return True


def _is_simple(pod_class: PodClass) -> bool:
    """Whether the tasks share no GPUs and charge their queue whole numbers."""
    return pod_class.share is None and all(map(float.is_integer, pod_class.charge))


def _change(amounts: dict[int, float]) -> Change:
    cells = np.fromiter(amounts, dtype=np.intp, count=len(amounts))
    return Change(cells, np.fromiter(amounts.values(), dtype=np.float64, count=len(amounts)))
