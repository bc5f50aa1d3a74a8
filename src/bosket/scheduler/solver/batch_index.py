"""BatchIndex: facts about batches of victims, computed once for all scenarios of a search.

Valid for one search: all its attempts start from the same placements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bosket.scheduler.framework.departure import Departure
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.scenario import Batch
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.task import Task
from bosket.scheduler.solver.room import Held, held_by


class BatchIndex:
    """Facts about batches. Each task is one bit of an integer, so sets of victims are compared in one operation."""

    def __init__(self, session: Session) -> None:
        self._session, self._node_count = session, len(session.snapshot.nodes)
        self._bits: dict[Task, int] = {}
        self._masks: dict[Batch, int] = {}
        self._held: dict[int, Held] = {}  # by the tasks, as bits
        self._departures: dict[Batch, Departure] = {}

    def mask(self, batches: Iterable[Batch]) -> int:
        """The tasks of all these batches as bits."""
        known, result = self._masks, 0
        for batch in batches:
            mask = known.get(batch)
            if mask is None:
                mask = known[batch] = self._mask_of(batch.tasks)
            result |= mask
        return result

    def _mask_of(self, tasks: Iterable[Task]) -> int:
        bits, result = self._bits, 0
        for task in tasks:
            result |= 1 << bits.setdefault(task, len(bits))
        return result

    def held(self, batch: Batch) -> Held:
        """The amounts that a batch's tasks hold on their nodes."""
        mask = self._masks.get(batch)
        return self._held_by(batch.job, batch.tasks, self.mask((batch,)) if mask is None else mask)

    def held_by_all(self, job: JobState) -> Held:
        """The amounts that all active tasks of a job hold."""
        tasks = job.active_tasks()
        return self._held_by(job, tasks, self._mask_of(tasks))

    def _held_by(self, job: JobState, tasks: Sequence[Task], mask: int) -> Held:
        found = self._held.get(mask)
        if found is None:
            found = self._held[mask] = held_by(self._session, ((job, task) for task in tasks))
        return found

    def departures(self, batches: Iterable[Batch]) -> list[Departure]:
        """The departures that evict all tasks of these batches, each task once."""
        result: list[Departure] = []
        seen, masks = 0, self._masks
        for batch in batches:
            mask = masks.get(batch)
            if mask is None:
                mask = self.mask((batch,))
            if not mask & seen:
                found = self._departures.get(batch)
                if found is None:
                    found = self._departures[batch] = Departure(batch.job, batch.tasks, self._node_count)
                result.append(found)
            elif mask & ~seen:
                result.append(Departure(batch.job, self._unseen(batch.tasks, seen), self._node_count))
            seen |= mask
        return result

    def _unseen(self, tasks: Sequence[Task], seen: int) -> list[Task]:
        return [task for task in dict.fromkeys(tasks) if not seen >> self._bits[task] & 1]
