"""RunTimeHistory: the live state's memory of how long jobs ran, bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final

from bosket.scheduler.model.estimates import ended_amount
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.run_times import NO_RUN_TIMES, EndedJob, Level, RunTimes

#: As many jobs are remembered, the latest.
MOST_JOBS: Final = 2000
#: As many of one level.
MOST_OF_LEVEL: Final = 200
#: As many levels.
MOST_LEVELS: Final = 4000


class RunTimeHistory:
    """What has ended."""

    def __init__(self) -> None:
        self._entries: deque[EndedJob] = deque(maxlen=MOST_JOBS)
        self._amounts: dict[Level, tuple[float, ...]] = {}
        self._frozen = NO_RUN_TIMES
        self.learned = 0  #: how many jobs were ever put in
        self.is_learning = True  #: False while somebody tries out what may happen

    def ended(self, job: Job, now: float) -> None:
        """The job, as it last was, has ended."""
        known = ended_amount(job, now) if self.is_learning else None
        if known is not None:
            self.put((EndedJob(*known),))

    def put(self, entries: Iterable[EndedJob]) -> None:
        """Takes in jobs that have ended, the oldest first."""
        for entry in entries:
            self._entries.append(entry)
            self.learned += 1
            for level in entry.kind.levels():
                amounts = self._amounts.pop(level, ())  # to the end: the level that nobody asks about goes first
                self._amounts[level] = (*amounts[1 - MOST_OF_LEVEL :], entry.amount)
            while len(self._amounts) > MOST_LEVELS:
                del self._amounts[next(iter(self._amounts))]
            self._frozen = NO_RUN_TIMES

    def restore(self, entries: Iterable[EndedJob]) -> None:
        """Takes over what another process remembered, instead of what is known here."""
        self._entries.clear()
        self._amounts = {}
        self.put(entries)

    def entries(self) -> tuple[EndedJob, ...]:
        """All that is remembered, the oldest first."""
        return tuple(self._entries)

    def since(self, learned: int) -> tuple[EndedJob, ...]:
        """What was put in after so many had been, as far as it is remembered."""
        new = min(self.learned - learned, len(self._entries))
        return tuple(islice(self._entries, len(self._entries) - new, None)) if new else ()

    def freeze(self) -> RunTimes:
        """For a snapshot; the same object while nothing ended."""
        if self._frozen is NO_RUN_TIMES and self._amounts:
            self._frozen = RunTimes(dict(self._amounts))
        return self._frozen
