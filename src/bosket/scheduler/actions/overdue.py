"""Overdue jobs: preemptible ones that passed a large gang, and still hold its nodes when the gang is to start.

They go, all that hold the gang's nodes or none, and the gang waits for what they release. Called by allocate, before
anybody else has a turn.
"""

from __future__ import annotations

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.placement import place_job
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.cause import Overdue
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, Task


def evict_overdue(session: Session) -> None:
    """Evicts for each gang whose time has come; one that fits all the same is left to its turn."""
    for reserver in session.extensions.reservers:
        for gang, start, jobs in reserver.overdue():
            _evict(session, gang, start, jobs)


def _evict(session: Session, gang: JobState, start: float, jobs: list[JobState]) -> None:
    statement = Statement(session, gang.job)
    if place_job(session, statement, gang) is None:
        statement.rollback(0)
        return
    tasks = [task for job in jobs for task in job.job.tasks if task.status in ACTIVE_ALLOCATED]
    if session.limits.objection(tasks) is not None:
        return
    for job in jobs:
        for task in job.job.tasks:
            if task.status in ACTIVE_ALLOCATED:
                statement.evict(job, task)
    if place_job(session, statement, gang) is not None:
        statement.rollback(0)
        return

    def cause(job: JobState, task: Task, moves_to: str) -> Overdue:
        del job, task, moves_to
        return Overdue(start)

    statement.commit(cause)
