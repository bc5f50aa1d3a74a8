"""Statistics of a cycle's searches for victims, as plain data.

Keys begin with the action. Times aren't here, because `decide` reads no clock: a `StepTimer` is entered for each turn
of a generator, in the order of `turns`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

#: How a search, or a generator's turn in it, ends; KAI's words.
SearchResult = Literal["solved", "deadline_exhausted", "generators_exhausted", "not_attempted"]
ScenarioState = Literal["emitted", "simulated", "validator_rejected", "duplicate"]

#: What stands for a generator where victims were chosen otherwise.
CHEAPEST_MOVES: Final = "CheapestMoves"


class Turn(NamedTuple):
    """A generator of scenarios, asked for one job."""

    action: str
    generator: str
    result: SearchResult


@dataclass(slots=True, eq=False)
class SearchStatistics:
    """Counts of one cycle."""

    #: Jobs that an action looked for victims for.
    tried: Counter[str] = field(default_factory=Counter)
    #: What came of it, and whether there was less than a whole budget left for the job.
    jobs: Counter[tuple[str, SearchResult, bool]] = field(default_factory=Counter)
    #: Actions that used their whole budget up, in order.
    exhausted: dict[str, None] = field(default_factory=dict)
    #: By action, generator and what became of the scenario.
    scenarios: Counter[tuple[str, str, ScenarioState]] = field(default_factory=Counter)
    #: Sets of victims that could not make room, found without trying.
    filtered: Counter[str] = field(default_factory=Counter)
    turns: list[Turn] = field(default_factory=list)
