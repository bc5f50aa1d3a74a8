"""Accumulation: victims are added one after the other until enough room seems possible.

Generators iterate over `steps()` and build scenarios from the victims so far. `steps()` stops wherever conditions that
every solution must meet hold, because checking them is far cheaper than a simulation.
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
    """Victims batch by batch, in order, computed as far as anybody has asked.

    Attempts of a search with the same recorded victims share a sequence.
    """

    def __init__(self, session: Session, victims: VictimOrder, recorded: set[Task]) -> None:
        """`recorded`: tasks that are evicted in any case."""
        self._session, self._victims, self._recorded = session, victims, recorded
        self._found: list[Batch] = []

    def at(self, number: int) -> Batch | None:
        """The batch with this index; None when there are no more."""
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
            # A recorded victim is evicted in any case; it advances its job's eviction steps but is no further choice.
            goes_anyway = not self._recorded.isdisjoint(tasks)
            goes = goes_anyway or self._may_go(victim, tasks)
            # Tasks that can't be evicted stay and count for their job's minimum: other tasks of the job may still be
            # extras then.
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
    """The victims that one attempt has gathered."""

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
        """`start`: the pending tasks and the recorded victims. `room`: for the pending tasks on `feasible` nodes,
        before evictions; `most_victims`: the maximum number of batches, unlimited by default."""
        self._budget, self._most_victims = budget, most_victims
        self.session = session
        self.start = start
        self.potential: list[Batch] = []
        self.feasible = feasible  #: (node,): nodes that may be used with any choice of victims
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
        """Adds victims, and yields whenever the victims so far could make enough room."""
        if self._suffices():
            yield
        number = 0
        while not self._has_enough() and (batch := self._victims.at(number)) is not None:
            number += 1
            # Gathering costs steps, too: otherwise thousands of useless victims would be free.
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
        # More victims never make less room, so "enough" stays true.
        if not self._is_enough and self._room.suffices() and self._domains.suffices():
            self._is_enough = True
            self._by_nodes.note(self._index.mask((*self.start.batches, *self.potential)))
        return self._is_enough

    def _has_enough(self) -> bool:
        return self._budget.is_used_up() or len(self.potential) == self._most_victims

    def tasks_of(self, batches: Iterable[Batch]) -> int:
        """The tasks of the batches as bits of an integer: equal sets give equal integers."""
        return self._index.mask(batches)

    def may_suffice(self, scenario: Scenario, tasks: int) -> bool:
        """Whether the scenario's own victims could make room, without the others gathered so far.

        `tasks`: the victims as bits.
        """
        return self._by_nodes(tasks, scenario.batches)

    def may_suffice_in_domains(self, scenario: Scenario, tasks: int) -> bool:
        """The same for groups that must each fit into one topology domain."""
        return self._by_domains(tasks, scenario.batches)

    def scenario(self, batches: Sequence[Batch]) -> Scenario:
        """A scenario with these victims and the recorded ones."""
        start = self.start
        return Scenario(
            start.preemptor, start.pending, (*start.batches, *batches), start.allocated, start.non_preemptible
        )

    def free_gpus(self) -> np.ndarray:
        """(node,): GPUs that are idle or being released, before evictions."""
        return self.session.nodes.free_gpus()


class _Remembered:
    """Caches a monotone condition on sets of victims: true for a set means true for its supersets, false means false
    for its subsets."""

    def __init__(self, holds: Callable[[Iterable[Batch]], bool]) -> None:
        self._holds = holds
        # Only the latest sets: from one scenario to the next, sets of victims grow or shrink by a little.
        self._good: deque[int] = deque(maxlen=MOST_REMEMBERED)
        self._bad: deque[int] = deque(maxlen=MOST_REMEMBERED)

    def note(self, tasks: int) -> None:
        """Records that the condition holds for these tasks."""
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
