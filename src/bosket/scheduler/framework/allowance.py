"""Who may be evicted in this cycle: disruption budgets, less what the cycle has taken from them already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from bosket.api.object import ObjectKey
from bosket.scheduler.model.budgets import Disruptions
from bosket.scheduler.model.reason import EvictionRefused
from bosket.scheduler.model.task import Task, TaskStatus


class Allowance:
    """A session's account of disruptions. Tasks that have a place in this cycle alone need no permission to lose it."""

    def __init__(self, disruptions: Disruptions) -> None:
        self._known = disruptions
        self._left = dict(disruptions.allowed)
        self.refused: EvictionRefused | None = None  #: the first objection since the last `forget_refusal`

    @property
    def has_limits(self) -> bool:
        """Whether anybody may object at all."""
        return bool(self._known)

    def objection(self, tasks: Iterable[Task]) -> EvictionRefused | None:
        """Why these can't be evicted together, though nobody else were; None when nobody objects."""
        found = self._objection(tasks) if self._known else None
        self.refused = self.refused or found
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

    def forget_refusal(self) -> None:
        """A search begins."""
        self.refused = None

    def spend(self, task: Task) -> None:
        """The task is evicted."""
        budget = self._known.budget_of.get(task.key)
        if budget is not None and task.status != TaskStatus.PENDING:
            self._left[budget] = self._left.get(budget, 0) - 1
