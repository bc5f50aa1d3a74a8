"""Nominations are served before all other jobs: nodes that earlier cycles freed for a job are given to that job.

The job's tasks go exactly to the nominated nodes where these still have room, otherwise wherever they fit. Room for a
job that was moved is kept until its new pods exist. A job that backs off after a failed bind, or isn't ready, doesn't
block others: its nomination isn't served in this cycle.
"""

from __future__ import annotations

from bosket.api.object import ObjectKey
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.placement import place_job
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.nomination import Nomination
from bosket.scheduler.model.resource import all_resources
from bosket.scheduler.model.task import Task, TaskStatus


def serve_nominations(session: Session) -> None:
    """Places the tasks of nominated jobs, as far as they fit now."""
    nominations = session.snapshot.nominations
    if not nominations:
        return
    waiting = {state.job.key: state for state in session.jobs.pending()}
    elsewhere = [each for each in nominations if not _served_on_nodes(session, each, waiting)]
    for nomination in elsewhere:
        job = waiting.get(nomination.job)
        if job is not None:
            _serve_anywhere(session, job, nomination)


def _served_on_nodes(session: Session, nomination: Nomination, waiting: dict[ObjectKey, JobState]) -> bool:
    """Tries to place the job on its nominated nodes; whether nothing of the nomination is left to serve."""
    job = waiting.get(nomination.job)
    if nomination.is_return:
        if job is None:
            _keep_free(session, nomination)
        return job is None
    if job is None:
        return True
    while (rows := _rows(session, job, nomination)) is not None:  # the gang, then its extras
        if not _place(session, job, rows):
            return False
    return not _tasks_left(job, nomination)


def _rows(session: Session, job: JobState, nomination: Nomination) -> dict[Task, NodeRow] | None:
    """Node rows nominated for the job's next tasks; None when other tasks come next, or a node is gone."""
    nodes = {each.uid: each.node for each in nomination.pods}
    known = session.snapshot.nodes.rows
    rows = {task: known.get(nodes.get(task.pod.metadata.uid, "")) for task in job.next_tasks()}
    found = {task: row for task, row in rows.items() if row is not None}
    return found if found and len(found) == len(rows) else None


def _serve_anywhere(session: Session, job: JobState, nomination: Nomination) -> None:
    """Places as many tasks as were nominated, on any nodes."""
    left = len(nomination.pods) if nomination.is_return else _tasks_left(job, nomination)
    while left > 0 and (tasks := job.next_tasks()):
        left -= len(tasks)
        if not _place(session, job, None):
            return


def _tasks_left(job: JobState, nomination: Nomination) -> int:
    nominated = {each.uid for each in nomination.pods}
    return sum(task.pod.metadata.uid in nominated for task in job.left_over())


def _place(session: Session, job: JobState, rows: dict[Task, NodeRow] | None) -> bool:
    statement = Statement(session)
    if place_job(session, statement, job, rows=rows) is not None:
        return False
    statement.commit()
    return True


def _keep_free(session: Session, nomination: Nomination) -> None:
    rows = session.snapshot.nodes.rows
    names = session.snapshot.resource_names
    indexes = dict(zip(names, all_resources(names), strict=True))
    for each in nomination.pods:
        if each.node in rows:
            amounts = [(indexes[name], amount) for name, amount in each.request if name in indexes]
            row = rows[each.node]
            session.nodes.reserve(row, amounts)
            if each.share is not None:
                session.nodes.move_on_devices(each.share, row, each.gpu_groups, out=None, into=TaskStatus.PIPELINED)
