"""Allocate: gives what is free, or is becoming free, to the jobs whose turn it is."""

from __future__ import annotations

from bosket.scheduler.actions.order import JobsByQueue
from bosket.scheduler.framework.placement import place_job
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import Statement


def allocate(session: Session) -> None:
    """Turn by turn: the gang's minimum as a whole, then extras one at a time, each time behind the others."""
    turns = JobsByQueue(session, session.candidates())
    while (job := turns.pop()) is not None:
        statement = Statement(session)
        reason = place_job(session, statement, job)
        if reason is not None:
            session.not_placed(job, reason)
            continue
        statement.commit()
        if job.next_tasks():
            turns.push(job)
