"""How much a job may take: limits bind every job, quotas bind non-preemptible ones, at every level up to the root."""

from __future__ import annotations

import numpy as np

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.ledger import requested_by
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.queue import SHARED_NAMES, UNLIMITED
from bosket.scheduler.model.resource import Vector
from bosket.scheduler.model.task import Task
from bosket.scheduler.reason import NON_PREEMPTIBLE_OVER_QUOTA, OVER_LIMIT, OverCapacity

#: From the accounts' units to those of messages: GPUs, cores, gigabytes.
SHOWN = np.array([1.0, 1 / 1000, 1 / 1e9])


class Capacity:
    """Checks a job's next tasks against its queue and all above it."""

    def __init__(self, session: Session) -> None:
        self._ledger = session.queues
        self._queues = session.snapshot.queues.queues
        count = len(self._queues)
        self._limits = np.array([queue.limit for queue in self._queues]).reshape(count, len(SHARED_NAMES))
        self._quotas = np.array([queue.quota for queue in self._queues]).reshape(count, len(SHARED_NAMES))

    def check(self, job: JobState, tasks: list[Task]) -> OverCapacity | None:
        """The first queue on the way up that has no room, and of what."""
        requested = requested_by(tasks)
        path = self._ledger.tree.paths[job.queue_row]
        over = self._first_over(OVER_LIMIT, path, self._limits, self._ledger.allocated, requested)
        if over is None and not job.job.preemptible:
            held = self._ledger.non_preemptible
            over = self._first_over(NON_PREEMPTIBLE_OVER_QUOTA, path, self._quotas, held, requested)
        return over

    def _first_over(
        self, code: str, path: np.ndarray, allowed: np.ndarray, held: np.ndarray, requested: Vector
    ) -> OverCapacity | None:
        over = (allowed[path] != UNLIMITED) & (requested > 0) & (allowed[path] < held[path] + requested)
        if not over.any():
            return None
        level, resource = (int(index[0]) for index in np.nonzero(over))
        row = path[level]
        shown = SHOWN[resource]
        return OverCapacity(
            code,
            self._queues[row].display_name,
            SHARED_NAMES[resource],
            float(allowed[row, resource] * shown),
            float(held[row, resource] * shown),
            float(requested[resource] * shown),
        )
