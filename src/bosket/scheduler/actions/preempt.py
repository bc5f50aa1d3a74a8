"""Preempt: inside a queue, a job preempts jobs of lower priority."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from bosket.scheduler.actions.eviction import Policy, admitted, evict_for_pending
from bosket.scheduler.framework.eviction_extension import ScenarioValidator
from bosket.scheduler.framework.extension_points import AllOf
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import CauseOf
from bosket.scheduler.model.cause import Preempted
from bosket.scheduler.model.queue import QueueRow
from bosket.scheduler.model.reason import NON_PREEMPTIBLE_OVER_QUOTA
from bosket.scheduler.solver.order import Entries, JobTable


def preempt(session: Session) -> None:
    """Preempts jobs for pending jobs of higher priority in the same queue."""
    evict_for_pending(session, _Preempt(session))


class _Preempt(Policy):
    def has_a_chance(self, job: JobState) -> bool:
        over = self.session.capacity.objection(job)
        return over is None or over.code != NON_PREEMPTIBLE_OVER_QUOTA

    def candidates(self, job: JobState, running: JobTable) -> Mapping[QueueRow, Entries]:
        found = admitted(job, running, self.session.extensions.preempt_filters, [job.queue_row])
        priority = job.job.priority
        return {
            row: [entry for entry in entries if entry[1].job.priority < priority and entry[1] is not job]
            for row, entries in found.items()
        }

    def validators(self) -> AllOf[ScenarioValidator]:
        return self.session.extensions.preempt_validators

    def explain(self, preemptor: JobState) -> CauseOf:
        job = preemptor.job
        return lambda victim, _task, _moves_to: Preempted(job.queue, job.priority, victim.job.priority)

    def alike(self, job: JobState) -> Hashable:
        return job.queue_row
