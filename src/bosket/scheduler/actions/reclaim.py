"""Reclaim: a job within its queue's fair share takes back from other queues what these hold beyond theirs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from bosket.scheduler.actions.eviction import Policy, admitted, evict_for_pending
from bosket.scheduler.framework.extension import AllOf, ScenarioValidator
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.solver.order import Entries, JobTable


def reclaim(session: Session) -> None:
    """Takes back what queues are entitled to, at the expense of others."""
    evict_for_pending(session, _Reclaim(session))


class _Reclaim(Policy):
    def is_entitled(self, job: JobState) -> bool:
        rights = self.session.reclaim_rights
        return bool(rights) and all(right(job) for right in rights)

    def candidates(self, job: JobState, running: JobTable) -> Mapping[int, Entries]:
        others = [row for row in running.by_queue if row != job.queue_row]
        return admitted(job, running, self.session.reclaim_filters, others)

    def validators(self) -> AllOf[ScenarioValidator]:
        return self.session.reclaim_validators

    def alike(self, job: JobState) -> Hashable:
        return job.queue_row
