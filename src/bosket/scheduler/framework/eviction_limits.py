"""EvictionLimits: what is left of disruption budgets in this cycle, and protection by a minimum run time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bosket.api.object import ObjectKey
from bosket.scheduler.model.budgets import Disruptions
from bosket.scheduler.model.reason import EvictionRefused
from bosket.scheduler.model.task import Task, TaskStatus


@dataclass(slots=True)
class Obstacles:
    """What kept a search from evicting tasks."""

    refused: EvictionRefused | None = None  #: the first refusal by a disruption budget
    protected_until: float = math.inf  #: when the first of the jobs that were protected is protected no longer


class EvictionLimits:
    """A session's account of disruptions, and whether minimum run times are respected.

    Tasks that were placed in this very cycle don't run yet, so no budget guards them.
    """

    def __init__(self, disruptions: Disruptions) -> None:
        self._known = disruptions
        self._left = dict(disruptions.allowed)
        self._obstacles = Obstacles()
        self._is_protection_lifted = False

    @property
    def has_budgets(self) -> bool:
        """Whether any disruption budget may refuse an eviction."""
        return bool(self._known)

    @contextmanager
    def noting(self) -> Iterator[Obstacles]:
        """Collects the obstacles that a search meets within the block."""
        before, self._obstacles = self._obstacles, Obstacles()
        try:
            yield self._obstacles
        finally:
            self._obstacles = before

    def objection(self, tasks: Iterable[Task]) -> EvictionRefused | None:
        """Why these tasks can't be evicted together, even if nobody else were; None if they can."""
        found = self._objection(tasks) if self._known else None
        self._obstacles.refused = self._obstacles.refused or found
        return found

    def _objection(self, tasks: Iterable[Task]) -> EvictionRefused | None:
        wanted: Counter[ObjectKey] = Counter()
        for task in tasks:
            if task.status == TaskStatus.PENDING:
                continue
            refused_by = self._known.protected.get(task.key)
            if refused_by is not None:
                return EvictionRefused(task.key, refused_by)
            budget = self._known.budget_of.get(task.key)
            if budget is not None:
                wanted[budget] += 1
                if wanted[budget] > self._left.get(budget, 0):
                    return EvictionRefused(task.key, f"PodDisruptionBudget {budget}")
        return None

    def spend(self, task: Task) -> None:
        """Counts an eviction against its disruption budget."""
        budget = self._known.budget_of.get(task.key)
        if budget is not None and task.status != TaskStatus.PENDING:
            self._left[budget] = self._left.get(budget, 0) - 1

    def protects(self, until: float) -> bool:
        """Whether a job that is protected until `when` may not be evicted now. Called by plugins; False while
        protection is lifted."""
        if not self._is_protection_lifted:
            self._obstacles.protected_until = min(self._obstacles.protected_until, until)
        return not self._is_protection_lifted

    @contextmanager
    def without_protection(self) -> Iterator[None]:
        """Lifts the protection within the block, to find out whether only time keeps a job waiting."""
        self._is_protection_lifted = True
        try:
            yield
        finally:
            self._is_protection_lifted = False
