"""The jobs of a queue that wait for their turn after a cycle, in the order in which it comes."""

from __future__ import annotations

from bosket.api.object import ObjectKey
from bosket.scheduler.model.decisions import Decisions, Eviction
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.snapshot import Snapshot


class Line:
    """Waiting jobs by queue. Those that lack pods, or can't be scheduled by their own spec, aren't in it."""

    def __init__(self, snapshot: Snapshot, decisions: Decisions) -> None:
        self._snapshot, self._decisions = snapshot, decisions
        self._waiting: dict[str, list[Job]] | None = None
        self._ordered: dict[str, tuple[Job, ...]] = {}
        self._positions: dict[ObjectKey, int] = {}

    def of(self, queue: str) -> tuple[Job, ...]:
        """The waiting jobs of a leaf queue, the next one first."""
        found = self._ordered.get(queue)
        if found is None:
            if self._waiting is None:
                self._waiting = self._find_waiting()
            found = tuple(sorted(self._waiting.get(queue, ()), key=self._decisions.job_key))
            self._ordered[queue] = found
            self._positions |= {job.key: number for number, job in enumerate(found)}
        return found

    def ahead_of(self, job: Job) -> int | None:
        """How many jobs of its queue are ahead of it; None for a job that isn't in line."""
        self.of(job.queue)
        return self._positions.get(job.key)

    def _find_waiting(self) -> dict[str, list[Job]]:
        snapshot, outcome = self._snapshot, self._decisions.outcome
        placed = {each.job.key for each in outcome.values() if not isinstance(each, Eviction)}
        found: dict[str, list[Job]] = {}
        for job in snapshot.jobs.values():
            if not job.has_pending or job.problem is not None or job.key in snapshot.denied or not job.root.ready:
                continue
            if snapshot.queues.leaf(job.queue) is None:
                continue
            if job.key in placed and all(
                not isinstance(outcome.get(task), Eviction | None) for each in job.pod_sets for task in each.pending
            ):
                continue
            found.setdefault(job.queue, []).append(job)
        return found
