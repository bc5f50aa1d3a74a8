"""Victims of several nodes: of those gathered so far, the nodes that are the cheapest to empty, more and more of them.

Nodes are taken in order of what they would have free with all their victims gone, the least first, beginning with as
many as could cover the demand; then one more, two more, four more, up to all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bosket.scheduler.framework.job_state import NOWHERE
from bosket.scheduler.framework.session import Session
from bosket.scheduler.solver.accumulation import Accumulation
from bosket.scheduler.solver.scenario import Batch, Scenario


class MultiNodeGang:
    """Registers the generator."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        session.scenario_generators.add(_MultiNode())


class _MultiNode:
    name = "MultiNodeGang"

    def __call__(self, search: Accumulation) -> Iterator[Scenario]:
        for _ in search.steps():
            if search.potential:
                yield from _subsets(search)
            else:
                yield search.scenario(())


def _subsets(search: Accumulation) -> Iterator[Scenario]:
    free = search.free_gpus()
    for job, task in search.start.victims():
        free[job.standing(task).row] += job.cost(task)[0]
    batches_on: dict[int, dict[Batch, None]] = {}  # in the order in which nodes were seen
    capacity: dict[int, float] = {}
    for batch in search.potential:
        for task in batch.tasks:
            row = batch.job.standing(task).row
            if row == NOWHERE:
                continue
            batches_on.setdefault(row, {})[batch] = None
            capacity[row] = capacity.get(row, float(free[row])) + batch.job.cost(task)[0]
    gpus = [task.pod_class.shared[0] for task in search.start.pending]
    usable = [row for row in batches_on if capacity[row] >= min(gpus)]
    usable.sort(key=capacity.__getitem__)
    elsewhere = search.feasible.copy()
    elsewhere[list(batches_on)] = False
    demand = max(0.0, sum(gpus) - float(free[elsewhere].sum()))
    count, more = _smallest_cover([capacity[row] for row in usable], demand), 1
    while count <= len(usable):
        chosen = {batch: None for row in usable[:count] for batch in batches_on[row]}
        yield search.scenario(tuple(chosen))
        if count == len(usable):
            break
        count, more = min(count + more, len(usable)), 2 * more


def _smallest_cover(capacities: list[float], demand: float) -> int:
    """How many of the first capacities reach the demand; one more than there are when all of them don't."""
    if demand <= 0:
        return 0
    total = 0.0
    for number, capacity in enumerate(capacities, start=1):
        total += capacity
        if total >= demand:
            return number
    return len(capacities) + 1
