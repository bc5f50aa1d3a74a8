"""Search: finds victims for one pending job.

For each generator of scenarios: the largest part of the job that can be placed at all (1, 2, 4 … tasks, then by
halving), each success recording its victims for the next attempt; then the whole job. A set of victims that failed
isn't tried again in the same search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bosket.api.object import ObjectKey
from bosket.scheduler.framework.departure import Aftermath, Baseline, Departure
from bosket.scheduler.framework.eviction_extension import ScenarioGenerator, ScenarioValidator
from bosket.scheduler.framework.extension_points import AllOf
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.placement import place_job
from bosket.scheduler.framework.scenario import Batch, Scenario
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.node import Mask
from bosket.scheduler.model.queue import QueueRow
from bosket.scheduler.model.reason import EvictionRefused
from bosket.scheduler.model.resource import GPU, mig_gpus
from bosket.scheduler.model.search_statistics import CHEAPEST_MOVES, ScenarioState, SearchResult, Turn
from bosket.scheduler.model.task import Task, TaskStatus
from bosket.scheduler.solver.accumulation import Accumulation, VictimSequence
from bosket.scheduler.solver.batch_index import BatchIndex
from bosket.scheduler.solver.budget import Budget, JobBudget
from bosket.scheduler.solver.domain_room import DomainRoom
from bosket.scheduler.solver.order import Entries, JobTable, SortKey, VictimOrder
from bosket.scheduler.solver.room import Prospect, Room, free_amounts, least_departures
from bosket.scheduler.solver.simulation_order import Branches, SimulationOrder


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """A scenario that works; its statement is in effect."""

    statement: Statement
    victims: tuple[Batch, ...]  #: batches of which at least one task is evicted or moved
    gone: frozenset[Task]  #: the tasks that are evicted or moved
    lost: Counter[JobState]  #: by job: how many tasks are evicted without a new place
    #: whether all sub-groups of the job have their minimum, including those that the pod group could do without
    is_complete: bool
    #: whether the scenario has batches that are spared; without them the simulation may have another outcome
    spares_some: bool
    scenario: Scenario  #: the scenario with all batches
    search: Search  #: the search, for trying other victims once the statement is discarded
    counts: Counts | None  #: None for a single victim

    @property
    def evicted(self) -> int:
        """The number of tasks that are evicted or moved."""
        return len(self.gone)


@dataclass(frozen=True, slots=True, eq=False)
class SearchOutcome:
    """The result of the search for one job."""

    solution: Solution | None  #: in effect; None when there is none
    refused: EvictionRefused | None  #: the first refusal by a disruption budget
    #: when the first minimum run time of a protected job ends; infinite when no job was protected
    protected_until: float
    cut_short: bool  #: whether the budget ended the search


class Counts:
    """Which victims of a solution are needed, by counting."""

    def __init__(self, room: Room, index: BatchIndex) -> None:
        self._room, self._index = room, index

    def needed(self, victims: Sequence[Batch]) -> list[bool]:
        """For each victim, whether the other victims make too little room without it."""
        return self._room.needed([self._index.held(batch) for batch in victims])

    def may_suffice(self, victims: Iterable[Batch]) -> bool:
        return self._room.suffices_with(map(self._index.held, victims))

    def mask(self, victims: Iterable[Batch]) -> int:
        """The victims' tasks as bits of an integer."""
        return self._index.mask(victims)


