"""NeighbourView: class views whose fit or score depends on other pods: affinity, anti-affinity, spreading.

Each gang that selects its own pods is a class of its own, although hundreds of gangs ask nodes for the same. What does
not depend on other pods is kept once, in the view of their `base`; a class adds the exceptions that its own filters and
scorers name. Thousands of classes then cost about as much memory as their exceptions.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.class_view import NO_SCORES, Asked, ClassView, ViewContext, goes_by_neighbours
from bosket.scheduler.framework.extension import NodeScorer, Rows, Scores
from bosket.scheduler.model.cell import cells
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.task import PodClass

#: How many views keep an array of scores; the view that has had its array longest gives it away.
MOST_SCORED = 256


class ScoreArrays:
    """The arrays of scores of a session's neighbour views, at most `MOST_SCORED`."""

    def __init__(self) -> None:
        self._scored: deque[NeighbourView] = deque()  # views that have an array, in the order in which they got it

    def array_for(self, view: NeighbourView) -> Scores:
        """An array over nodes for a view; taken from the oldest view where all are in use."""
        array = self._scored.popleft().give_up_scores() if len(self._scored) >= MOST_SCORED else NO_SCORES
        self._scored.append(view)
        return array if len(array) else np.empty(len(view.allowed))


class Base(ClassView):
    """Fit and score by everything except other pods: common to all classes that differ in affinity only."""

    def _current_inputs(self) -> list[Hashable]:
        # A new class starts from the base's answers, so these must be current also on
        # nodes that did not change since: overdrawn resources that the class doesn't ask for count, too.
        return [self._ledger.overdrawn, *(each.global_inputs(self._class) for each in self._with_inputs)]


class NeighbourView(ClassView):
    """The view of one class: the scores of its base, with exceptions."""

    def __init__(
        self, context: ViewContext, pod_class: PodClass, asked: Asked, base: Base, arrays: ScoreArrays
    ) -> None:
        super().__init__(context, pod_class, asked)
        self._base, self._arrays = base, arrays
        self._own_filters = [each for each in self._moving if goes_by_neighbours(each)]
        self._own_scorers = [each for each in self._scored_by if goes_by_neighbours(each)]
        self._with_inputs = [*self._own_filters, *self._own_scorers]

    @property
    def is_local(self) -> bool:
        return False

    def give_up_scores(self) -> Scores:
        """Gives the array of scores away; the next question computes them again from the base."""
        room, self._total, self._total_at = self._total, NO_SCORES, cells(NO_SCORES)
        self._seen, self._best = -1, None
        return room

    def _room_for_scores(self) -> Scores:
        return self._arrays.array_for(self)

    def _current_inputs(self) -> list[Hashable]:
        self._base.catch_up()
        return [self._base.renewals, *(each.global_inputs(self._class) for each in self._with_inputs)]

    @cached_property
    def scorers(self) -> list[tuple[NodeScorer, Scores | None]]:
        shared = {scorer: (scorer, scores) for scorer, scores in self._base.scorers}
        own: dict[NodeScorer, tuple[NodeScorer, Scores | None]] = {each: (each, None) for each in self._own_scorers}
        known = shared | own
        return [known[each] for each in self._scored_by if each in known]

    def _score(self, rows: Rows) -> None:
        self._best = None
        if not isinstance(rows, slice):
            self._score_some(rows)
            return
        total, refused = self._total, []
        only: NDArray[np.intp] | None = None
        for node_filter in self._own_filters:
            found = node_filter.exceptions(self._class)
            assert found is not None
            if not found.refuses_others:
                refused.append(found.rows)
            elif only is None or len(found.rows) < len(only):
                only = found.rows
        if only is not None:
            total.fill(-math.inf)
            self._score_some(only)
            return
        np.copyto(total, self._base.scores)
        for scorer in self._own_scorers:
            scored = scorer.exceptions(self._class)
            assert scored is not None
            if len(scored):
                self._score_some(scored)
        for rows_refused in refused:
            total[rows_refused] = -math.inf

    def _score_some(self, rows: NDArray[np.intp]) -> None:
        total: Scores = self._base.scores[rows]
        fits = total > -math.inf
        for node_filter in self._own_filters:
            fits &= node_filter.codes(self._class, rows) == 0
        if self._own_scorers and fits.any():
            # In the order of scorers, because float sums depend on the order. A score of 0 changes no sum.
            total = np.zeros(len(rows))
            for scorer, scores in self.scorers:
                total += scorer.scores(self._class, rows) if scores is None else scores[rows]
        self._total[rows] = np.where(fits, total, -math.inf)

    def _score_one(self, row: NodeRow) -> float:
        total = self._base.score(row)
        if total == -math.inf:
            return total
        for node_filter in self._own_filters:
            if node_filter.code(self._class, row):
                return -math.inf
        if any(scorer.score(self._class, row) for scorer in self._own_scorers):
            total = 0.0
            for scorer, scores in self.scorers:
                total += scorer.score(self._class, row) if scores is None else float(scores[row])
        return total
