"""A scenario: a pending job's tasks, and the tasks of others that would be evicted for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.model.resource import QueueAmounts
from bosket.scheduler.model.task import Task


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Tasks of one job that are evicted together."""

    job: JobState
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """A preemptor's pending tasks, and the batches that would be evicted for them."""

    preemptor: JobState
    pending: tuple[Task, ...]
    batches: tuple[Batch, ...]  #: all that would go
    #: what queues hold (all of it, and by non-preemptible jobs), as of before the search
    allocated: Sequence[QueueAmounts]
    non_preemptible: Sequence[QueueAmounts]

    def victims(self) -> Iterator[tuple[JobState, Task]]:
        """Every task of the batches, once."""
        seen: set[Task] = set()
        for batch in self.batches:
            for task in batch.tasks:
                if task not in seen:
                    seen.add(task)
                    yield batch.job, task

    def by_job(self) -> dict[JobState, list[Task]]:
        result: dict[JobState, list[Task]] = {}
        for job, task in self.victims():
            result.setdefault(job, []).append(task)
        return result
