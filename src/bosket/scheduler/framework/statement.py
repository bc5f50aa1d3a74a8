"""Statement: placements and evictions that take effect in the session at once and can be rolled back exactly.

with statement.checkpoint() as trial:
    ...                      # allocate, pipeline, evict
    trial.keep()             # otherwise everything since the checkpoint is rolled back
statement.commit()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np

from bosket.scheduler.framework.class_view import NO_HOME, Home
from bosket.scheduler.framework.departure import Baseline, Departure
from bosket.scheduler.framework.extension import Kind
from bosket.scheduler.framework.job_state import UNPLACED, JobMemento, JobState, Placement
from bosket.scheduler.framework.ledger import Column, QueueAccounts
from bosket.scheduler.framework.operation import Operation, lost_gpu_seconds
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.tentative import Tentative
from bosket.scheduler.model import decisions
from bosket.scheduler.model.cause import Cause
from bosket.scheduler.model.decisions import Bind, Eviction, Pipeline
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.node import NOWHERE, NodeRow
from bosket.scheduler.model.resource import ResourceIndex
from bosket.scheduler.model.task import Task, TaskStatus

#: Why a task of a job is evicted, and where there is room for it instead ("" for nowhere).
CauseOf = Callable[[JobState, Task, str], Cause]


# Members of an Enum are looked up far more slowly than names of a module.
ALLOCATE, PIPELINE, EVICT, SPARE, STAY = Kind
ALLOCATED, PIPELINED, RELEASING = TaskStatus.ALLOCATED, TaskStatus.PIPELINED, TaskStatus.RELEASING


class Trial:
    """A checkpoint of a statement: operations after it are rolled back at the end of the `with` block unless `keep` was
    called."""

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

    def __init__(self, session: Session, preemptor: Job | None = None, baseline: Baseline | None = None) -> None:
        """`preemptor`: the job for which tasks are evicted. `baseline`: the accounts at this moment, if the caller
        saved them; `discard` then restores them in one step."""
        self._session = session
        self._preemptor = preemptor
        self.operations: list[Operation] = []
        # evicted tasks that found no place since, with their placement before the eviction
        self._evicted: dict[Task, Placement] = {}
        self._before: dict[Task, Placement] = {}  # every evicted task: its placement before the eviction
        self._listeners = session.extensions.placement_listeners
        #: listeners that assign something beside the node, such as NUMA zones
        self._assigning = [each for each in self._listeners if each.assigns] if self._listeners else []
        # Listeners follow single operations, so batches are not allowed while one listens.
        self._baseline = None if self._listeners else baseline
        #: the number of operations before the one that set `nodes.overdrawn`; None when this statement did not set it
        self._overdrew_at: int | None = None
        self._log_start = len(session.nodes.log)
        # jobs whose tasks were evicted by `evict_all`, with their state before
        self._jobs_before: dict[JobState, JobMemento] = {}

    def allocate(self, job: JobState, task: Task, row: NodeRow, gpu_groups: tuple[str, ...] = ()) -> None:
        """Places a task on idle resources; `gpu_groups` names the shared GPUs of a task that shares some."""
        column = self._session.nodes.allocate(task.pod_class, row)
        self._record(ALLOCATE, job, task, Placement(ALLOCATED, row, gpu_groups), column)

    def allocate_for_good(self, job: JobState, task: Task, row: NodeRow, gpu_groups: tuple[str, ...] = ()) -> None:
        """Does `allocate` and `commit` of one task in an otherwise empty statement. No undo information is kept, which
        halves the cost of a job of one pod."""
        session, pod_class = self._session, task.pod_class
        nodes, share = session.nodes, pod_class.share
        nodes.allocate(pod_class, row)
        session.queues.charge(job.queue_row, nodes.cost(pod_class, row), preemptible=job.job.preemptible)
        job.decide(task, Placement(ALLOCATED, row, gpu_groups))
        if share is not None:
            nodes.move_on_devices(share, row, gpu_groups, out=None, into=ALLOCATED)
        for listener in self._listeners:
            listener.done(ALLOCATE, task, row)
        session.outcome.decided((self._bind(job, task, row, gpu_groups),), evicts=False)
        session.outcome.has_started(job)

    def allocate_many(self, job: JobState, tasks: Sequence[Task], start: int, end: int, row: NodeRow) -> int:
        """Places equal tasks from `start` to `end` on one node while its idle resources have room; returns how many.

        Equals repeated `allocate`. The caller guarantees that all tasks are pending, share no GPUs, and that the first
        fits.
        """
        session, pod_class = self._session, tasks[start].pod_class
        columns = session.nodes.allocate_many(pod_class, row, end - start)
        count = len(columns)
        queues, preemptible = session.queues, job.job.preemptible
        accounts = queues.charge_many(job.queue_row, pod_class.charge, count, preemptible=preemptible)
        placed = tasks[start : start + count]
        job.allocate_waiting(placed, Placement(ALLOCATED, row))
        self.operations += [
            Operation(ALLOCATE, job, task, row, UNPLACED, column, before, None, ())
            for task, column, before in zip(placed, columns, accounts, strict=True)
        ]
        return count

    @property
    def takes_many(self) -> bool:
        """Whether `allocate_many` may be called: no listener follows single tasks, and no task was evicted before."""
        return not (self._listeners or self._session.extensions.free_now or self._evicted)

    def pipeline(self, job: JobState, task: Task, row: NodeRow, gpu_groups: tuple[str, ...] = ()) -> None:
        """Places a task on resources that are being released. A task that was evicted from this very place is spared
        instead.

        A task that was moved earlier in this cycle, and would now return to the node where it runs, keeps its new place
        if that is still free, as in KAI; otherwise the task isn't moved at all. KAI would promise the new place to both
        tasks.
        """
        nodes, pod_class = self._session.nodes, task.pod_class
        before = self._evicted.get(task)
        assigning = self._assigning
        # A bound task can run on one node only. Placing it "back" must therefore cancel its eviction (SPARE) or its
        # move (STAY); a second promise of its own node would count its resources twice.
        goes_back = (
            before is not None and pod_class.share is None and not assigning and row == nodes.table.rows.get(task.node)
        )
        is_back = (
            before is not None
            and row == before.row
            and set(before.gpu_groups) == set(gpu_groups)
            and all(each.stays(task, row) for each in assigning)
        )
        if before is not None and (is_back or (goes_back and nodes.fits(pod_class, before.row))):
            self._record(SPARE, job, task, before, self._release(before, task, sign=-1))
        elif goes_back:
            column = nodes.take(nodes.releasing_at, pod_class, row)
            self._record(STAY, job, task, Placement(task.status, row), column)
        else:
            column = nodes.take(nodes.releasing_at, pod_class, row)
            self._record(PIPELINE, job, task, Placement(PIPELINED, row, gpu_groups), column)

    def may_place_together(self, tasks: Sequence[Task]) -> bool:
        """Whether `pipeline_all` may place these tasks: equal tasks without shared GPUs, in a simulation that is only
        ever discarded or committed as a whole."""
        if self._baseline is None:
            return False
        pod_class = tasks[0].pod_class
        # Charging n pods in one step gives the same float sum as n charges only for whole numbers.
        if pod_class.share is not None or not all(map(float.is_integer, pod_class.charge)):
            return False
        return len(tasks) == 1 or all(task.pod_class is pod_class for task in tasks)

    def homes(self, tasks: Sequence[Task]) -> list[Home]:
        """For each task, the node that it was evicted from, as far as that influences its next place."""
        rows, evicted = self._session.nodes.table.rows, self._evicted
        homes: list[Home] = []
        for task in tasks:
            before = evicted.get(task)
            if before is None:
                homes.append(NO_HOME)
            else:
                runs_on = rows.get(task.node, NOWHERE)
                is_moved = runs_on not in (NOWHERE, before.row)
                homes.append(Home(before.row, before.status is PIPELINED, runs_on if is_moved else NOWHERE))
        return homes

    def pipeline_all(self, job: JobState, tasks: Sequence[Task], rows: Sequence[NodeRow]) -> None:
        """Does `pipeline` for tasks that `may_place_together`, on resources that `ClassView.fill` has already taken."""
        (gpus, millicores, memory), count = tasks[0].pod_class.charge, len(tasks)
        self._session.queues.change_together(
            job.queue_row,
            [tasks[0].pod_class.charge] * count,
            preemptible=job.job.preemptible,
            sign=1,
            total=(gpus * count, millicores * count, memory * count),
        )
        operations, evicted, table = self.operations, self._evicted, self._session.nodes.table.rows
        placements: list[Placement] = []
        for task, row in zip(tasks, rows, strict=True):
            before = evicted.get(task)
            kind, after = PIPELINE, Placement(PIPELINED, row)
            if before is not None and before.row == row:
                kind, after = SPARE, before
            elif before is not None and row == table.get(task.node):
                kind, after = STAY, Placement(task.status, row)
            if kind is not PIPELINE:
                del evicted[task]
            placements.append(after)
            operations.append(Operation(kind, job, task, row, job.placement(task), [], [], None, ()))
        job.arrive(tasks, placements)

    def evict(self, job: JobState, task: Task) -> None:
        """Evicts a task: what it holds is being released. On a node outside this shard no node account changes."""
        now = job.placement(task)
        column = self._release(now, task) if now.row != NOWHERE else []
        self._record(EVICT, job, task, now._replace(status=RELEASING), column)

    def evict_all(self, departures: Sequence[Departure]) -> None:
        """Evicts the tasks of all departures, in one step where the sums allow it. A simulation calls this first."""
        together = [each for each in departures if each.is_simple]
        if self._baseline is None or not all(each.is_whole for each in departures):
            together = []
        queues, are_charged = self._session.queues, False
        if together:
            self._release_all(together)
            if all(each.is_exact for each in departures):
                are_charged = queues.credit_all([(each.job.queue_row, each.cost) for each in together])
        for each in departures:
            job = each.job
            if self._baseline is not None and job not in self._jobs_before:
                self._jobs_before[job] = job.memento()
            if not together or not each.is_simple:
                for task in each.tasks:
                    self.evict(job, task)
                continue
            # Queue by queue in the order of departures: the last digit of float sums with parts of GPUs depends on the
            # order, and ties between queues are decided by exact equality.
            if not are_charged:
                queues.change_together(
                    job.queue_row, each.costs, preemptible=job.job.preemptible, sign=-1, total=each.cost
                )
            job.depart(each.after, each.sets)
            self._evicted |= each.before
            self._before |= each.before
            if not each.operations:
                # Without undo values: with a baseline, operations are only ever undone all together.
                each.operations += [
                    Operation(EVICT, job, task, before.row, before, [], [], None, before.gpu_groups)
                    for task, before in each.before.items()
                ]
            self.operations += each.operations

    def _release_all(self, departures: Sequence[Departure]) -> None:
        """Moves what all these tasks hold on nodes to `releasing`."""
        nodes = self._session.nodes
        at_cells, amounts = map(np.concatenate, zip(*[each.releasing for each in departures], strict=True))
        # `np.add.at`, not `+=`: one cell may occur several times
        np.add.at(nodes.releasing.reshape(-1), at_cells, amounts)
        promised = [each.taken_from_idle for each in departures if each.taken_from_idle is not None]
        if promised:
            self._overdraw()
            at_cells, amounts = map(np.concatenate, zip(*promised, strict=True))
            np.add.at(nodes.idle.reshape(-1), at_cells, amounts)
        for each in departures:
            nodes.log += each.rows

    def evicted_from(self, task: Task, row: NodeRow) -> tuple[str, ...]:
        """The shared GPUs that the task was evicted from, if that was on this node."""
        before = self._evicted.get(task)
        return before.gpu_groups if before is not None and before.row == row else ()

    def moves_within_a_node(self) -> bool:
        """Whether a task moves from one shared GPU to another GPU of the same node."""
        return any(
            each.kind is PIPELINE and each.task.pod_class.share is not None and self.evicted_from(each.task, each.row)
            for each in self.operations
        )

    def _release(self, placement: Placement, task: Task, *, sign: int = 1) -> Column:
        """`NodeLedger.release` of a task with this placement; `rollback` undoes that nodes are overdrawn by it."""
        if placement.status is PIPELINED:
            self._overdraw()
        return self._session.nodes.release(
            task.pod_class, placement.row, is_promised=placement.status is PIPELINED, sign=sign
        )

    def _overdraw(self) -> None:
        """Sets `nodes.overdrawn` from the next operation on; `rollback` resets it."""
        nodes = self._session.nodes
        if not nodes.overdrawn:
            nodes.overdrawn = True
            self._overdrew_at = len(self.operations)

    @property
    def length(self) -> int:
        """The number of operations, as the argument of `rollback`."""
        return len(self.operations)

    def checkpoint(self) -> Trial:
        return Trial(self, len(self.operations))

    def discard(self) -> None:
        if self._baseline is None:
            self.rollback(0)
        else:
            self._return_to(self._baseline)

    def _return_to(self, baseline: Baseline) -> None:
        """Restores the baseline in one step instead of rolling back operation by operation."""
        nodes = self._session.nodes
        for each in reversed(self.operations):
            if each.job not in self._jobs_before:
                each.job.restore(each.task, each.before)
            if each.devices is not None:
                nodes.restore_devices(each.row, each.devices)
        for job, memento in self._jobs_before.items():
            job.revert(memento)
        baseline.restore()
        # Class views may have read these rows during the simulation, so the rows are dirty again.
        nodes.log += set(nodes.log[self._log_start :])
        self._forget()

    def _forget(self) -> None:
        self.operations.clear()
        self._evicted.clear()
        self._before.clear()
        self._jobs_before.clear()
        self._overdrew_at = None

    def convert_to_pipelined(self, job: JobState) -> None:
        """Turns every placement of the job into a pipelined one: a gang that needs releasing resources starts as a
        whole.

        All operations are repeated in order, because each stores the values that it overwrote.
        """
        operations = list(self.operations)
        self.rollback(0)
        for operation in operations:
            if operation.kind is EVICT:
                self.evict(operation.job, operation.task)
            elif operation.kind is ALLOCATE and operation.job is not job:
                self.allocate(operation.job, operation.task, operation.row, operation.gpu_groups)
            else:
                self.pipeline(operation.job, operation.task, operation.row, operation.gpu_groups)

    def jobs(self) -> set[JobState]:
        """The jobs with at least one operation."""
        return {operation.job for operation in self.operations}

    def commit(self, cause_of: CauseOf | None = None) -> None:
        """Hands binds, evictions and pipelined placements to the cycle's outcome, and empties the statement."""
        session = self._session
        nodes, action = session.snapshot.nodes.nodes, session.action
        new_rows: dict[Task, NodeRow] = {}
        if self._evicted:
            new_rows = {each.task: each.row for each in self.operations if each.kind is PIPELINE}
        decided: list[decisions.Operation] = []
        lost = self._lost_gpu_hours() if self._evicted else {}
        waits: dict[JobState, bool] = {}  # whether some of the job's tasks are pipelined
        for each in self.operations:
            kind, job, task, row = each.kind, each.job, each.task, each.row
            if kind is ALLOCATE:
                decided.append(self._bind(job, task, row, each.gpu_groups))
                if job not in waits:
                    waits[job] = False
            elif kind is PIPELINE:
                decided.append(Pipeline(task, job.job, nodes[row].metadata.name, action, each.gpu_groups))
                waits[job] = True
            elif kind is EVICT and task in self._evicted:
                moves_to = nodes[new_rows[task]].metadata.name if task in new_rows else ""
                cause = cause_of(job, task, moves_to) if cause_of is not None else None
                node = nodes[row].metadata.name if row != NOWHERE else task.node
                of_job = sum(lost[job].values())
                decided.append(
                    Eviction(task, job.job, node, action, self._preemptor, cause, moves_to, lost[job][task], of_job)
                )
            elif kind is STAY:
                session.outcome.stays(task)
        session.outcome.decided(decided, evicts=bool(self._evicted))
        for job, some_wait in waits.items():
            if not some_wait:
                session.outcome.has_started(job)
        if self._evicted:
            for job in self.jobs():
                job.evictions_are_final()
        self._forget()

    def _bind(self, job: JobState, task: Task, row: NodeRow, gpu_groups: tuple[str, ...]) -> Bind:
        session, pod_class = self._session, task.pod_class
        portion = 1.0 if pod_class.share is None else session.nodes.portion(pod_class, row)
        bind = Bind(task, job.job, session.snapshot.nodes.nodes[row].metadata.name, gpu_groups, portion)
        for add_to in session.extensions.bind_details:
            bind = add_to(bind, row)
        return bind

    def _lost_gpu_hours(self) -> dict[JobState, dict[Task, float]]:
        """By job, the GPU hours that each evicted task has run and that the eviction throws away."""
        lost: dict[JobState, dict[Task, float]] = {}
        for each in self.operations:
            if each.kind is EVICT and each.task in self._evicted:
                seconds = lost_gpu_seconds(self._session.snapshot.now, each.job, each.task)
                lost.setdefault(each.job, {})[each.task] = seconds / 3600
        return lost

    def leave_in_effect(self) -> None:
        """Keeps the operations visible to later jobs of this cycle without deciding them, as a `Tentative`.

        Discards instead where listeners assign something beside the node, because those can only be undone
        immediately.
        """
        if self._assigning:
            self.discard()
            return
        session = self._session
        session.outcome.left_in_effect.append(
            Tentative(session.nodes, session.queues, self._listeners, self.operations)
        )
        for job in self.jobs():
            job.evictions_are_final()

    def fits_without_tentative_room(self) -> bool:
        """Whether the placements of this statement fit without the room that other statements left in effect.

        Nobody gets such room in the end. Extras of a gang whose minimum was left in effect would wait for pods without
        a nomination, so the preemptor itself must not depend on it either.
        """
        others = self._session.outcome.left_in_effect
        if not others:
            return True
        placed = [each.job.job for it in others for each in it.unchanged() if each.kind is PIPELINE]
        if any(job is self._preemptor for job in placed):
            return False
        everything = (self.operations, *(each.operations for each in others))
        if any(each.task.pod_class.share is not None for operations in everything for each in operations):
            return False  # room on one shared GPU is not distinguished from room on another
        made: dict[tuple[ResourceIndex, NodeRow], float] = {}
        for statement in others:
            for cell, amount in statement.room_made().items():
                made[cell] = made.get(cell, 0.0) + amount
        nodes = self._session.nodes
        return all(
            nodes.idle_at[resource, each.row]
            + nodes.releasing_at[resource, each.row]
            - made.get((resource, each.row), 0.0)
            >= 0
            for each in self.operations
            if each.kind is PIPELINE
            for resource, _ in each.task.pod_class.holds
        )

    def _record(self, kind: Kind, job: JobState, task: Task, after: Placement, column: Column) -> None:
        session, pod_class = self._session, task.pod_class
        change = session.queues.credit if kind is EVICT else session.queues.charge
        share, devices = pod_class.share, None
        ours = after.row != NOWHERE
        accounts: QueueAccounts = []
        if ours:  # a task on a node outside this shard has no row
            cost = pod_class.charge if share is None else session.nodes.cost(pod_class, after.row)
            accounts = change(job.queue_row, cost, preemptible=job.job.preemptible)
        before = job.decide(task, after)
        if share is not None and ours:
            # An evicted or spared task stays on its GPUs; only its status changes.
            out = before.status if kind is EVICT or kind is SPARE else None
            devices = session.nodes.move_on_devices(share, after.row, after.gpu_groups, out=out, into=after.status)
        if kind is EVICT:
            self._evicted[task] = self._before[task] = before
        elif kind is SPARE or kind is STAY:
            del self._evicted[task]
        self.operations.append(
            Operation(kind, job, task, after.row, before, column, accounts, devices, after.gpu_groups)
        )
        if ours:
            for listener in self._listeners:
                listener.done(kind, task, after.row)

    def rollback(self, start: int) -> None:
        """Undoes all operations after the first `start`, the newest first.

        Every value is put back as it was before, not computed by subtraction: (a + b) - b isn't always a in floats, and
        later ties compare floats for equality.
        """
        session, nodes = self._session, self._session.nodes
        while len(self.operations) > start:
            undone = self.operations.pop()
            kind, job, task, row, column = undone.kind, undone.job, undone.task, undone.row, undone.column
            if kind is EVICT:
                del self._evicted[task]
            elif kind in (SPARE, STAY):
                self._evicted[task] = self._before[task]
            job.restore(task, undone.before)
            if row == NOWHERE:
                continue
            session.queues.restore(job.queue_row, undone.accounts)
            if undone.devices is not None:
                nodes.restore_devices(row, undone.devices)
            at = nodes.idle_at if kind is ALLOCATE else nodes.releasing_at
            # Before the node's values are restored: some listeners change the same cells.
            for listener in self._listeners:
                listener.undone(kind, task, row)
            held = len(task.pod_class.holds)
            nodes.restore(at, task.pod_class, row, column[:held])
            if len(column) > held:
                nodes.restore(nodes.idle_at, task.pod_class, row, column[held:])
        if self._overdrew_at is not None and start <= self._overdrew_at:
            nodes.overdrawn, self._overdrew_at = False, None