class Search:
    """The search for one job's victims."""

    def __init__(
        self,
        session: Session,
        job: JobState,
        *,
        branches: Branches,
        running: JobTable,
        candidates: Mapping[QueueRow, Entries],
        validators: AllOf[ScenarioValidator] | list[ScenarioValidator],
        budget: JobBudget,
    ) -> None:
        """`branches`: all pending jobs, for simulations; `running`: all jobs that may be victims of anybody;
        `candidates`: those that may be victims of this job, by queue, in order."""
        self._session, self._job, self._budget = session, job, budget
        self._spared = session.outcome.successors(job.job)
        self._branches, self._running = branches, running
        self._candidates, self._validators = _without(candidates, self._spared), validators
        branches.pending.find_requests()
        self._baseline = Baseline(session.nodes, session.queues)
        self._allocated, self._non_preemptible = self._baseline.allocated, self._baseline.non_preemptible
        self._feasible = _feasible_nodes(session, job)
        self._free = free_amounts(session)  # valid for all attempts: each restores the accounts
        self._rooms: dict[tuple[Task, ...], Room] = {}  # by the tasks to be placed: what there is without any victim
        self._index = BatchIndex(session)
        self._sequences: dict[int, VictimSequence] = {}  # by the victims that go in any case, as bits
        self._failed: dict[tuple[Task, ...], set[int]] = {}  # by the tasks to be placed: victims as bits
        self._generator = CHEAPEST_MOVES
        self._tasks = tuple(job.next_tasks())  # all that are to be placed
        self._counts: dict[tuple[Task, ...], Counts] = {}  # by the tasks to be placed

    def solve(self) -> Solution | None:
        """A solution for the whole job, in effect; None when there is none."""
        tasks = self._tasks
        if not tasks or not self._may_fit(tasks):
            return None
        for generator in self._session.extensions.scenario_generators:
            budget = self._budget.for_generator(generator.name)
            self._generator = generator.name
            with self._session.timer("search", generator.name):
                solution = self._with_first_victim(tasks, generator, budget) or self._step_by_step(
                    tasks, generator, budget
                )
            self._end_turn(solution, budget)
            if solution is not None:
                return solution
        return None

    def _may_fit(self, tasks: tuple[Task, ...]) -> bool:
        """Whether the whole job could fit if every candidate were evicted.

        If not, searching for the largest part that fits would be wasted.
        """
        with self._job.narrowed_to(tasks):  # as when it is tried: sub-groups that can be done without are left out
            wanted = tuple(self._job.next_tasks())
        room = self._room_for(wanted)
        rows = [row for row, entries in self._candidates.items() if entries]
        # Often one victim suffices, and more victims never make less room.
        last = (self._candidates[row][-1][1] for row in rows[:1])
        if any(room.suffices_with((self._index.held_by_all(job),)) for job in last):
            return True
        return room.suffices_with(map(self._running.held, rows))

    def _room_for(self, pending: tuple[Task, ...]) -> Room:
        """The room for these tasks before any eviction; callers must not add to it."""
        found = self._rooms.get(pending)
        if found is None:
            found = self._rooms[pending] = Room(self._session, pending, self._feasible, self._free)
        return found

    def _end_turn(self, solution: Solution | None, budget: Budget) -> None:
        result: SearchResult = "deadline_exhausted" if budget.is_used_up() else "generators_exhausted"
        turn = Turn(self._session.action, self._generator, "solved" if solution is not None else result)
        self._session.outcome.searches.turns.append(turn)

    def _count(self, state: ScenarioState) -> None:
        self._session.outcome.searches.scenarios[self._session.action, self._generator, state] += 1

    def solve_with(self, victims: tuple[Batch, ...]) -> Solution | None:
        """A solution with exactly these victims, in effect; None if they make no room."""
        self._generator = CHEAPEST_MOVES
        return self.simulate(victims, self._budget) if self._tasks and victims else None

    def simulate(self, victims: tuple[Batch, ...], budget: Budget) -> Solution | None:
        """A solution of the whole job with exactly these victims. The search must have no other statement in effect."""
        with self._job.narrowed_to(self._tasks):
            pending = tuple(self._job.next_tasks())
            scenario = Scenario(self._job, pending, victims, self._allocated, self._non_preemptible)
            return self._try(scenario, self._feasible, budget)

    def is_cheapest(self, solution: Solution, largest: Sequence[float]) -> bool:
        """Whether counting shows that no solution evicts fewer pods. `largest`: by resource, the most that a victim
        holds."""
        evicted = solution.evicted
        pending = solution.scenario.pending
        return evicted < 2 or least_departures(self._session, pending, self._free, largest, evicted) >= evicted

    def counts(self, scenario: Scenario) -> Counts:
        """Counts about a scenario's victims, without simulating; computed before the victims are evicted."""
        known = self._counts.get(scenario.pending)
        if known is None:
            known = self._counts[scenario.pending] = Counts(self._room_for(scenario.pending), self._index)
        for batch in scenario.batches:
            self._index.held(batch)
        return known

    def _with_first_victim(
        self, tasks: tuple[Task, ...], generator: ScenarioGenerator, budget: Budget
    ) -> Solution | None:
        """The whole job with only the first victim in order.

        Success here implies success for every part of the job, so the step-by-step search would end with the same
        victim. Where sub-groups may be left out, a part may have other victims, so this is skipped.
        """
        if len(tasks) == 1 or self._job.job.root.leaves_choice:
            return None
        return self._attempt(tasks, (), generator, budget, most_victims=1)

    def _step_by_step(self, tasks: tuple[Task, ...], generator: ScenarioGenerator, budget: Budget) -> Solution | None:
        """The whole job, starting with the victims for the largest part that can be placed."""
        recorded: tuple[Batch, ...] = ()
        solution: Solution | None = None

        def works(count: int) -> bool:
            nonlocal recorded, solution
            solution = self._attempt(tasks[:count], recorded, generator, budget)
            if solution is None:
                return False
            recorded = solution.victims
            if count < len(tasks) or solution.spares_some:
                solution.statement.discard()
                solution = None
            return True

        if not largest(len(tasks), works):
            return None
        return solution or self._attempt(tasks, recorded, generator, budget)

    def _attempt(
        self,
        tasks: tuple[Task, ...],
        recorded: tuple[Batch, ...],
        generator: ScenarioGenerator,
        budget: Budget,
        most_victims: int | None = None,
    ) -> Solution | None:
        if budget.is_used_up():
            return None
        with self._job.narrowed_to(tasks):
            pending = tuple(self._job.next_tasks())
            if not pending:
                return None
            start = Scenario(self._job, pending, recorded, self._allocated, self._non_preemptible)
            feasible, room = self._feasible, self._room_for(pending)
            if recorded:
                feasible = feasible.copy()
                for batch in recorded:
                    feasible[self._index.held(batch).rows] = True
                room = Room(self._session, pending, feasible, self._free)
            search = Accumulation(
                self._session,
                start,
                self._victims_beside(recorded),
                self._index,
                feasible=feasible,
                room=room,
                domains=DomainRoom(self._session, self._job, tasks),
                budget=budget,
                most_victims=most_victims,
            )
            failed = self._failed.setdefault(pending, set())
            for scenario in generator(search):
                self._count("emitted")
                victims = self._index.mask(scenario.batches)
                if victims in failed:
                    self._count("duplicate")
                    continue
                if not search.may_suffice(scenario, victims):
                    budget.spend(1)
                    self._session.outcome.searches.filtered[self._session.action] += 1
                    continue
                solution = None
                if search.may_suffice_in_domains(scenario, victims):
                    solution = self._try(scenario, feasible, budget)
                else:
                    # Charged as if simulated, so that budgets reach exactly as far with this shortcut as without it.
                    self._spend(scenario, victims, budget)
                    self._session.outcome.searches.filtered[self._session.action] += 1
                if solution is not None:
                    return solution
                failed.add(victims)
                if budget.is_used_up():
                    return None
        return None

    def _victims_beside(self, recorded: tuple[Batch, ...]) -> VictimSequence:
        """The further victims beside the recorded ones, in order."""
        mask = self._index.mask(recorded)
        found = self._sequences.get(mask)
        if found is None:
            tasks = {task for batch in recorded for task in batch.tasks}
            order = VictimOrder(self._session, self._candidates)
            found = self._sequences[mask] = VictimSequence(self._session, order, tasks)
        return found

    def _spend(self, scenario: Scenario, victims: int, budget: Budget) -> bool:
        """Charges the steps of a simulation. False if the scenario must not be simulated: no victims, or a protected
        one.

        `victims`: tasks as bits.
        """
        if not victims or (self._spared and any(batch.job.job.key in self._spared for batch in scenario.batches)):
            return False
        budget.spend(victims.bit_count() + len(scenario.pending))
        return True

    def _try(self, scenario: Scenario, feasible: Mask, budget: Budget) -> Solution | None:
        """Simulates a scenario: evicts the victims, places everybody again in order, asks the validators.

        The preemptor is not placed first: a victim with a better right to the room gets it back, so an unfair eviction
        fails by itself.
        """
        if not self._spend(scenario, self._index.mask(scenario.batches), budget):
            return None
        self._count("simulated")
        session, preemptor = self._session, self._job
        on = feasible.copy()
        counts = self.counts(scenario) if len(scenario.batches) > 1 else None
        statement = Statement(session, preemptor.job, self._baseline)
        departures = self._index.departures(scenario.batches)
        # The victims' own nodes are feasible in any case, so that a victim can be spared where it was.
        on[[row for each in departures for row in each.rows]] = True
        statement.evict_all(departures)
        order = SimulationOrder(self._branches, session, {preemptor: None, **self._keys_of_victims(departures)})
        prospect: Prospect | None = Prospect(session, scenario.pending, on)
        # Every participant is placed by the code of real placements, in the order of queues and jobs. The simulation
        # ends as soon as the preemptor has failed, or can no longer succeed.
        while (next_job := order.pop()) is not None:
            failed = place_job(session, statement, next_job, on=on, real=False)
            if next_job is preemptor:
                prospect = None
                is_lost = failed is not None
            else:
                is_lost = prospect is not None and failed is None and prospect.is_lost()
            if is_lost:
                statement.discard()
                return None
        victims = scenario.victims()
        # Only tasks that really go count against disruption budgets: a spared victim keeps its place.
        gone = [task for job, task in victims if job.status(task) in (TaskStatus.RELEASING, TaskStatus.PIPELINED)]
        if session.limits.objection(gone) or not all(validator(scenario) for validator in self._validators):
            self._count("validator_rejected")
            statement.discard()
            return None
        going = set(gone)
        # Spared batches are dropped. `spares_some` makes the caller simulate again without them, because their presence
        # may have influenced the order of placements.
        batches = tuple(batch for batch in scenario.batches if not going.isdisjoint(batch.tasks))
        whole = preemptor.is_whole()
        return Solution(
            statement,
            batches,
            frozenset(gone),
            Counter(job for job, task in scenario.victims() if job.status(task) is TaskStatus.RELEASING),
            is_complete=whole,
            spares_some=len(batches) < len(scenario.batches),
            scenario=scenario,
            search=self,
            counts=counts,
        )

    def _keys_of_victims(self, departures: Sequence[Departure]) -> dict[JobState, SortKey | None]:
        """The scenario's jobs with their sort keys; None where not known yet.

        What follows from a departure is cached in it, because a search evicts the same tasks in many scenarios.
        """
        only: dict[JobState, Departure | None] = {}
        for each in departures:
            # With two departures of one job neither one's aftermath is the job's.
            only[each.job] = each if each.job not in only else None
        keys: dict[JobState, SortKey | None] = {}
        for job, departure in only.items():
            if departure is None:
                keys[job] = None
                continue
            after = departure.aftermath
            if after is None:
                key = self._session.orders.job_key(job)
                after = departure.aftermath = Aftermath(key, job.next_tasks(), job.next_request(), job.least_request())
            else:
                job.recall(after.tasks, after.request, after.least)
            keys[job] = after.key
        return keys


