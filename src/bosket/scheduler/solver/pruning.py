"""Prunes what a search for victims has found: nobody goes, or moves, whose eviction isn't needed.

A search takes victims in their order, node by node and part by part of the preemptor, and ends with the first choice
that works. Two things are done about it, for a bounded number of steps:

* Victims are left out, most pods first, then most work lost, then the last to be found: as many at once as counts let
  hope for, then halves, then one by one. The rest is simulated by the same rules as any scenario.
* Each victim in turn is spared and others of no better right are searched instead of it: they may be fewer pods.

What is left is minimal: without any one of the victims the preemptor finds no room, or as many pods must go, or more
work is lost, or somebody goes who has a better right to stay. Counts say of most solutions that nothing can be gained,
and then nothing is simulated. `actions.eviction` prunes each solution before it commits it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.scenario import Batch
from bosket.scheduler.solver.budget import Budget
from bosket.scheduler.solver.eviction import may_go_alone
from bosket.scheduler.solver.search import Solution

#: How far the pruning of one solution goes.
MOST_STEPS = 1_000


class Rules(NamedTuple):
    """What the action has to say about other victims."""

    #: what is asked of a solution beside the validators' consent
    accepts: Callable[[Solution], bool]
    #: whether no fewer pods will do, by counts
    is_cheapest: Callable[[Solution], bool]
    #: a solution for which nobody but others of no better right goes instead of a victim; in effect
    solve_instead: Callable[[JobState, Collection[JobState], Budget], Solution | None]
    #: GPU seconds that are thrown away
    work_lost: Callable[[Batch], float]


def pruned(solution: Solution, rules: Rules) -> Solution:
    """The solution, or one with fewer evictions; in effect."""
    if rules.is_cheapest(solution):
        return solution
    budget = Budget(MOST_STEPS)
    best = _Pruning(solution, rules, budget).run()
    while not budget.is_used_up() and not rules.is_cheapest(best):
        cheaper = _with_others(best, rules, budget)
        if cheaper is None:
            return _again(best)
        best = cheaper
    return best


def _again(solution: Solution) -> Solution:
    """A solution whose statement was discarded, in effect once more."""
    again = solution.search.simulate(solution.scenario.batches, Budget())
    assert again is not None  # the same scenario, from the same state
    return again


def _with_others(best: Solution, rules: Rules, budget: Budget) -> Solution | None:
    """A solution with fewer evictions for which one of the victims stays; nothing is in effect if there is none."""
    victims = dict.fromkeys(batch.job for batch in best.victims)
    limit = _lost(best, rules)
    best.statement.discard()
    for victim in victims:
        found = rules.solve_instead(victim, victims, budget)
        if found is None:
            continue
        if found.is_complete:
            found = _Pruning(found, rules, budget).run()
            if found.evicted < best.evicted and found.lost.total() <= best.lost.total() and _lost(found, rules) < limit:
                return found
        found.statement.discard()
    return None


def _lost(solution: Solution, rules: Rules) -> float:
    """The work that is thrown away."""
    return sum(map(rules.work_lost, _gone(solution)))


def _gone(solution: Solution) -> Iterator[Batch]:
    """Of each victim what really goes."""
    for batch in solution.victims:
        yield Batch(batch.job, tuple(task for task in batch.tasks if task in solution.gone))


class _Pruning:
    """Leaves victims of one solution out. A solution is in effect before and after, none meanwhile."""

    def __init__(self, solution: Solution, rules: Rules, budget: Budget) -> None:
        self._best, self._rules, self._budget = solution, rules, budget
        self._is_in_effect = True
        self._tried: set[int] = set()  # victims as bits

    def run(self) -> Solution:
        while self._leave_some_out():
            pass
        return self._best if self._is_in_effect else _again(self._best)

    def _leave_some_out(self) -> bool:
        """Finds victims that needn't go; whether there are any."""
        victims, counts = self._best.victims, self._best.counts
        if counts is None or len(victims) < 2:
            return False
        needless = [each for each, is_needed in zip(victims, counts.needed(victims), strict=True) if not is_needed]
        if not needless:
            return False
        if self._is_in_effect:
            self._best.statement.discard()
            self._is_in_effect = False
        position = {batch: number for number, batch in enumerate(victims)}
        needless.sort(key=lambda each: (-len(each.tasks), -self._rules.work_lost(each), -position[each]))
        most = self._most_without(needless)
        return (len(most) > 1 and self._works_without(most)) or any(map(self._works_without, _chunks(needless)))

    def _most_without(self, needless: Iterable[Batch]) -> list[Batch]:
        """As many as can be left out one after the other, if counts are all that matters."""
        left_out: list[Batch] = []
        for batch in needless:
            if self._may_work(_without(self._best.victims, [*left_out, batch])):
                left_out.append(batch)
        return left_out

    def _may_work(self, victims: Sequence[Batch]) -> bool:
        """Whether counts allow these victims alone, and none of them stays as a gang in part."""
        counts = self._best.counts
        assert counts is not None
        if not victims or not counts.may_suffice(victims):
            return False
        by_job: dict[JobState, list[Batch]] = {}
        for each in victims:
            by_job.setdefault(each.job, []).append(each)
        return all(may_go_alone(job, [task for it in batches for task in it.tasks]) for job, batches in by_job.items())

    def _works_without(self, left_out: Collection[Batch]) -> bool:
        victims, counts = _without(self._best.victims, left_out), self._best.counts
        assert counts is not None
        mask = counts.mask(victims)
        if mask in self._tried or self._budget.is_used_up() or not self._may_work(victims):
            return False
        self._tried.add(mask)
        found = self._best.search.simulate(tuple(victims), self._budget)
        if found is None:
            return False
        if self._is_leaner(found) and self._rules.accepts(found):
            self._best, self._is_in_effect = found, True
            return True
        found.statement.discard()
        return False

    def _is_leaner(self, found: Solution) -> bool:
        """Whether some stay, and nobody goes instead or for good who would only have moved: the order of jobs says who
        keeps a place."""
        return found.is_complete and found.gone < self._best.gone and found.lost <= self._best.lost


def _without(victims: Iterable[Batch], left_out: Collection[Batch]) -> list[Batch]:
    return [each for each in victims if each not in left_out]


def _chunks(batches: Sequence[Batch]) -> Iterator[Sequence[Batch]]:
    """All of them, halves, quarters, and so on down to single ones."""
    size = len(batches)
    while size:
        for start in range(0, len(batches), size):
            yield batches[start : start + size]
        size //= 2
