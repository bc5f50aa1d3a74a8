"""How far a search for victims may go: per action, per job and per generator of scenarios.

KAI's configuration gives durations, and its decisions then depend on how fast and how busy the machine is. Here they
are numbers of steps, so that the same snapshot always gives the same decisions. A step is a task that is gathered as a
victim, or that a simulation evicts or places. It takes 10 to 100 µs, so that a search ends in a fortieth of its time.
"""

from __future__ import annotations

import math

from bosket.scheduler.configuration.configuration import DEFAULT_KEY, SearchBudgets

#: What a second of KAI's budgets is worth. KAI's defaults are then twice what a gang of 500 pods needs to take half of
#: a full cluster of a thousand nodes.
STEPS_PER_SECOND = 250


class Budget:
    """Steps that may be taken. Those of a part count for the whole as well."""

    def __init__(self, steps: float = math.inf, whole: Budget | None = None) -> None:
        self.left = steps  #: may go below nothing: what was begun is finished
        self._whole = whole

    def is_used_up(self) -> bool:
        return self.left <= 0

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self._whole is not None:
            self._whole.spend(steps)


class ActionBudget(Budget):
    """What all searches of one action may take together."""

    def __init__(self, limits: SearchBudgets, action: str) -> None:
        super().__init__(_steps(limits.action.get(action, limits.action.get(DEFAULT_KEY, 0.0))))
        self._limits = limits

    def for_job(self) -> JobBudget:
        """What the search for one job may take; the configured minimum even when nothing is left for the action."""
        limits = self._limits
        least = limits.least_per_job * STEPS_PER_SECOND
        wanted = _steps(limits.job)
        return JobBudget(max(least, min(self.left, wanted)), self, limits, is_reduced=self.left < wanted)


class JobBudget(Budget):
    """What the search for one job may take, whichever generators are asked."""

    def __init__(self, steps: float, whole: Budget, limits: SearchBudgets, *, is_reduced: bool = False) -> None:
        super().__init__(steps, whole)
        self.is_reduced = is_reduced  #: by what other jobs of the action have used
        self._limits = limits
        self._of_generators: list[Budget] = []

    def cut_short(self) -> bool:
        """Whether the search might have gone on with more."""
        return self.is_used_up() or any(each.is_used_up() for each in self._of_generators)

    def part(self, steps: float) -> JobBudget:
        """So many of them, if as many are left."""
        return JobBudget(min(steps, self.left), self, self._limits)

    def for_generator(self, name: str) -> Budget:
        limits = self._limits.generator
        made = Budget(min(self.left, _steps(limits.get(name, limits.get(DEFAULT_KEY, 0.0)))), self)
        self._of_generators.append(made)
        return made


def _steps(seconds: float) -> float:
    """A duration as steps; none is without end."""
    return seconds * STEPS_PER_SECOND or math.inf
