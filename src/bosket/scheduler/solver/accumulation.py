"""Victims added one step after the other, and whether there is any hope yet.

Generators walk through an accumulation and make scenarios of it. `steps()` stops wherever the victims so far could
possibly make room: conditions that any solution must meet are checked first, because a simulation costs far more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bosket.scheduler.framework.job_state import NOWHERE, JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import Amounts2D, Mask
from bosket.scheduler.model.task import Task
from bosket.scheduler.solver.budget import Budget
from bosket.scheduler.solver.domain_room import DomainRoom
from bosket.scheduler.solver.eviction import next_to_evict
from bosket.scheduler.solver.order import VictimOrder
from bosket.scheduler.solver.room import Room, held_by
from bosket.scheduler.solver.scenario import Batch, Scenario


class Accumulation:
    """What one search has gathered so far."""

    def __init__(
        self,
        session: Session,
        start: Scenario,
        victims: VictimOrder,
        feasible: Mask,
        free: Amounts2D,
        *,
        domains: DomainRoom,
        budget: Budget,
        most_victims: int | None = None,
    ) -> None:
        """`start`: the pending tasks, with the victims that an earlier search has found and that go in any case.

        `free`: what nodes have before anybody is evicted; `most_victims`: how many steps are taken at most; all that
        there are by default.
        """
        self._budget, self._most_victims = budget, most_victims
        self.session = session
        self.start = start
        self.potential: list[Batch] = []
        self.feasible = feasible  #: nodes that may be used whatever victims are chosen
        self._victims = victims
        self._recorded = {task for _, task in start.victims()}
        self._unevicted = Room(session, start.pending, feasible, free)  # what there is without any victim
        self._room, self._domains = Room(session, start.pending, feasible, free), domains
        self._add_room(list(start.victims()))

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
            self._add_room([(batch.job, task) for task in tasks])
            if self._suffices():
                yield
            else:
                self.session.searches.filtered[self.session.action] += 1

    def _add_room(self, victims: Sequence[tuple[JobState, Task]]) -> None:
        self._room.add(held_by(self.session, victims))
        for job, task in victims:
            self._domains.add(job.standing(task).row, job.cost(task)[0])

    def _suffices(self) -> bool:
        return self._room.suffices() and self._domains.suffices()

    def _has_enough(self) -> bool:
        return self._budget.is_used_up() or len(self.potential) == self._most_victims

    def may_suffice(self, scenario: Scenario) -> bool:
        """Whether the scenario's own victims could make room; those gathered beside them stay then."""
        return self._unevicted.suffices_with(scenario.victims())

    def scenario(self, batches: Sequence[Batch]) -> Scenario:
        """With these victims, beside those that go in any case."""
        start = self.start
        return Scenario(
            start.preemptor, start.pending, (*start.batches, *batches), start.allocated, start.non_preemptible
        )

    def free_gpus(self) -> np.ndarray:
        """(node,): GPUs that are idle or being released, before anybody is evicted."""
        return self.session.nodes.free_gpus()
