"""Stale gangs: a gang that is below its minimum for longer than its grace period is evicted."""

from __future__ import annotations

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.cause import GangBroken
from bosket.scheduler.model.decisions import StaleGang
from bosket.scheduler.model.task import Task


def evict_stale_gangs(session: Session) -> None:
    """Records which gangs are stale and which recovered, and evicts after the grace period."""
    session.outcome.take_back()  # else a gang would seem complete that isn't
    session.outcome.jobs_seen = len(session.snapshot.stale)
    for job in session.snapshot.stale:
        state = session.jobs.state_of(job)
        if state is None:
            continue
        if state.is_stale():
            _handle(session, state)
        elif job.history.stale_since is not None:
            session.outcome.recovered.append(job)


def _handle(session: Session, state: JobState) -> None:
    job, now = state.job, session.snapshot.now
    since = now if job.history.stale_since is None else job.history.stale_since
    grace = job.staleness_grace_seconds
    if grace is None:
        grace = session.settings.default_staleness_grace_seconds
    is_due = 0 <= grace <= now - since
    tasks = state.active_tasks() if is_due else []
    refused = session.limits.objection(tasks)
    session.outcome.stale.append(StaleGang(job, since, is_due, refused))
    if not is_due and grace >= 0:
        session.outcome.consider_again_at(since + grace)
    if refused is not None:
        return  # all of it goes, or nothing

    def cause(state: JobState, task: Task, moves_to: str) -> GangBroken:
        del moves_to
        pod_set = state.pod_set(task)
        return GangBroken(pod_set.min_available, job.shown_name(pod_set), grace)

    statement = Statement(session)
    for task in tasks:
        statement.evict(state, task)
    statement.commit(cause)
