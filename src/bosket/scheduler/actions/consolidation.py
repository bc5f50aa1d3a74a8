"""Consolidation: moves running jobs closer together so that a pending job fits, if every moved pod has a new place."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from heapq import nlargest

from bosket.scheduler.actions.eviction import Policy, Tables, evict_for_pending, only
from bosket.scheduler.configuration.settings import NO_BOUND
from bosket.scheduler.framework.eviction_extension import ScenarioValidator
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.scenario import Batch, Scenario
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import CauseOf
from bosket.scheduler.model.cause import Consolidated
from bosket.scheduler.model.queue import QueueRow
from bosket.scheduler.model.task import TaskStatus
from bosket.scheduler.solver.budget import JobBudget
from bosket.scheduler.solver.cheapest_moves import cheapest_to_move
from bosket.scheduler.solver.order import Entries, JobTable
from bosket.scheduler.solver.room import ROUNDING
from bosket.scheduler.solver.search import Solution

#: Steps for KAI's search where the cheapest moves are already known to work.
STEPS_TO_COMPARE = 1000
#: Steps for KAI's search where the cheapest moves did not work: it rarely finds more.
STEPS_AGAINST_HOPE = 10_000


def consolidate(session: Session) -> None:
    """Moves preemptible jobs for pending jobs."""
    if session.settings.max_consolidation_preemptees:
        evict_for_pending(session, _Consolidation(session))


class _Consolidation(Policy):
    def may_ask(self, job: JobState) -> bool:
        return job.job.preemptible

    def has_a_chance(self, job: JobState) -> bool:
        """Moving others about makes no GPUs: there must be enough of them free already."""
        taking = self.session.snapshot.taking_nodes()
        free = float(self.session.nodes.free_gpus()[taking].sum())
        return free + ROUNDING >= job.least_request()[0]

    def candidates(self, job: JobState, running: JobTable) -> Mapping[QueueRow, Entries]:
        bound = self.session.settings.max_consolidation_preemptees
        by_queue: Mapping[QueueRow, Entries] = running.by_queue
        if bound > 0:
            # The last `n` of all jobs are among the last `n` of each queue; one more, because the job itself doesn't
            # count.
            by_queue = {row: entries[-bound - 1 :] for row, entries in by_queue.items()}
        result = {row: [entry for entry in entries if entry[1] is not job] for row, entries in by_queue.items()}
        return result if bound == NO_BOUND else _least_important(result, bound)

    def solve(
        self, job: JobState, tables: Tables, budget: JobBudget, among: Collection[JobState] | None = None
    ) -> Solution | None:
        """Once somebody has gone in this cycle, nobody changes places among the shared GPUs of a node.

        What another job would gain rests on moves that have yet to happen, and the same pods would be moved about again
        and again; in the next cycle it is known what has become of them.
        """
        return self._accepted(self._find(job, tables, budget, among))

    def solve_with(
        self, job: JobState, tables: Tables, victims: tuple[Batch, ...], budget: JobBudget
    ) -> Solution | None:
        return self._accepted(super().solve_with(job, tables, victims, budget))

    def _accepted(self, solution: Solution | None) -> Solution | None:
        """The solution, unless it moves somebody among the shared GPUs of a node after others have gone."""
        if solution is None or self.accepts(solution):
            return solution
        solution.statement.discard()
        return None

    def accepts(self, solution: Solution) -> bool:
        return not self.session.outcome.has_evicted or not solution.statement.moves_within_a_node()

    def has_no_better_right(self, other: JobState, victim: JobState) -> bool:
        """Everybody may be moved: nobody loses his place by it."""
        del other, victim
        return True

    def _find(
        self, job: JobState, tables: Tables, budget: JobBudget, among: Collection[JobState] | None
    ) -> Solution | None:
        """As KAI does it, unless fewer moves are enough, or its way takes too long."""
        candidates = only(among, self.candidates(job, tables.running))
        if not any(candidates.values()):
            return None
        cheapest = self._cheapest_moves(job, tables, budget, among)
        steps = budget.part(STEPS_TO_COMPARE if cheapest else STEPS_AGAINST_HOPE)
        search = self.searcher(job, tables, candidates, steps)
        solution = search.solve()
        if cheapest is None or (solution is None and self._sees_all(tables) and not steps.cut_short()):
            return solution  # as in KAI, the other actions then try: they may need fewer evictions
        if solution is not None and (
            not solution.is_complete or solution.evicted <= sum(len(each.tasks) for each in cheapest)
        ):
            return solution
        if solution is not None:
            solution.statement.discard()
        return search.solve_with(cheapest)

    def _sees_all(self, tables: Tables) -> bool:
        """Whether the bound leaves nobody out."""
        bound = self.session.settings.max_consolidation_preemptees
        return bound == NO_BOUND or sum(map(len, tables.running.by_queue.values())) <= bound

    def _cheapest_moves(
        self, job: JobState, tables: Tables, budget: JobBudget, among: Collection[JobState] | None
    ) -> tuple[Batch, ...] | None:
        """The fewest moves that make room; None when there is no such choice, or it doesn't work out."""
        spared = {job.job.key, *self.session.outcome.successors(job.job)}
        by_queue = only(among, tables.running.by_queue).values()
        running = (state for entries in by_queue for _, state in entries if state.job.key not in spared)
        moves = cheapest_to_move(self.session, job.next_tasks(), running)
        bound = self.session.settings.max_consolidation_preemptees
        if not moves or (bound != NO_BOUND and len({batch.job for batch in moves}) > bound):
            return None
        solution = self.searcher(job, tables, {}, budget).solve_with(moves)
        if solution is None:
            return None
        solution.statement.discard()
        return moves

    def validators(self) -> list[ScenarioValidator]:
        return [_everybody_has_a_place]

    def explain(self, preemptor: JobState) -> CauseOf:
        del preemptor
        return lambda _victim, _task, moves_to: Consolidated(moves_to)

    def alike(self, job: JobState) -> Hashable:
        del job
        return None


def _least_important(candidates: Mapping[QueueRow, Entries], count: int) -> Mapping[QueueRow, Entries]:
    """At most so many candidates, the last in order. KAI takes arbitrary ones (the order of a map), and one more than
    configured."""
    ranked = ((entry[0], row, entry) for row, entries in candidates.items() for entry in entries)
    result: dict[QueueRow, Entries] = {}
    for _, row, entry in reversed(nlargest(count, ranked)):
        result.setdefault(row, []).append(entry)
    return result


def _everybody_has_a_place(scenario: Scenario) -> bool:
    return not any(job.status(task) == TaskStatus.RELEASING for job, task in scenario.victims())
