"""Reclaim: a job within its queue's fair share evicts jobs of queues that hold more than theirs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from bosket.scheduler.actions.eviction import Policy, admitted, evict_for_pending
from bosket.scheduler.framework.eviction_extension import ScenarioValidator
from bosket.scheduler.framework.extension_points import AllOf
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import CauseOf
from bosket.scheduler.model.cause import QueueBalance, Reclaimed
from bosket.scheduler.model.queue import QueueRow, fits
from bosket.scheduler.model.resource import plus
from bosket.scheduler.model.task import Task
from bosket.scheduler.solver.order import Entries, JobTable


def reclaim(session: Session) -> None:
    """Evicts jobs of queues above their fair share for pending jobs of queues below theirs."""
    evict_for_pending(session, _Reclaim(session))


class _Reclaim(Policy):
    def is_entitled(self, job: JobState) -> bool:
        rights = self.session.extensions.reclaim_rights
        return bool(rights) and all(right(job) for right in rights)

    def candidates(self, job: JobState, running: JobTable) -> Mapping[QueueRow, Entries]:
        others = [row for row in running.by_queue if row != job.queue_row]
        return admitted(job, running, self.session.extensions.reclaim_filters, others)

    def validators(self) -> AllOf[ScenarioValidator]:
        return self.session.extensions.reclaim_validators

    def explain(self, preemptor: JobState) -> CauseOf:
        tree, fair_share = self.session.snapshot.queues, self.session.queues.fair_share
        allocated, request = self.session.queues.allocated[:], preemptor.next_request()

        def balance(row: QueueRow) -> QueueBalance:
            queue = tree.queues[row]
            return QueueBalance(queue.name, allocated[row], queue.quota, fair_share[row], queue.priority)

        known: dict[QueueRow, Reclaimed] = {}  # by the victim's queue

        def cause(victim: JobState, task: Task, moves_to: str) -> Reclaimed:
            del task, moves_to
            found = known.get(victim.queue_row)
            if found is None:
                found = known[victim.queue_row] = between(victim)
            return found

        def between(victim: JobState) -> Reclaimed:
            mine, theirs = tree.where_paths_part(preemptor.queue_row, victim.queue_row)
            within_quota = fits(plus(allocated[mine], request), tree.queues[mine].quota)
            return Reclaimed(balance(theirs), balance(mine), within_quota)

        return cause

    def alike(self, job: JobState) -> Hashable:
        return job.queue_row
