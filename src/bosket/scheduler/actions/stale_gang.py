"""Stale gangs: one that has been below its minimum for longer than its grace gives its resources back."""

from __future__ import annotations

from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import Statement


def evict_stale_gangs(session: Session) -> None:
    """Marks gangs that are stale, forgets the mark of those that recovered, and evicts after the grace."""
    now = session.snapshot.now
    for job in session.snapshot.stale:
        state = session.state_of(job)
        if state is None:
            continue
        marked = job.history.stale_since
        if not state.is_stale():
            if marked is not None:
                session.recovered(job)
            continue
        since = now if marked is None else marked
        session.stale(job, since)
        grace = job.staleness_grace_seconds
        if grace is None:
            grace = session.settings.default_staleness_grace_seconds
        if grace < 0:
            continue
        if now - since < grace:
            session.look_again_at(since + grace)
            continue
        statement = Statement(session)
        for task in state.active_tasks():
            statement.evict(state, task)
        statement.commit()
