"""Allocate: places pending jobs on resources that are free or being released."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from bosket.scheduler.actions.nominations import serve_nominations
from bosket.scheduler.actions.overdue import evict_overdue
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
    """Serves nominations, then jobs in order: the gang's minimum first, then extras one at a time, each time behind the
    other jobs."""
    evict_overdue(session)
    serve_nominations(session)
    waiting = session.jobs.pending()
    shortages = _Shortages(session)
    # With a queue depth the order decides which jobs are tried at all, so the shortcut would report others.
    if session.queue_depth is None and (refused := shortages.of_all(waiting)) is not None:
        session.outcome.jobs_seen += len(refused)
        for state, why in refused:
            session.outcome.not_placed(state, why)
        return
    turns, statement = JobsByQueue(session, waiting), Statement(session)
    while (job := turns.pop()) is not None:
        reason = shortages.recall(job)
        # The short path says no without a reason; the general path then finds the reason, or places the job after all.
        if reason is None and not place_single(session, statement, job):
            reason = place_job(session, statement, job)
            if reason is None:
                statement.commit()
            else:
                shortages.remember(job, reason)
        if reason is not None:
            session.outcome.not_placed(job, reason)
            continue
        # Extras wait for their next turn, so that minima of other jobs come first.
        if job.has_left_over and job.next_tasks():
            turns.push(job)


def allocate_what_is_left(session: Session) -> None:
    """At the end of the cycle: tries again the jobs that KAI's estimates refuse, now by what really fits.

    Jobs that still wait are passed over: from the next cycle on KAI's estimates are ignored in their turn, and in
    searches for victims. Every job that KAI would serve in this cycle has been served before.
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
    """Whether the topology has domains with enough GPUs for the job, if no other pod were there."""
    return DomainRoom(session, job, job.next_tasks(), at_best=True).suffices()


class _Shortages:
    """Remembers which jobs had no room: equal jobs aren't tried again until something else is placed.

    Also refuses jobs that ask for more than any node has (`Room`).
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        #: by class, number, and the kind of held nodes that such jobs are kept from
        self._known: dict[tuple[PodClass, int, Hashable], GangShort] = {}
        self._room: Room | None = None
        self._version = session.outcome.version

    def of_all(self, jobs: Iterable[JobState]) -> list[tuple[JobState, JobReason]] | None:
        """The reason of every job, if none of them can be placed; None if one might.

        In a full cluster the order of jobs doesn't matter then, which takes a third off a cycle with a thousand waiting
        gangs.
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
            return None  # a reason that concerns the pod itself says more than one about nodes
        if self._room is None:
            self._room = Room(self._session)
        return self._room.refusal(pod_class)
