"""The contracts of extension points about evictions: who may reclaim, who may be a victim, which victims are tried, and
whether the outcome is just.

The rules for all extensions (threads, accounts, exceptions) stand in `extension`. A search goes through them in the
order of this module: rights, then filters, then scenarios as they are generated, each simulated and then validated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.scenario import Batch, Scenario
from bosket.scheduler.model.node import Mask
from bosket.scheduler.model.queue import QueueRow


class ReclaimRight(Protocol):
    """Says whether a job may take back resources from other queues at all.

    Called by reclaim, once for each job that waits when the action begins, and again in the job's turn.
    May assume that nothing is being simulated at that time. Without any `ReclaimRight` nobody reclaims.
    """

    def __call__(self, reclaimer: JobState) -> bool: ...


class VictimFilter(Protocol):
    """Says which jobs may be evicted for another one.

    Called before each search, for far more jobs than are evicted: it must be cheap.
    May assume that nothing is being simulated at that time, and that the victim has tasks on nodes.
    """

    by_job: bool  #: whether `takes` has an opinion; otherwise only `takes_from` is called

    def takes_from(self, preemptor: JobState, queue_row: QueueRow) -> bool:
        """Whether jobs of a queue may be evicted. Called once per search and queue that has running jobs."""
        ...

    def takes(self, preemptor: JobState, victim: JobState) -> bool:
        """Whether a job may be evicted. Called once per search and job of a queue that all filters let through.

        One that is only protected for a time asks `session.limits.protects(until)`, so that the preemptor's
        status can say how long it has to wait."""
        ...


class GatheredVictims(Protocol):
    """The victims that one attempt of a search has gathered so far; scenarios are made of them."""

    start: Scenario  #: the pending tasks, with the victims that go in any case
    potential: list[Batch]  #: those gathered so far, in the order of victims
    feasible: Mask  #: nodes that may be used whatever victims are chosen

    def steps(self) -> Iterator[None]:
        """Gathers victims until they could possibly make room, again and again, until there are no more."""
        ...

    def tasks_of(self, batches: Iterable[Batch]) -> int:
        """The tasks of all these batches as bits of a number: the same tasks give the same number."""
        ...

    def scenario(self, batches: Sequence[Batch]) -> Scenario:
        """The scenario with these victims, beside those that go in any case."""
        ...

    def free_gpus(self) -> NDArray[np.float64]:
        """(node,): GPUs that are idle or being released, before any victim is evicted."""
        ...


class ScenarioGenerator(Protocol):
    """Says which sets of victims to try, one after the other, as victims are gathered in their order.

    Called once for each attempt of a search: for the whole job, and for larger and larger parts of it. Drawn from until
    a scenario succeeds, its budget is used up, or it ends. A scenario that has failed in the same search already is
    skipped and costs nothing.
    May assume that between two draws the scenario before was undone: it sees nodes and queues as before the search.
    """

    name: str  #: in the configuration of budgets, in metrics and logs

    def __call__(self, search: GatheredVictims) -> Iterator[Scenario]: ...


class ScenarioValidator(Protocol):
    """Says whether the outcome of a scenario is just.

    Called once for each simulation that placed the preemptor, in the order of registration. The first validator that
    refuses ends the scenario, and the generator's next one is tried.
    May assume that the outcome is in effect: accounts and placements show it, `scenario` holds what queues held before.
    """

    def __call__(self, scenario: Scenario) -> bool: ...
