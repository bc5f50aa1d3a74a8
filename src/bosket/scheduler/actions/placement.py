"""Placing the next tasks of a job: all of them, or none. Every action that places anything does it here."""

from __future__ import annotations

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.job import PodSet
from bosket.scheduler.model.task import Task
from bosket.scheduler.reason import GangShort, JobReason, NotReady


def place_job(session: Session, statement: Statement, job: JobState) -> JobReason | None:
    """Places the job's next tasks; on failure nothing is left of the attempt, and the reason is returned."""
    tasks = job.next_tasks()
    over = session.over_capacity(job, tasks)
    if over is not None:
        return over
    with statement.checkpoint() as trial:
        placed: dict[str, int] = {}
        for task in tasks:
            row = _place_task(session, statement, job, task)
            pod_set = job.pod_set(task)
            if row is None:
                return _shortage(session, job, task, pod_set, placed.get(pod_set.name, 0))
            placed[pod_set.name] = placed.get(pod_set.name, 0) + 1
        if not job.satisfied(job.job.root):
            return _incomplete(job)
        trial.keep()
    if _must_wait(job):
        statement.convert_to_pipelined()
    return None


def _place_task(session: Session, statement: Statement, job: JobState, task: Task) -> int | None:
    row = session.view(task.pod_class).best()
    if row is None:
        return None
    if session.nodes.fits_idle(task.pod_class, row):
        statement.allocate(job, task, row)
    else:
        statement.pipeline(job, task, row)
    return row


def _must_wait(job: JobState) -> bool:
    """Whether some pod set reaches its minimum only with resources that are still being released."""
    return any(
        pipelined and job.active[pod_set.name] - pipelined < pod_set.min_available
        for pod_set in job.job.root.pod_sets()
        if (pipelined := job.pipelined(pod_set))
    )


def _incomplete(job: JobState) -> NotReady:
    """The pods there are don't make the gang, wherever they are placed."""
    short = next(each for each in job.job.root.pod_sets() if not job.satisfied(each))
    return NotReady(short.min_available, short.alive, short.gated, short.name if job.job.group.spec.subGroups else "")


def _shortage(session: Session, job: JobState, task: Task, pod_set: PodSet, placed: int) -> GangShort:
    return GangShort(
        first_failed=task.key,
        placed=placed,
        required=pod_set.min_available,
        subgroup=pod_set.name if job.job.group.spec.subGroups else "",
        because=session.view(task.pod_class).explain(),
    )
