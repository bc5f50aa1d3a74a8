"""Pruning: removes evictions that aren't needed from a solution.

A search takes victims in order and stops at the first choice that works. Two things are tried then, for a bounded
number of steps:

* Leave victims out: most pods first, then most lost work, then the latest; as many at once as counts allow, then
halves, then one by one. What remains is simulated by the same rules as any scenario.
* Protect each victim in turn and search among jobs of no better right instead: they may be fewer pods.

The result is minimal: without any one victim, the preemptor does not fit, or as many pods are evicted, or more work is
lost, or a job with a better right is evicted. For most solutions counts show that nothing can be gained, and nothing is
simulated. `actions.eviction` prunes each solution before the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.scenario import Batch
from bosket.scheduler.solver.budget import Budget
from bosket.scheduler.solver.eviction import may_go_alone
from bosket.scheduler.solver.search import Solution

#: Steps for pruning one solution.
MOST_STEPS = 1_000


class Rules(NamedTuple):
    """The action's rules about other victims."""

    #: `Policy.accepts`
    accepts: Callable[[Solution], bool]
    #: `Search.is_cheapest`
    is_cheapest: Callable[[Solution], bool]
    #: a solution without the victim, with other victims of no better right; in effect
    solve_instead: Callable[[JobState, Collection[JobState], Budget], Solution | None]
    #: GPU seconds of work that evicting the batch throws away
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
    """The solution in effect again, after its statement was discarded."""
    again = solution.search.simulate(solution.scenario.batches, Budget())
    assert again is not None  # the same scenario, from the same state
    return again


def _with_others(best: Solution, rules: Rules, budget: Budget) -> Solution | None:
    """A solution with fewer evictions in which one of the victims stays; None, with nothing in effect, if there is
    none."""
    victims = dict.fromkeys(batch.job for batch in best.victims)
    # Before the statement is discarded: lost work is read from placements in effect.
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
    """The work that the solution throws away."""
    return sum(map(rules.work_lost, _gone(solution)))


def _gone(solution: Solution) -> Iterator[Batch]:
    """For each victim, the tasks that are really evicted or moved."""
    for batch in solution.victims:
        yield Batch(batch.job, tuple(task for task in batch.tasks if task in solution.gone))


class _Pruning:
    """Leaves victims of one solution out. A solution is in effect before and after."""

    def __init__(self, solution: Solution, rules: Rules, budget: Budget) -> None:
        self._best, self._rules, self._budget = solution, rules, budget
        self._is_in_effect = True
        self._tried: set[int] = set()  # victims as bits

    def run(self) -> Solution:
        while self._leave_some_out():
            pass
        return self._best if self._is_in_effect else _again(self._best)

    def _leave_some_out(self) -> bool:
        """Finds victims that can be left out; whether there are any."""
        victims, counts = self._best.victims, self._best.counts
        if counts is None or len(victims) < 2:
            return False
        needless = [each for each, is_needed in zip(victims, counts.needed(victims), strict=True) if not is_needed]
        if not needless:
            return False
        # Trials need the state before the search; the best solution is simulated again at the end if none of them is
        # better.
        if self._is_in_effect:
            self._best.statement.discard()
            self._is_in_effect = False
        position = {batch: number for number, batch in enumerate(victims)}
        needless.sort(key=lambda each: (-len(each.tasks), -self._rules.work_lost(each), -position[each]))
        most = self._most_without(needless)
        return (len(most) > 1 and self._works_without(most)) or any(map(self._works_without, _chunks(needless)))

    def _most_without(self, needless: Iterable[Batch]) -> list[Batch]:
        """As many victims as can be left out one after the other, by counts."""
        left_out: list[Batch] = []
        for batch in needless:
            if self._may_work(_without(self._best.victims, [*left_out, batch])):
                left_out.append(batch)
        return left_out

    def _may_work(self, victims: Sequence[Batch]) -> bool:
        """Whether counts allow these victims alone, and none of them would stay as a partial gang."""
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
        # A set that failed once fails again: all simulations start from the same state.
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
        """True if `found` displaces a strict subset of the tasks that the best solution displaces and, per job, evicts
        no more tasks without a new place."""
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
