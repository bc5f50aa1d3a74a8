"""Placement of the next tasks of a job: all of them or none. Actions and simulations place tasks only here."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.devices import choose_devices
from bosket.scheduler.framework.extension import HeldNodes, NodeSubsets, Scores
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.job import PodSet, SubGroupSet
from bosket.scheduler.model.node import Mask, NodeRow
from bosket.scheduler.model.reason import GangShort, JobReason, NodesRefused, NotReady, PodUnfit
from bosket.scheduler.model.task import Task


def place_job(
    session: Session,
    statement: Statement,
    job: JobState,
    *,
    on: Mask | None = None,
    rows: Mapping[Task, NodeRow] | None = None,
    real: bool = True,
) -> JobReason | None:
    """Places the job's next tasks. On failure the statement is as before, and the reason is returned.

    `on`: the nodes that may be used, all by default; `rows`: one node for each task. In a simulation (`real=False`)
    every placement is pipelined, because the victims must terminate first.
    """
    over = session.capacity.objection(job)
    if over is not None:
        return over
    tasks = job.next_tasks()
    if not tasks:
        return _incomplete(job)
    held = session.held_from(job, tasks) if rows is None else None
    if held is not None:
        on = held.on if on is None else on & held.on
    failed: JobReason | None
    start = statement.length  # a checkpoint object would cost more, and most jobs have one pod
    if job.is_constrained and rows is None:
        failed = _Together(session, statement, job, real=real).place(job.job.root, tasks, on)
        if failed is not None and session.outcome.ignores_estimates(job):
            statement.rollback(start)
            if _place_by_plan(session, statement, job, tasks, on=on, real=real):
                failed = None
    else:
        failed = _place_tasks(session, statement, job, tasks, on=on, rows=rows, real=real)
    if failed is None and real and not job.is_satisfied():
        failed = _incomplete(job)
    if failed is not None:
        statement.rollback(start)
        return failed if held is None else _with_objection(failed, held)
    if real and _must_wait(job):
        statement.convert_to_pipelined(job)
    return None


def place_single(session: Session, statement: Statement, job: JobState) -> bool:
    """Places and decides a job that lacks one pod, if the job is plain and the pod fits into idle resources.

    Equals `place_job` and `commit`, for half the cost. Returns False, with nothing changed, whenever the general path
    might do or report more; the statement is empty before and after.
    """
    alike = job.next_alike()
    if (
        session.extensions.reservers
        or alike is None
        or alike[1] != 1
        or not job.job.is_plain
        or session.capacity.objection(job) is not None
    ):
        return False
    (task,) = job.next_tasks()
    pod_class = task.pod_class
    if session.unfit(task) is not None or (
        pod_class.share is not None and session.capacity.over_capacity_by_size(job, task)
    ):
        return False
    row = session.views.of(pod_class).best()
    if row is None:
        return False
    groups: tuple[str, ...] = ()
    if pod_class.share is not None:
        groups, waits = _devices(session, statement, task, row)
    else:
        waits = not session.is_free_now(pod_class, row)
    if not waits:
        statement.allocate_for_good(job, task, row, groups)
    return not waits


def _place_by_plan(
    session: Session, statement: Statement, job: JobState, tasks: list[Task], *, on: Mask | None, real: bool
) -> bool:
    """Places the tasks where a placement plan of a plugin says; False if there is no such plan. On failure some tasks
    may stay placed: the caller rolls back."""
    everywhere = np.ones(len(session.snapshot.nodes), dtype=bool) if on is None else on
    for plan in session.extensions.placement_plans:
        if plan.concerns(job) and (rows := plan.find(job, tasks, everywhere)) is not None:
            return _place_tasks(session, statement, job, list(rows), on=None, rows=rows, real=real) is None
    return False


def _place_tasks(
    session: Session,
    statement: Statement,
    job: JobState,
    tasks: list[Task],
    *,
    on: Mask | None,
    real: bool,
    rows: Mapping[Task, NodeRow] | None = None,
    bonus: Scores | None = None,
) -> JobReason | None:
    # Not for constrained jobs: their parts are rolled back one by one, and `pipeline_all` can only be undone as a
    # whole.
    is_simple = not real and rows is None and not job.is_constrained and session.views.of(tasks[0].pod_class).is_local
    if is_simple and statement.may_place_together(tasks):
        return _place_together(session, statement, job, tasks, on)
    # A gang in a rack uses few nodes: indexing these is cheaper than masking all.
    few = _few(on) if rows is None else None
    # Simulations have `_place_together` instead.
    in_runs = real and rows is None and len(tasks) > 1 and statement.takes_many
    number = end = 0  # `end`: the end of the run of equal tasks
    while number < len(tasks):
        task = tasks[number]
        unfit = session.unfit(task)
        if unfit is not None:
            return _shortage(job, tasks, number, PodUnfit(unfit))
        pod_class = task.pod_class
        view = session.views.of(pod_class)
        usable = on if rows is None else _only(session, rows[task])
        over_capacity = session.capacity.over_capacity_by_size(job, task) if pod_class.share is not None else None
        if over_capacity:
            cheap = ~session.nodes.shared.of_size(over_capacity)
            usable = cheap if usable is None else usable & cheap
        row = view.best(usable, bonus) if few is None or over_capacity else view.best_of(few, bonus)
        if row is None:
            return _shortage(job, tasks, number, view.explain(over_capacity) if real else NodesRefused({}))
        groups: tuple[str, ...] = ()
        if pod_class.share is not None:
            groups, waits = _devices(session, statement, task, row)
        else:
            waits = not session.is_free_now(pod_class, row)
        # `packs` guarantees that the scores would choose the same node again until it is full.
        if in_runs and not waits and view.packs and pod_class.share is None:
            end = end if end > number else _end_of_run(session, job, tasks, number)
            number += statement.allocate_many(job, tasks, number, end, row)
            continue
        if real and not waits:
            statement.allocate(job, task, row, groups)
        else:
            statement.pipeline(job, task, row, groups)
        number += 1
    return None


def _place_together(
    session: Session, statement: Statement, job: JobState, tasks: list[Task], on: Mask | None
) -> JobReason | None:
    """The same for equal tasks in a simulation: the nodes of all tasks are found first, then recorded in one step."""
    for number, task in enumerate(tasks):
        unfit = session.unfit(task)
        if unfit is not None:
            return _shortage(job, tasks, number, PodUnfit(unfit))
    found = session.views.of(tasks[0].pod_class).fill(statement.homes(tasks), on)
    if found is None:
        return _shortage(job, tasks, 0, NodesRefused({}))
    statement.pipeline_all(job, tasks, found)
    return None


def _end_of_run(session: Session, job: JobState, tasks: list[Task], start: int) -> int:
    """The end of the run of placeable tasks of one class and one pod set, from `start` on."""
    pod_class, pod_set = tasks[start].pod_class, job.state_of(tasks[start])
    for number in range(start + 1, len(tasks)):
        task = tasks[number]
        if task.pod_class is not pod_class or job.state_of(task) is not pod_set or session.unfit(task) is not None:
            return number
    return len(tasks)


def _devices(session: Session, statement: Statement, task: Task, row: NodeRow) -> tuple[tuple[str, ...], bool]:
    """The shared GPUs for a task on a node, and whether some of their memory is still being released."""
    choice = choose_devices(session, task.pod_class, row)
    assert choice is not None, "the node has been found to have enough of them"
    own = statement.evicted_from(task, row)
    if own and choice.would_do(own, session.nodes.shared.on(row)):
        return own, choice.waits
    return choice.names(session, task, row), choice.waits


class _Together:
    """Places a constrained job sub-group by sub-group, each within one of the sets of nodes that the topology
    allows."""

    def __init__(self, session: Session, statement: Statement, job: JobState, *, real: bool) -> None:
        self._session, self._statement, self._job, self._real = session, statement, job, real

    def place(
        self, part: PodSet | SubGroupSet, tasks: list[Task], on: Mask | None, bonus: Scores | None = None
    ) -> JobReason | None:
        if not tasks:
            return None
        everywhere = np.ones(len(self._session.snapshot.nodes), dtype=bool) if on is None else on
        choice = self._choose(part, tasks, everywhere)
        if choice is None:
            return self._place_members(part, tasks, on, bonus)
        if not isinstance(choice, NodeSubsets):
            return choice
        scores = choice.scores if choice.scores is not None else bonus
        first: JobReason | None = None
        for nodes in choice.masks:
            with self._statement.checkpoint() as trial:
                failed = self._place_members(part, tasks, nodes, scores)
                if failed is None:
                    trial.keep()
                    return None
                first = first or failed
        return first

    def _choose(self, part: PodSet | SubGroupSet, tasks: list[Task], on: Mask) -> NodeSubsets | JobReason | None:
        for choose in self._session.extensions.node_subsets:
            choice = choose(self._job, part, tasks, on)
            if choice is not None:
                return choice
        return None

    def _place_members(
        self, part: PodSet | SubGroupSet, tasks: list[Task], on: Mask | None, bonus: Scores | None
    ) -> JobReason | None:
        if isinstance(part, PodSet):
            return _place_tasks(self._session, self._statement, self._job, tasks, on=on, real=self._real, bonus=bonus)
        for member in sorted(part.children, key=self._session.orders.subgroup_key(self._job)):
            names = {pod_set.name for pod_set in member.pod_sets()}
            mine = [task for task in tasks if self._job.pod_set(task).name in names]
            failed = self.place(member, mine, on, bonus)
            if failed is not None:
                return failed
        return None


def _few(on: Mask | None) -> NDArray[np.intp] | None:
    """The rows that may be used, if looking at them alone is cheaper than looking at all nodes; else None."""
    rows = np.flatnonzero(on) if on is not None else None
    return rows if on is not None and rows is not None and len(rows) * 2 < len(on) else None


def _only(session: Session, row: NodeRow) -> Mask:
    nodes = np.zeros(len(session.snapshot.nodes), dtype=bool)
    nodes[row] = True
    return nodes


def _with_objection(failed: JobReason, held: HeldNodes) -> JobReason:
    """The reason, with the nodes that are held for others among those that refuse the gang."""
    if not isinstance(failed, GangShort) or not isinstance(failed.because, NodesRefused):
        return failed
    because = msgspec.structs.replace(
        failed.because, by_reason={**failed.because.by_reason, held.objection: int((~held.on).sum())}
    )
    return msgspec.structs.replace(failed, because=because)


def _must_wait(job: JobState) -> bool:
    """Whether some pod set reaches its minimum only with resources that are being released."""
    for pod_set in job.job.pod_sets:
        state = job.in_set(pod_set)
        if state.pipelined and state.active - state.pipelined < state.minimum:
            return True
    return False


def _incomplete(job: JobState) -> NotReady:
    """The reason that the existing pods don't make the gang, wherever they are placed."""
    short = next((each for each in job.job.pod_sets if not (each.ready or job.satisfied(each))), job.job.pod_sets[0])
    return NotReady(short.min_available, short.alive, short.gated, job.job.shown_name(short))


def _shortage(job: JobState, tasks: list[Task], failed: int, because: NodesRefused | PodUnfit) -> GangShort:
    task = tasks[failed]
    pod_set = job.pod_set(task)
    # Of equal pods the first by name is named: the text must not depend on the path by which the shortage was found,
    # because a changed text is written to the API server.
    named = pod_set.pending[0] if not failed and job.next_alike() is not None else task
    return GangShort(
        first_failed=named.key,
        placed=sum(job.pod_set(each) is pod_set for each in tasks[:failed]),
        required=pod_set.min_available,
        subgroup=job.job.shown_name(pod_set),
        because=because,
    )
