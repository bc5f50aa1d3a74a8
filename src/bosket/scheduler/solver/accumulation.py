"""Victims added one step after the other, and whether there is any hope yet.

Generators walk through an accumulation and make scenarios of it. `steps()` stops wherever the victims so far could
possibly make room: conditions that any solution must meet are checked first, because a simulation costs far more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from bosket.scheduler.framework.scenario import Batch, Scenario
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import NOWHERE, Mask
from bosket.scheduler.model.task import Task
from bosket.scheduler.solver.batch_index import BatchIndex
from bosket.scheduler.solver.budget import Budget
from bosket.scheduler.solver.domain_room import DomainRoom, grouped_classes
from bosket.scheduler.solver.eviction import Victim, next_to_evict
from bosket.scheduler.solver.order import VictimOrder
from bosket.scheduler.solver.room import Room

MOST_REMEMBERED = 8


class VictimSequence:
    """Victims batch by batch, in their order, found as far as anybody has asked.

    The attempts of a search that have the same victims recorded go through the same sequence.
    """

    def __init__(self, session: Session, victims: VictimOrder, recorded: set[Task]) -> None:
        """`recorded`: tasks that go in any case."""
        self._session, self._victims, self._recorded = session, victims, recorded
        self._found: list[Batch] = []

    def at(self, number: int) -> Batch | None:
        """The batch that comes after so many others; None when there are no more."""
        while len(self._found) <= number:
            batch = self._next()
            if batch is None:
                return None
            self._found.append(batch)
        return self._found[number]

    def _next(self) -> Batch | None:
        while (victim := self._victims.pop()) is not None:
            tasks = next_to_evict(self._session, victim)
            if not tasks:
                continue
            goes_anyway = not self._recorded.isdisjoint(tasks)
            goes = goes_anyway or self._may_go(victim, tasks)
            rest = victim.without(self._recorded if goes_anyway else tasks) if goes else victim.keeping(tasks)
            if rest is not None:
                self._victims.push(rest)
            if goes and not goes_anyway:
                return Batch(victim.original, tuple(tasks))
        return None

    def _may_go(self, victim: Victim, tasks: Sequence[Task]) -> bool:
        """A task on a node that isn't ours can't be evicted, and neither can those that go with it."""
        if any(victim.original.placement(task).row == NOWHERE for task in tasks):
            return False
        return self._session.limits.objection(tasks) is None


class Accumulation:
    """What one search has gathered so far."""

    def __init__(
        self,
        session: Session,
        start: Scenario,
        victims: VictimSequence,
        index: BatchIndex,
        *,
        feasible: Mask,
        room: Room,
        domains: DomainRoom,
        budget: Budget,
        most_victims: int | None = None,
    ) -> None:
        """`start`: the pending tasks, with the victims that an earlier search has found and that go in any case.

        `room`: for the pending tasks on the nodes that are `feasible`, before anybody is evicted; `most_victims`: how
        many steps are taken at most; all that there are by default.
        """
        self._budget, self._most_victims = budget, most_victims
        self.session = session
        self.start = start
        self.potential: list[Batch] = []
        self.feasible = feasible  #: nodes that may be used whatever victims are chosen
        self._victims, self._index = victims, index
        self._room, self._domains = room.copy(), domains
        self._is_enough = False
        groups = grouped_classes(session, start.preemptor, start.pending)
        self._by_nodes = _Remembered(lambda batches: room.suffices_with(map(index.held, batches)))
        self._by_domains = _Remembered(
            lambda batches: not groups or room.suffices_in_domains_with(map(index.held, batches), groups)
        )
        for batch in start.batches:
            self._add_room(batch)

    def steps(self) -> Iterator[None]:
        """Adds victims until there is hope, again and again, until there are no more."""
        if self._suffices():
            yield
        number = 0
        while not self._has_enough() and (batch := self._victims.at(number)) is not None:
            number += 1
            self._budget.spend(len(batch.tasks))
            self.potential.append(batch)
            self._add_room(batch)
            if self._suffices():
                yield
            else:
                self.session.outcome.searches.filtered[self.session.action] += 1

    def _add_room(self, batch: Batch) -> None:
        if self._is_enough:
            return
        self._room.add(self._index.held(batch))
        for task in batch.tasks:
            self._domains.add(batch.job.placement(task).row, batch.job.cost(task)[0])

    def _suffices(self) -> bool:
        # With more victims there is more room: what was enough once stays enough.
        if not self._is_enough and self._room.suffices() and self._domains.suffices():
            self._is_enough = True
            self._by_nodes.note(self._index.mask((*self.start.batches, *self.potential)))
        return self._is_enough

    def _has_enough(self) -> bool:
        return self._budget.is_used_up() or len(self.potential) == self._most_victims

    def tasks_of(self, batches: Iterable[Batch]) -> int:
        """The tasks of all these batches as bits of a number: the same tasks give the same number."""
        return self._index.mask(batches)

    def may_suffice(self, scenario: Scenario, tasks: int) -> bool:
        """Whether the scenario's own victims could make room; those gathered beside them stay then.

        `tasks`: its victims as bits.
        """
        return self._by_nodes(tasks, scenario.batches)

    def may_suffice_in_domains(self, scenario: Scenario, tasks: int) -> bool:
        """The same for groups that must each be in one domain of a topology."""
        return self._by_domains(tasks, scenario.batches)

    def scenario(self, batches: Sequence[Batch]) -> Scenario:
        """With these victims, beside those that go in any case."""
        start = self.start
        return Scenario(
            start.preemptor, start.pending, (*start.batches, *batches), start.allocated, start.non_preemptible
        )

    def free_gpus(self) -> np.ndarray:
        """(node,): GPUs that are idle or being released, before anybody is evicted."""
        return self.session.nodes.free_gpus()


class _Remembered:
    """A condition on sets of victims that holds for larger sets as well: what is known of some answers for others."""

    def __init__(self, holds: Callable[[Iterable[Batch]], bool]) -> None:
        self._holds = holds
        # The last few: sets of victims mostly grow or shrink by a little from one scenario to the next.
        self._good: deque[int] = deque(maxlen=MOST_REMEMBERED)
        self._bad: deque[int] = deque(maxlen=MOST_REMEMBERED)

    def note(self, tasks: int) -> None:
        """The condition holds for these."""
        self._good.append(tasks)

    def __call__(self, tasks: int, batches: Sequence[Batch]) -> bool:
        for known in self._good:
            if known & ~tasks == 0:
                return True
        for known in self._bad:
            if tasks & ~known == 0:
                return False
        result = self._holds(dict.fromkeys(batches))
        (self._good if result else self._bad).append(tasks)
        return result
