"""Queues: how much a job may take, and whose turn it is.

A limit binds every job, at every level from the job's queue to the root; a quota binds non-preemptible jobs. Queues of
higher priority are served first, then those that hold the smallest part of what they are entitled to.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.ledger import SHARED_PLACES, QueueLedger
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.queue import SHARED_NAMES, UNLIMITED
from bosket.scheduler.model.resource import Vector
from bosket.scheduler.model.task import Task
from bosket.scheduler.reason import NON_PREEMPTIBLE_OVER_QUOTA, OVER_LIMIT, OverCapacity

#: From the accounts' units to those of messages: GPUs, cores, gigabytes.
SHOWN = np.array([1.0, 1 / 1000, 1 / 1e9])


class Proportion:
    """Capacity checks and queue order."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        shares = _Shares(session)
        session.capacity_checks.add(shares.over_capacity)
        session.queue_order.add(shares.by_priority)
        session.queue_order.add(shares.by_dominant_share)


class _Shares:
    def __init__(self, session: Session) -> None:
        self._ledger: QueueLedger = session.queues
        self._queues = session.snapshot.queues.queues
        total = session.snapshot.nodes.allocatable[SHARED_PLACES].sum(axis=1)
        count = len(self._queues)
        self._limits = np.array([queue.limit for queue in self._queues]).reshape(count, len(SHARED_PLACES))
        self._quotas = np.array([queue.quota for queue in self._queues]).reshape(count, len(SHARED_PLACES))
        #: what a share is measured against: the quota, or the whole cluster where there is none
        self._entitled = np.where(self._quotas > 0, self._quotas, np.maximum(total, 1.0))

    def over_capacity(self, job: JobState, tasks: list[Task]) -> OverCapacity | None:
        requested = _requested(tasks)
        path = self._ledger.tree.paths[job.queue_row]
        over = self._first_over(OVER_LIMIT, path, self._limits, self._ledger.allocated, requested)
        if over is None and not job.job.preemptible:
            over = self._first_over(
                NON_PREEMPTIBLE_OVER_QUOTA, path, self._quotas, self._ledger.non_preemptible, requested
            )
        return over

    def _first_over(
        self, code: str, path: np.ndarray, allowed: np.ndarray, held: np.ndarray, requested: Vector
    ) -> OverCapacity | None:
        over = (allowed[path] != UNLIMITED) & (requested > 0) & (allowed[path] < held[path] + requested)
        if not over.any():
            return None
        level, resource = (int(index[0]) for index in np.nonzero(over))
        row = path[level]
        return OverCapacity(
            code,
            self._queues[row].display_name,
            SHARED_NAMES[resource],
            *(
                float(value * SHOWN[resource])
                for value in (allowed[row, resource], held[row, resource], requested[resource])
            ),
        )

    def by_priority(self, left: int, right: int, left_job: JobState, right_job: JobState) -> float:
        del left_job, right_job
        return self._queues[right].priority - self._queues[left].priority

    def by_dominant_share(self, left: int, right: int, left_job: JobState, right_job: JobState) -> float:
        return self._dominant_share(left, left_job) - self._dominant_share(right, right_job)

    def _dominant_share(self, row: int, job: JobState) -> float:
        held = self._ledger.allocated[row] + _requested(job.next_tasks())
        return float((held / self._entitled[row]).max())


def _requested(tasks: list[Task]) -> Vector:
    total = np.zeros(len(SHARED_PLACES))
    for task in tasks:
        total += task.pod_class.request[SHARED_PLACES]
    return total
