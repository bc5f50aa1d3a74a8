"""Allocate: gives what is free, or is becoming free, to the jobs whose turn it is."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from bosket.scheduler.actions.nominations import serve_nominations
from bosket.scheduler.framework.job_order import JobsByQueue
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.placement import place_job, place_single
from bosket.scheduler.framework.room import Room
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.reason import GangShort, JobReason, NodesRefused, TopologyUnsatisfied
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.solver.domain_room import DomainRoom

ALLOCATE = "allocate"


def allocate(session: Session) -> None:
    """Claims first. Then turn by turn: the gang's minimum, then extras one at a time, each time behind the others."""
    serve_nominations(session)
    waiting = session.jobs.pending()
    shortages = _Shortages(session)
    if session.queue_depth is None and (refused := shortages.of_all(waiting)) is not None:
        session.outcome.jobs_seen += len(refused)
        for state, why in refused:
            session.outcome.not_placed(state, why)
        return
    turns, statement = JobsByQueue(session, waiting), Statement(session)
    while (job := turns.pop()) is not None:
        reason = shortages.recall(job)
        if reason is None and not place_single(session, statement, job):
            reason = place_job(session, statement, job)
            if reason is None:
                statement.commit()
            else:
                shortages.remember(job, reason)
        if reason is not None:
            session.outcome.not_placed(job, reason)
            continue
        if job.has_left_over and job.next_tasks():
            turns.push(job)


def allocate_what_is_left(session: Session) -> None:
    """At the end of the cycle: jobs that KAI's estimates keep waiting are judged by what really fits.

    Jobs that still wait are passed over: from the next cycle on they have their turn with all other jobs, and victims
    are searched for on their behalf. In this cycle every job that KAI serves has been served before them.
    """
    late = [job for job in session.jobs.candidates() if _is_worth_another_try(session, job)]
    if not late:
        return
    with session.timer("action again", ALLOCATE):
        session.action = ALLOCATE
        session.outcome.take_back()
        _try_again(session, late)
    session.outcome.end_step("allocate again")


def _try_again(session: Session, late: list[JobState]) -> None:
    for each in late:
        session.outcome.ignore_estimates(each)
    turns, statement = JobsByQueue(session, late), Statement(session)
    while (job := turns.pop()) is not None:
        reason = place_job(session, statement, job)
        if reason is None:
            statement.commit()
            session.outcome.placed_after_all(job)
            if job.has_left_over and job.next_tasks():
                turns.push(job)
        elif isinstance(reason, GangShort | TopologyUnsatisfied) and _may_fit(session, job):
            session.outcome.pass_over(job.job)


def _is_worth_another_try(session: Session, job: JobState) -> bool:
    if not job.is_constrained or not job.has_left_over or job.was_evicted or session.outcome.ignores_estimates(job):
        return False
    return any(plan.concerns(job) for plan in session.extensions.placement_plans)


def _may_fit(session: Session, job: JobState) -> bool:
    """Whether domains have the GPUs for it, if nobody else were there."""
    return DomainRoom(session, job, job.next_tasks(), at_best=True).suffices()


class _Shortages:
    """What wasn't there for a gang isn't there for the next one of the same make, until something else is placed.

    Nor is it there for one of another make that asks for more than any node has.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        #: by class, number, and the kind of held nodes that such jobs are kept from
        self._known: dict[tuple[PodClass, int, Hashable], GangShort] = {}
        self._room: Room | None = None
        self._version = session.outcome.version

    def of_all(self, jobs: Iterable[JobState]) -> list[tuple[JobState, JobReason]] | None:
        """Why each of them has to wait, if not one can be placed: in a full cluster it doesn't matter whose turn it is.

        None when one of them might be. That takes a third off a cycle with a thousand gangs that wait.
        """
        found: list[tuple[JobState, JobReason]] = []
        for job in jobs:
            reason = self._reason_against(job)
            if reason is None:
                return None
            found.append((job, reason))
        return found

    def recall(self, job: JobState) -> JobReason | None:
        if self._version != self._session.outcome.version:
            self._version = self._session.outcome.version
            self._known.clear()
            self._room = None
        return self._reason_against(job) if self._known else None

    def _reason_against(self, job: JobState) -> JobReason | None:
        alike = job.next_alike()
        if alike is None:
            return None
        (pod_set,) = job.job.pod_sets
        found = self._known.get((*alike, None))
        if found is None and (kind := self._held_from(job)) is not None:
            found = self._known.get((*alike, kind))
        placed, because = (found.placed, found.because) if found else (0, self._refusal(job, alike[0]))
        if because is None:
            return None
        over = self._session.capacity.objection(job)
        if over is not None:
            return over
        first, subgroup = pod_set.pending[0].key, job.job.shown_name(pod_set)
        reason = GangShort(first, placed, pod_set.min_available, subgroup, because)
        self._known.setdefault((*alike, None), reason)
        return reason

    def remember(self, job: JobState, reason: JobReason) -> None:
        alike = job.next_alike()
        if alike is not None and isinstance(reason, GangShort) and isinstance(reason.because, NodesRefused):
            self._known.setdefault((*alike, self._held_from(job)), reason)

    def _held_from(self, job: JobState) -> Hashable:
        held = self._session.held_from(job, job.next_tasks())
        return None if held is None else held.kind

    def _refusal(self, job: JobState, pod_class: PodClass) -> NodesRefused | None:
        if self._session.unfit(job.job.pod_sets[0].pending[0]) is not None:
            return None  # that says more than the nodes do
        if self._room is None:
            self._room = Room(self._session)
        return self._room.refusal(pod_class)
