"""Victims added one step after the other, and whether there is any hope yet.

Generators walk through an accumulation and make scenarios of it. `steps()` stops wherever the victims so far could
possibly make room: conditions that any solution must meet are checked first, because a simulation costs far more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from bosket.scheduler.framework.job_state import NOWHERE, JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import Amounts2D, Mask
from bosket.scheduler.model.resource import GPU, PODS
from bosket.scheduler.model.task import PodClass, Task
from bosket.scheduler.solver.budget import Budget
from bosket.scheduler.solver.domain_room import DomainRoom
from bosket.scheduler.solver.eviction import next_to_evict
from bosket.scheduler.solver.order import VictimOrder
from bosket.scheduler.solver.scenario import Batch, Scenario

#: Parts of GPUs add up to whole ones but for this.
ROUNDING = 1e-9


class Accumulation:
    """What one search has gathered so far."""

    def __init__(
        self,
        session: Session,
        start: Scenario,
        victims: VictimOrder,
        feasible: Mask,
        *,
        domains: DomainRoom,
        budget: Budget,
        most_victims: int | None = None,
    ) -> None:
        """`start`: the pending tasks, with the victims that an earlier search has found and that go in any case.

        `most_victims`: how many steps are taken at most; all that there are by default.
        """
        self._budget, self._most_victims = budget, most_victims
        self.session = session
        self.start = start
        self.potential: list[Batch] = []
        self.feasible = feasible  #: nodes that may be used whatever victims are chosen
        self._victims = victims
        self._recorded = {task for _, task in start.victims()}
        self._room, self._domains = _Room(session, start.pending, feasible), domains
        for job, task in start.victims():
            self._add_room(job, task)

    def steps(self) -> Iterator[None]:
        """Adds victims until there is hope, again and again, until there are no more."""
        if self._suffices():
            yield
        while not self._has_enough() and (victim := self._victims.pop()) is not None:
            tasks = next_to_evict(self.session, victim)
            if not self._recorded.isdisjoint(tasks):
                rest = victim.without(self._recorded)
                if rest is not None:
                    self._victims.push(rest)
                continue
            rest = victim.without(tasks)
            if rest is not None:
                self._victims.push(rest)
            if any(victim.original.standing(task).row == NOWHERE for task in tasks):
                continue  # on a node that isn't ours: it can't be evicted, and neither can those that go with it
            if self.session.allowance.objection(tasks) is not None:
                continue
            batch = Batch(victim.original, tuple(tasks))
            self._budget.spend(len(tasks))
            self.potential.append(batch)
            for task in tasks:
                self._add_room(batch.job, task)
            if self._suffices():
                yield
            else:
                self.session.searches.filtered[self.session.action] += 1

    def _add_room(self, job: JobState, task: Task) -> None:
        self._room.add(job, task)
        self._domains.add(job.standing(task).row, job.cost(task)[0])

    def _suffices(self) -> bool:
        return self._room.suffices() and self._domains.suffices()

    def _has_enough(self) -> bool:
        return self._budget.is_used_up() or len(self.potential) == self._most_victims

    def scenario(self, batches: Sequence[Batch]) -> Scenario:
        """With these victims, beside those that go in any case."""
        start = self.start
        return Scenario(
            start.preemptor, start.pending, (*start.batches, *batches), start.allocated, start.non_preemptible
        )

    def free_gpus(self) -> np.ndarray:
        """(node,): GPUs that are idle or being released, before anybody is evicted."""
        return self.session.nodes.free_gpus()


class _Room:
    """How many of the pending tasks could be placed at best, by what is free and what victims would leave."""

    def __init__(self, session: Session, pending: Sequence[Task], feasible: Mask) -> None:
        self._wanted = Counter(task.pod_class for task in pending)
        self._usable = feasible.copy()
        self._allowed = {pod_class: session.view(pod_class).allowed for pod_class in self._wanted}
        self._shared = session.nodes.shared
        self._free: Amounts2D = session.nodes.idle + session.nodes.releasing
        self._free[GPU] = session.nodes.free_gpus()

    def add(self, job: JobState, task: Task) -> None:
        row = job.standing(task).row
        for place, amount in task.pod_class.holds:
            self._free[place, row] += amount
        share = task.pod_class.share
        if share is not None:
            size = self._shared.sizes[row]
            self._free[GPU, row] += len(job.standing(task).gpu_groups) * share.memory_on(size) / size
        self._usable[row] = True

    def suffices(self) -> bool:
        """Whether every class by itself could be placed; if not, no choice of victims among these helps."""
        return all(self._slots(pod_class, count) >= count for pod_class, count in self._wanted.items())

    def _slots(self, pod_class: PodClass, most: int) -> float:
        usable = self._usable & self._allowed[pod_class]
        slots = np.minimum(self._free[PODS], float(most))
        for place, amount in pod_class.needs:
            np.minimum(slots, np.floor(self._free[place] / amount + ROUNDING), out=slots)
        share = pod_class.share
        if share is not None:
            parts = self._shared.memory(share) * share.devices / np.array(self._shared.sizes)
            np.minimum(slots, np.floor(self._free[GPU] / parts + ROUNDING), out=slots)
        return float(np.maximum(slots, 0.0)[usable].sum())
