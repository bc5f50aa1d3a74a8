"""Claims come first: room that earlier cycles made for a job is given to that job, before anybody's turn.

Where the places are as they were decided, the job gets exactly those; otherwise it takes what it finds. What is kept
for a job that was moved stays free until its pods are back. A job whose binding failed, or that isn't ready, doesn't
block others: its claim rests.
"""

from __future__ import annotations

from bosket.api.object import ObjectKey
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.placement import place_job
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.claims import Claim
from bosket.scheduler.model.task import Task, TaskStatus


def serve_claims(session: Session) -> None:
    """Places the jobs that have a claim, as far as they can be placed now."""
    claims = session.snapshot.claims
    if not claims:
        return
    waiting = {state.job.key: state for state in session.jobs.pending()}
    elsewhere = [claim for claim in claims if not _served_as_promised(session, claim, waiting)]
    for claim in elsewhere:
        job = waiting.get(claim.job)
        if job is not None:
            _serve_anywhere(session, job, claim)


def _served_as_promised(session: Session, claim: Claim, waiting: dict[ObjectKey, JobState]) -> bool:
    job = waiting.get(claim.job)
    if claim.is_return:
        if job is None:
            _keep_free(session, claim)
        return job is None
    if job is None:
        return True
    while (rows := _rows(session, job, claim)) is not None:  # the gang, then its extras
        if not _place(session, job, rows):
            return False
    return not _promised_left(job, claim)


def _rows(session: Session, job: JobState, claim: Claim) -> dict[Task, int] | None:
    """Where each of the job's next tasks was to go; None when others come next, or a node is gone."""
    nodes = {place.uid: place.node for place in claim.places}
    known = session.snapshot.nodes.rows
    rows = {task: known.get(nodes.get(task.pod.metadata.uid, "")) for task in job.next_tasks()}
    found = {task: row for task, row in rows.items() if row is not None}
    return found if found and len(found) == len(rows) else None


def _serve_anywhere(session: Session, job: JobState, claim: Claim) -> None:
    """As much as it was promised, wherever that is."""
    left = len(claim.places) if claim.is_return else _promised_left(job, claim)
    while left > 0 and (tasks := job.next_tasks()):
        left -= len(tasks)
        if not _place(session, job, None):
            return


def _promised_left(job: JobState, claim: Claim) -> int:
    promised = {place.uid for place in claim.places}
    return sum(task.pod.metadata.uid in promised for task in job.left_over())


def _place(session: Session, job: JobState, rows: dict[Task, int] | None) -> bool:
    statement = Statement(session)
    if place_job(session, statement, job, rows=rows) is not None:
        return False
    statement.commit()
    return True


def _keep_free(session: Session, claim: Claim) -> None:
    rows = session.snapshot.nodes.rows
    names = {name: place for place, name in enumerate(session.snapshot.resource_names)}
    for place in claim.places:
        if place.node in rows:
            amounts = [(names[name], amount) for name, amount in place.request if name in names]
            row = rows[place.node]
            session.nodes.reserve(row, amounts)
            if place.share is not None:
                session.nodes.move_on_devices(place.share, row, place.gpu_groups, out=None, into=TaskStatus.PIPELINED)