def _without(candidates: Mapping[QueueRow, Entries], spared: Collection[ObjectKey]) -> Mapping[QueueRow, Entries]:
    """The candidates without the successors of the job (see `CycleOutcome.successors`)."""
    if not spared:
        return candidates
    return {row: [entry for entry in entries if entry[1].job.key not in spared] for row, entries in candidates.items()}


def largest(count: int, works: Callable[[int], bool]) -> int:
    """The largest number up to `count` that works, if smaller ones do when a larger one does; 0 when none does."""
    good, bad, next_one = 0, count + 1, 1
    while True:
        if not works(next_one):
            bad = next_one
            break
        good = next_one
        if good == count:
            return good
        next_one = min(2 * next_one, count)
    while bad - good > 1:
        middle = (good + bad) // 2
        if works(middle):
            good = middle
        else:
            bad = middle
    return good


def _feasible_nodes(session: Session, job: JobState) -> Mask:
    """(node,): nodes with a free GPU or part of one, for a job whose tasks all want GPUs; else all nodes.

    Room beside a pod that is only promised a shared GPU doesn't count: using it would evict a pod on another node for
    that promise.
    """
    if not all(task.pod_class.wants_gpu for task in job.job.tasks):
        return np.ones(len(session.snapshot.nodes), dtype=bool)
    nodes = session.nodes
    some = (nodes.idle[GPU] > 0) | (nodes.releasing[GPU] > 0)
    for resource, name in enumerate(session.snapshot.resource_names):
        if mig_gpus(name):
            some |= (nodes.idle[resource] > 0) | (nodes.releasing[resource] > 0)
    if nodes.shared:
        some |= nodes.idle[GPU] + nodes.shared.idle_parts() > 0
        some |= nodes.releasing[GPU] + nodes.shared.releasing_parts() > 0
    return np.asarray(some)
