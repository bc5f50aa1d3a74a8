"""Capacity checks: limits bind every job, quotas bind non-preemptible ones, at every level up to the root."""

from __future__ import annotations

from collections.abc import Sequence

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.queue import UNLIMITED, QueueRow
from bosket.scheduler.model.reason import NON_PREEMPTIBLE_OVER_QUOTA, OVER_LIMIT, OverCapacity
from bosket.scheduler.model.resource import QUEUE_RESOURCE_NAMES, QueueAmounts

UNBOUNDED = (UNLIMITED, UNLIMITED, UNLIMITED)
#: Units of messages (GPUs, cores, gigabytes) in units of the accounts.
SHOWN = (1.0, 1 / 1000, 1 / 1e9)


class Capacity:
    """Checks the request of a job's next tasks against its queue and all ancestors."""

    def __init__(self, session: Session) -> None:
        self._ledger = session.queues
        self._queues = session.snapshot.queues.queues
        self._limits = [queue.limit for queue in self._queues]
        self._quotas = [queue.quota for queue in self._queues]
        self._limited: dict[QueueRow, tuple[QueueRow, ...]] = {}  # by leaf: the queues up to the root that have a limit

    def check(self, job: JobState, requested: QueueAmounts) -> OverCapacity | None:
        """The reason of the first queue on the way up without room; None if all have room."""
        leaf, over = job.queue_row, None
        limited = self._limited.get(leaf)
        if limited is None:
            path = self._ledger.tree.paths[leaf]
            limited = self._limited[leaf] = tuple(row for row in path if self._limits[row] != UNBOUNDED)
        if limited:
            over = self._first_over(OVER_LIMIT, limited, self._limits, self._ledger.allocated, requested)
        if over is None and not job.job.preemptible:
            path, held = self._ledger.tree.paths[leaf], self._ledger.non_preemptible
            over = self._first_over(NON_PREEMPTIBLE_OVER_QUOTA, path, self._quotas, held, requested)
        return over

    def _first_over(
        self,
        code: str,
        path: tuple[QueueRow, ...],
        allowed: Sequence[QueueAmounts],
        held: Sequence[QueueAmounts],
        requested: QueueAmounts,
    ) -> OverCapacity | None:
        for row in path:
            if allowed[row] == UNBOUNDED:
                continue
            for resource, (most, has, more) in enumerate(zip(allowed[row], held[row], requested, strict=True)):
                if most != UNLIMITED and more > 0 and most < has + more:
                    shown = SHOWN[resource]
                    name, unit = self._queues[row].display_name, QUEUE_RESOURCE_NAMES[resource]
                    return OverCapacity(code, name, unit, most * shown, has * shown, more * shown)
        return None
