"""A statement: placements that take effect on the session at once and can be undone exactly.

with statement.checkpoint() as trial:
    ...                      # allocate, pipeline
    trial.keep()             # otherwise everything since the checkpoint is undone
statement.commit()
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bosket.scheduler.decisions import Bind, Pipeline
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.ledger import NodeChange, QueueChange
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.task import Task, TaskStatus


@dataclass(slots=True, eq=False)
class Operation:
    """One placement, with what is needed to undo it."""

    job: JobState
    task: Task
    row: int
    status: TaskStatus  #: ALLOCATED or PIPELINED
    node_change: NodeChange
    queue_change: QueueChange


class Trial:
    """What happens inside a checkpoint; undone at its end unless kept."""

    kept = False

    def keep(self) -> None:
        self.kept = True


class Statement:
    """The placements of one job, to be committed together or not at all."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._operations: list[Operation] = []

    def allocate(self, job: JobState, task: Task, row: int) -> None:
        """Places a task on resources that are free."""
        self._place(job, task, row, TaskStatus.ALLOCATED)

    def pipeline(self, job: JobState, task: Task, row: int) -> None:
        """Places a task on resources that are being released."""
        self._place(job, task, row, TaskStatus.PIPELINED)

    @contextmanager
    def checkpoint(self) -> Iterator[Trial]:
        start = len(self._operations)
        trial = Trial()
        try:
            yield trial
        finally:
            if not trial.kept:
                self._rollback(start)

    def discard(self) -> None:
        self._rollback(0)

    def convert_to_pipelined(self) -> None:
        """Makes every placement wait, so that a gang that depends on releasing resources starts as a whole."""
        operations = list(self._operations)
        self._rollback(0)
        for operation in operations:
            self.pipeline(operation.job, operation.task, operation.row)

    def commit(self) -> bool:
        """Hands the placements over to the session; True when at least one task will be bound."""
        names = self._session.snapshot.nodes.nodes
        binds, pipelined = [], []
        for op in self._operations:
            node = names[op.row].metadata.name
            if op.status == TaskStatus.ALLOCATED:
                binds.append(Bind(op.task, op.job.job, node))
            else:
                pipelined.append(Pipeline(op.task, op.job.job, node, self._session.action))
        if self._operations:
            self._session.placed(self._operations[0].job, binds, pipelined)
        self._operations.clear()
        return bool(binds)

    def _place(self, job: JobState, task: Task, row: int, status: TaskStatus) -> None:
        session = self._session
        take = session.nodes.take_idle if status == TaskStatus.ALLOCATED else session.nodes.take_releasing
        node_change = take(task.pod_class, row)
        queue_change = session.queues.charge(job.queue_row, task.pod_class, preemptible=job.job.preemptible)
        job.decide(task, status)
        self._operations.append(Operation(job, task, row, status, node_change, queue_change))

    def _rollback(self, start: int) -> None:
        while len(self._operations) > start:
            operation = self._operations.pop()
            operation.job.decide(operation.task, TaskStatus.PENDING)
            self._session.queues.restore(operation.queue_change)
            self._session.nodes.restore(operation.node_change)
