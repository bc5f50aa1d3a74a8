"""Allocate: gives what is free, or is becoming free, to the jobs whose turn it is."""

from __future__ import annotations

from dataclasses import replace

from bosket.scheduler.actions.order import JobsByQueue
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.placement import place_job
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.reason import GangShort, JobReason


def allocate(session: Session) -> None:
    """Turn by turn: the gang's minimum as a whole, then extras one at a time, each time behind the others."""
    turns = JobsByQueue(session, session.candidates())
    shortages = _Shortages(session)
    while (job := turns.pop()) is not None:
        statement = Statement(session)
        reason = shortages.recall(job) or place_job(session, statement, job)
        if reason is not None:
            shortages.remember(job, reason)
            session.not_placed(job, reason)
            continue
        statement.commit()
        if job.has_left_over and job.next_tasks():
            turns.push(job)


class _Shortages:
    """What wasn't there for a gang isn't there for the next one of the same make, until something else is placed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[tuple[PodClass, int], GangShort] = {}
        self._version = session.version

    def recall(self, job: JobState) -> JobReason | None:
        if self._version != self._session.version:
            self._version = self._session.version
            self._known.clear()
        alike = job.next_alike() if self._known else None
        found = self._known.get(alike) if alike is not None else None
        if found is None:
            return None
        over = self._session.over_capacity(job)
        if over is not None:
            return over
        (pod_set,) = job.job.pod_sets
        return replace(
            found,
            first_failed=pod_set.pending[0].key,
            required=pod_set.min_available,
            subgroup=job.job.shown_name(pod_set),
        )

    def remember(self, job: JobState, reason: JobReason) -> None:
        alike = job.next_alike()
        if alike is not None and isinstance(reason, GangShort):
            self._known.setdefault(alike, reason)
