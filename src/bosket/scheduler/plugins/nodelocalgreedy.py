"""Plugin sg-nodelocalgreedy: scenarios with the victims of one node: for each node of the latest victim, all victims
there.

A job is never evicted in part beyond its eviction step: all of its gathered tasks are in the scenario, wherever they
are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bosket.scheduler.framework.eviction_extension import GatheredVictims
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.scenario import Batch, Scenario
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import NOWHERE


class NodeLocalGreedy:
    """Registers the generator."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        session.extensions.scenario_generators.add(_NodeLocal())


class _NodeLocal:
    name = "NodeLocalGreedy"

    def __call__(self, search: GatheredVictims) -> Iterator[Scenario]:
        batches_of: dict[JobState, list[Batch]] = {}
        for batch in search.start.batches:
            batches_of.setdefault(batch.job, []).append(batch)
        jobs_on: dict[int, dict[JobState, None]] = {}
        rows_of: dict[JobState, list[int]] = {}
        known = 0
        for _ in search.steps():
            for batch in search.potential[known:]:
                batches_of.setdefault(batch.job, []).append(batch)
                for task in batch.tasks:
                    jobs_on.setdefault(batch.job.placement(task).row, {})[batch.job] = None
            known = len(search.potential)
            if not known:
                if search.start.batches:
                    yield search.scenario(())
                continue
            seen: set[int] = set()
            last = search.potential[-1].job
            if last not in rows_of:
                rows_of[last] = _rows_of(last)
            for row in rows_of[last]:
                chosen = [batch for job in jobs_on.get(row, ()) for batch in batches_of[job]]
                tasks = search.tasks_of(chosen)
                if tasks and tasks not in seen:
                    seen.add(tasks)
                    yield search.scenario(chosen)


def _rows_of(job: JobState) -> list[int]:
    """The nodes of a job's tasks, in order of their names."""
    return sorted({job.placement(task).row for task in job.job.tasks} - {NOWHERE})
