"""A statement: placements and evictions that take effect on the session at once and can be undone exactly.

with statement.checkpoint() as trial:
    ...                      # allocate, pipeline, evict
    trial.keep()             # otherwise everything since the checkpoint is undone
statement.commit()
"""

from __future__ import annotations

from typing import NamedTuple, Self

from bosket.scheduler.decisions import Bind, Eviction, Pipeline
from bosket.scheduler.framework.job_state import JobState, Standing
from bosket.scheduler.framework.ledger import Column, QueueAccounts
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.task import Task, TaskStatus

ALLOCATED, PIPELINED, RELEASING = TaskStatus.ALLOCATED, TaskStatus.PIPELINED, TaskStatus.RELEASING


class Operation(NamedTuple):
    """What was done with a task, and what is needed to undo it."""

    job: JobState
    task: Task
    row: int  #: of the node that it was placed on or taken from
    #: ALLOCATED, PIPELINED, RELEASING for an eviction; for an eviction that is taken back the task's own status
    status: TaskStatus
    stood: Standing  #: how and where the task stood before
    column: Column
    accounts: QueueAccounts


class Trial:
    """What happens inside a checkpoint; undone at its end unless kept."""

    __slots__ = ("_kept", "_start", "_statement")

    def __init__(self, statement: Statement, start: int) -> None:
        self._statement, self._start = statement, start
        self._kept = False

    def keep(self) -> None:
        self._kept = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._kept:
            self._statement.rollback(self._start)


class Statement:
    """Operations that are committed together or not at all."""

    def __init__(self, session: Session, preemptor: Job | None = None) -> None:
        """`preemptor`: for whom tasks are evicted."""
        self._session = session
        self._preemptor = preemptor
        self._operations: list[Operation] = []

    def allocate(self, job: JobState, task: Task, row: int) -> None:
        """Places a task on resources that are free."""
        nodes = self._session.nodes
        self._record(job, task, row, ALLOCATED, nodes.take(nodes.idle_at, task.pod_class, row))

    def pipeline(self, job: JobState, task: Task, row: int) -> None:
        """Places a task on resources that are being released. One that was evicted from there stays there instead."""
        nodes = self._session.nodes
        status, stood_on = job.standing(task)
        if status == RELEASING and stood_on == row:
            self._record(job, task, row, task.status, nodes.take(nodes.releasing_at, task.pod_class, row))
        else:
            self._record(job, task, row, PIPELINED, nodes.take(nodes.releasing_at, task.pod_class, row))

    def evict(self, job: JobState, task: Task) -> None:
        """Has a task that holds resources give them back."""
        nodes = self._session.nodes
        _, row = job.standing(task)
        self._record(job, task, row, RELEASING, nodes.give(nodes.releasing_at, task.pod_class, row))

    def checkpoint(self) -> Trial:
        return Trial(self, len(self._operations))

    def discard(self) -> None:
        self.rollback(0)

    def convert_to_pipelined(self, job: JobState) -> None:
        """Makes every placement of the job wait, so that a gang that depends on releasing resources starts as a whole.

        All operations are done again in their order, because each keeps what it found.
        """
        operations = list(self._operations)
        self.rollback(0)
        for operation in operations:
            if operation.status == RELEASING:
                self.evict(operation.job, operation.task)
            elif operation.status == ALLOCATED and operation.job is not job:
                self.allocate(operation.job, operation.task, operation.row)
            else:
                self.pipeline(operation.job, operation.task, operation.row)

    def jobs(self) -> set[JobState]:
        """Those that something was decided about."""
        return {operation.job for operation in self._operations}

    def commit(self) -> None:
        """Hands what was decided over to the session."""
        session = self._session
        nodes, action = session.snapshot.nodes.nodes, session.action
        evicted: dict[Task, Eviction] = {}
        placed: dict[JobState, tuple[list[Bind], list[Pipeline]]] = {}
        for operation in self._operations:
            job, task, row, status, *_ = operation
            node = nodes[row].metadata.name
            if status == RELEASING:
                evicted[task] = Eviction(task, job.job, node, action, self._preemptor)
                continue
            binds, pipelined = placed.setdefault(job, ([], []))
            if status == ALLOCATED:
                binds.append(Bind(task, job.job, node))
            elif status == PIPELINED:
                pipelined.append(Pipeline(task, job.job, node, action))
            else:
                del evicted[task]
        if evicted:
            session.evicted(evicted.values())
            for job in {operation.job for operation in self._operations if operation.status == RELEASING}:
                job.evictions_are_final()
        for job, outcome in placed.items():
            session.placed(job, *outcome)
        self._operations.clear()

    def _record(self, job: JobState, task: Task, row: int, status: TaskStatus, column: Column) -> None:
        session = self._session
        change = session.queues.credit if status == RELEASING else session.queues.charge
        accounts = change(job.queue_row, task.pod_class.shared, preemptible=job.job.preemptible)
        stood = job.decide(task, status, row)
        self._operations.append(Operation(job, task, row, status, stood, column, accounts))
        for listener in session.placement_listeners:
            (listener.left if status == RELEASING else listener.arrived)(task, row)

    def rollback(self, start: int) -> None:
        """Undoes everything but the first `start` operations, the newest first."""
        session, nodes = self._session, self._session.nodes
        while len(self._operations) > start:
            job, task, row, status, stood, column, accounts = self._operations.pop()
            job.restore(task, stood)
            session.queues.restore(job.queue_row, accounts)
            at = nodes.idle_at if status == ALLOCATED else nodes.releasing_at
            nodes.restore(at, task.pod_class, row, column)
            for listener in session.placement_listeners:
                (listener.arrived if status == RELEASING else listener.left)(task, row)
