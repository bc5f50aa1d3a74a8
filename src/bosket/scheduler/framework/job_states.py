"""JobStates: the states of a session's jobs, made on first use, and which jobs are pending."""

from __future__ import annotations

from collections.abc import Iterator

from bosket.api.object import ObjectKey
from bosket.scheduler.framework.capacity import Capacity
from bosket.scheduler.framework.cycle_outcome import CycleOutcome
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.ledger import NodeLedger
from bosket.scheduler.framework.orders import Orders
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.reason import (
    NO_CODE,
    QUEUE_DOES_NOT_EXIST,
    AccessDenied,
    GatesClosed,
    JobReason,
    NotReady,
    QueueUnusable,
    SpecUnusable,
)
from bosket.scheduler.model.snapshot import Snapshot


class JobStates:
    """States by job; also the `JobContext` of the states."""

    def __init__(
        self, snapshot: Snapshot, nodes: NodeLedger, orders: Orders, capacity: Capacity, outcome: CycleOutcome
    ) -> None:
        self._snapshot, self._outcome = snapshot, outcome
        self.node_rows = snapshot.nodes.rows
        self.smallest_device_mib = snapshot.nodes.devices.smallest
        self.largest_device_mib = snapshot.nodes.devices.largest
        self.cost, self.price = nodes.cost, capacity.price
        self.in_order, self.subgroup_key = orders.in_order, orders.subgroup_key
        self._states: dict[ObjectKey, JobState] = {}
        self._candidates: list[JobState] | None = None
        self._pending: list[JobState] | None = None  # candidates that had tasks left over when they were last looked at

    def __iter__(self) -> Iterator[JobState]:
        return iter(self._states.values())

    def state(self, job: Job) -> JobState:
        """The job's state; the caller knows that its queue can hold jobs."""
        state = self._states.get(job.key)
        if state is None:
            state = self._states[job.key] = JobState(job, self, self._snapshot.queues.rows[job.queue])
        return state

    def state_of(self, job: Job) -> JobState | None:
        """The job's state; None when its queue can't hold jobs."""
        found = self._states.get(job.key)
        if found is None and self._snapshot.queues.leaf(job.queue) is not None:
            found = self.state(job)
        return found

    def known(self, job: Job) -> JobState | None:
        """The job's state; None if it was never used in this session."""
        return self._states.get(job.key)

    def candidates(self) -> list[JobState]:
        """Jobs with pending tasks that may be scheduled at all. The reasons against other jobs are recorded."""
        if self._candidates is None:
            self._candidates = self._find_candidates()
        return self._candidates

    def _find_candidates(self) -> list[JobState]:
        found: list[JobState] = []
        refused: list[tuple[Job, JobReason]] = []
        for job in self._snapshot.unsettled:
            if job.problem is None and (not job.has_waiting or job.key in self._snapshot.backing_off):
                continue
            reason = self._reason_against(job)
            if reason is not None:
                refused.append((job, reason))
            else:
                found.append(self.state(job))
        self._outcome.candidates_found(len(found), refused)
        return found

    def pending(self) -> list[JobState]:
        """Those of the candidates that still have tasks left over. Asked when an action begins.

        Decisions aren't undone: a job without pending tasks isn't looked at again.
        """
        known = self.candidates() if self._pending is None else self._pending
        pending = [state for state in known if state.has_left_over]
        if not self._outcome.left_in_effect:  # what is left in effect is taken back: its jobs then wait again
            self._pending = pending
        return pending

    def _reason_against(self, job: Job) -> JobReason | None:
        if job.problem is not None:
            return SpecUnusable(job.key, job.problem)
        if not (job.pod_sets[0] if job.is_plain else job.root).ready:
            short = next((pod_set for pod_set in job.pod_sets if not pod_set.ready), job.pod_sets[0])
            return NotReady(short.min_available, short.alive, short.gated, job.shown_name(short))
        queues = self._snapshot.queues
        unusable = queues.reason_against(job.queue)
        if unusable is not None:
            return QueueUnusable(unusable, NO_CODE if job.queue in queues.rows else QUEUE_DOES_NOT_EXIST)
        denied = self._snapshot.denied.get(job.key)
        if denied is not None:
            return AccessDenied(job.key, denied)
        return None if job.has_pending else GatesClosed(sum(pod_set.gated for pod_set in job.pod_sets))
