"""A statement: placements and evictions that take effect on the session at once and can be undone exactly.

with statement.checkpoint() as trial:
    ...                      # allocate, pipeline, evict
    trial.keep()             # otherwise everything since the checkpoint is undone
statement.commit()
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Self

from bosket.scheduler import decisions
from bosket.scheduler.cause import Cause
from bosket.scheduler.decisions import Bind, Eviction, Pipeline
from bosket.scheduler.framework.job_state import NOWHERE, JobState, Standing
from bosket.scheduler.framework.ledger import Column, DevicesBefore, QueueAccounts
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.task import Task, TaskStatus

#: Why a task of a job is evicted, and where there is room for it instead ("" for nowhere).
CauseOf = Callable[[JobState, Task, str], Cause]


class Kind(Enum):
    """What may be done with a task."""

    ALLOCATE = "allocate"
    PIPELINE = "pipeline"
    EVICT = "evict"
    SPARE = "spare"  #: take its eviction back


class Operation(NamedTuple):
    """What was done with a task, and what is needed to undo it."""

    kind: Kind
    job: JobState
    task: Task
    row: int  #: of the node that it was placed on or taken from; NOWHERE for one that isn't ours
    stood: Standing  #: how and where the task stood before
    column: Column
    accounts: QueueAccounts
    devices: DevicesBefore | None  #: of a task that shares GPUs
    gpu_groups: tuple[str, ...]


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
        self._evicted: dict[Task, Standing] = {}  # and not spared: how and where they stood before

    def allocate(self, job: JobState, task: Task, row: int, gpu_groups: tuple[str, ...] = ()) -> None:
        """Places a task on resources that are free; one that shares GPUs in these groups."""
        nodes = self._session.nodes
        column = nodes.take(nodes.idle_at, task.pod_class, row)
        self._record(Kind.ALLOCATE, job, task, Standing(TaskStatus.ALLOCATED, row, gpu_groups), column)

    def pipeline(self, job: JobState, task: Task, row: int, gpu_groups: tuple[str, ...] = ()) -> None:
        """Places a task on resources that are being released. One that was evicted from there stays there instead."""
        nodes = self._session.nodes
        column = nodes.take(nodes.releasing_at, task.pod_class, row)
        stood = self._evicted.get(task)
        if (
            stood is not None
            and stood.row == row
            and set(stood.gpu_groups) == set(gpu_groups)
            and all(each.stays(task, row) for each in self._session.place_keepers)
        ):
            self._record(Kind.SPARE, job, task, stood, column)
        else:
            self._record(Kind.PIPELINE, job, task, Standing(TaskStatus.PIPELINED, row, gpu_groups), column)

    def evict(self, job: JobState, task: Task) -> None:
        """Has a task that holds resources give them back; on a node that isn't ours, none of our accounts changes."""
        nodes = self._session.nodes
        stands = job.standing(task)
        column = nodes.give(nodes.releasing_at, task.pod_class, stands.row) if stands.row != NOWHERE else []
        self._record(Kind.EVICT, job, task, stands._replace(status=TaskStatus.RELEASING), column)

    def evicted_from(self, task: Task, row: int) -> tuple[str, ...]:
        """The shared GPUs that the task was evicted from, if it was on this node."""
        stood = self._evicted.get(task)
        return stood.gpu_groups if stood is not None and stood.row == row else ()

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
            if operation.kind is Kind.EVICT:
                self.evict(operation.job, operation.task)
            elif operation.kind is Kind.ALLOCATE and operation.job is not job:
                self.allocate(operation.job, operation.task, operation.row, operation.gpu_groups)
            else:
                self.pipeline(operation.job, operation.task, operation.row, operation.gpu_groups)

    def jobs(self) -> set[JobState]:
        """Those that something was decided about."""
        return {operation.job for operation in self._operations}

    def commit(self, cause_of: CauseOf | None = None) -> None:
        """Hands what was decided over to the session."""
        session = self._session
        nodes, action = session.snapshot.nodes.nodes, session.action
        placed = self._operations if self._evicted else ()
        new_rows = {each.task: each.row for each in placed if each.kind is Kind.PIPELINE}
        decided: list[decisions.Operation] = []
        waits: dict[JobState, bool] = {}  # whether some of its tasks wait for what is being released
        for kind, job, task, row, *_, groups in self._operations:
            if kind is Kind.ALLOCATE:
                bind = Bind(task, job.job, nodes[row].metadata.name, groups, session.nodes.portion(task.pod_class, row))
                for add_to in session.bind_details:
                    bind = add_to(bind, row)
                decided.append(bind)
                waits.setdefault(job, False)
            elif kind is Kind.PIPELINE:
                decided.append(Pipeline(task, job.job, nodes[row].metadata.name, action, groups))
                waits[job] = True
            elif kind is Kind.EVICT and task in self._evicted:
                moves_to = nodes[new_rows[task]].metadata.name if task in new_rows else ""
                cause = cause_of(job, task, moves_to) if cause_of is not None else None
                node = nodes[row].metadata.name if row != NOWHERE else task.node
                decided.append(Eviction(task, job.job, node, action, self._preemptor, cause, moves_to))
        session.decided(decided)
        for job, some_wait in waits.items():
            if not some_wait:
                session.started(job)
        if self._evicted:
            for job in self.jobs():
                job.evictions_are_final()
        self._operations.clear()
        self._evicted.clear()

    def _record(self, kind: Kind, job: JobState, task: Task, stands: Standing, column: Column) -> None:
        session = self._session
        change = session.queues.credit if kind is Kind.EVICT else session.queues.charge
        ours = stands.row != NOWHERE
        cost = session.nodes.cost(task.pod_class, stands.row)
        accounts = change(job.queue_row, cost, preemptible=job.job.preemptible) if ours else []
        stood = job.decide(task, stands)
        share, devices = task.pod_class.share, None
        if share is not None and ours:
            # One that is evicted or spared stays on its GPUs, with another status.
            out = stood.status if kind is Kind.EVICT or kind is Kind.SPARE else None
            devices = session.nodes.move_on_devices(share, stands.row, stands.gpu_groups, out=out, into=stands.status)
        if kind is Kind.EVICT:
            self._evicted[task] = stood
        elif kind is Kind.SPARE:
            del self._evicted[task]
        operation = Operation(kind, job, task, stands.row, stood, column, accounts, devices, stands.gpu_groups)
        self._operations.append(operation)
        if ours:
            for listener in session.placement_listeners:
                (listener.left if kind is Kind.EVICT else listener.arrived)(task, stands.row)
            for keeper in session.place_keepers:
                keeper.done(kind, task, stands.row)

    def rollback(self, start: int) -> None:
        """Undoes everything but the first `start` operations, the newest first."""
        session, nodes = self._session, self._session.nodes
        while len(self._operations) > start:
            kind, job, task, row, stood, column, accounts, devices, _ = self._operations.pop()
            if kind is Kind.EVICT:
                del self._evicted[task]
            elif kind is Kind.SPARE:
                self._evicted[task] = job.standing(task)
            job.restore(task, stood)
            if row == NOWHERE:
                continue
            session.queues.restore(job.queue_row, accounts)
            if devices is not None:
                nodes.restore_devices(row, devices)
            at = nodes.idle_at if kind is Kind.ALLOCATE else nodes.releasing_at
            nodes.restore(at, task.pod_class, row, column)
            for listener in session.placement_listeners:
                (listener.arrived if kind is Kind.EVICT else listener.left)(task, row)
            for keeper in session.place_keepers:
                keeper.undone(kind, task, row)
