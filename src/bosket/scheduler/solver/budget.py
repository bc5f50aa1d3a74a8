"""Budgets of searches for victims: per action, per job and per generator of scenarios.

KAI's configuration gives durations, so its decisions depend on the machine's speed and load. Here durations are
converted to steps, so that the same snapshot always gives the same decisions. A step is a task that is gathered as a
victim, or evicted or placed in a simulation. A step takes 10 to 100 µs, so a search ends in a fortieth of its
configured time.
"""

from __future__ import annotations

import math

from bosket.scheduler.configuration.configuration import DEFAULT_KEY, SearchBudgets

#: Steps per second of KAI's budgets. KAI's defaults are then twice what a gang of 500 pods needs to take half of
#: a full cluster of a thousand nodes.
STEPS_PER_SECOND = 250


class Budget:
    """A number of steps. Steps of a part are charged to the whole as well."""

    def __init__(self, steps: float = math.inf, whole: Budget | None = None) -> None:
        self.left = steps  #: may become negative: a simulation that was begun is finished
        self._whole = whole

    def is_used_up(self) -> bool:
        return self.left <= 0

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self._whole is not None:
            self._whole.spend(steps)


class ActionBudget(Budget):
    """The steps for all searches of one action."""

    def __init__(self, limits: SearchBudgets, action: str) -> None:
        super().__init__(_steps(limits.action.get(action, limits.action.get(DEFAULT_KEY, 0.0))))
        self._limits = limits

    def for_job(self) -> JobBudget:
        """The budget for one job: at least the configured minimum, even when the action's budget is used up."""
        limits = self._limits
        least = limits.least_per_job * STEPS_PER_SECOND
        wanted = _steps(limits.job)
        return JobBudget(max(least, min(self.left, wanted)), self, limits, is_reduced=self.left < wanted)


class JobBudget(Budget):
    """The steps for one job's search, over all generators."""

    def __init__(self, steps: float, whole: Budget, limits: SearchBudgets, *, is_reduced: bool = False) -> None:
        super().__init__(steps, whole)
        self.is_reduced = is_reduced  #: by what other jobs of the action have used
        self._limits = limits
        self._of_generators: list[Budget] = []

    def cut_short(self) -> bool:
        """Whether the budget ended the search."""
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
