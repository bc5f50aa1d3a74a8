"""Plugin sg-multinodegang: scenarios with victims of several nodes: the cheapest nodes to empty, more and more of them.

Nodes are ordered by what they would have free without their victims, the least first, starting with as many as could
cover the demand; then one more, two more, four more, up to all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bosket.scheduler.framework.eviction_extension import GatheredVictims
from bosket.scheduler.framework.scenario import Batch, Scenario
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import NOWHERE


class MultiNodeGang:
    """Registers the generator."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        session.extensions.scenario_generators.add(_MultiNode())


class _MultiNode:
    name = "MultiNodeGang"

    def __call__(self, search: GatheredVictims) -> Iterator[Scenario]:
        nodes = _Nodes(search)
        for _ in search.steps():
            if search.potential:
                yield from nodes.subsets()
            else:
                yield search.scenario(())


class _Nodes:
    """The nodes of the victims gathered so far, kept from one step to the next."""

    def __init__(self, search: GatheredVictims) -> None:
        self._search = search
        self._free = search.free_gpus()
        for job, task in search.start.victims():
            self._free[job.placement(task).row] += job.cost(task)[0]
        gpus = [task.pod_class.charge[0] for task in search.start.pending]
        self._least, self._wanted = min(gpus), sum(gpus)
        self._batches_on: dict[int, dict[Batch, None]] = {}  # in the order in which nodes were seen
        self._capacity: dict[int, float] = {}  # GPUs of each, with all its victims gone
        self._known = 0  # how many batches are counted
        self._elsewhere = search.feasible.copy()

    def subsets(self) -> Iterator[Scenario]:
        """The cheapest nodes to empty, more and more of them."""
        self._catch_up()
        capacity = self._capacity
        usable = [row for row in self._batches_on if capacity[row] >= self._least]
        usable.sort(key=capacity.__getitem__)
        demand = max(0.0, self._wanted - float(self._free[self._elsewhere].sum()))
        count, more = _smallest_cover([capacity[row] for row in usable], demand), 1
        chosen: dict[Batch, None] = {}
        taken = 0
        while count <= len(usable):
            for row in usable[taken:count]:
                chosen.update(self._batches_on[row])
            taken = count
            yield self._search.scenario(tuple(chosen))
            if count == len(usable):
                break
            count, more = min(count + more, len(usable)), 2 * more

    def _catch_up(self) -> None:
        capacity = self._capacity
        for batch in self._search.potential[self._known :]:
            for task in batch.tasks:
                row = batch.job.placement(task).row
                if row == NOWHERE:
                    continue
                self._batches_on.setdefault(row, {})[batch] = None
                capacity[row] = capacity.get(row, float(self._free[row])) + batch.job.cost(task)[0]
                self._elsewhere[row] = False
        self._known = len(self._search.potential)


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
