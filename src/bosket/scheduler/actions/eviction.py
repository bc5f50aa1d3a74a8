"""What reclaim, preempt and consolidation have in common: for each pending job, a search for victims.

The actions differ in their `Policy`: which jobs may preempt, which jobs may be victims, and which outcome is fair.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter

from bosket.scheduler.framework.eviction_extension import ScenarioValidator, VictimFilter
from bosket.scheduler.framework.extension_points import AllOf
from bosket.scheduler.framework.job_order import JobsByQueue
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.operation import lost_gpu_seconds
from bosket.scheduler.framework.scenario import Batch
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import CauseOf
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.proposal import Proposal
from bosket.scheduler.model.queue import QueueRow
from bosket.scheduler.model.reason import DelayNotElapsed, GangShort, MinRuntimeNotElapsed, PodUnfit, SearchCutShort
from bosket.scheduler.model.search_statistics import SearchResult, SearchStatistics
from bosket.scheduler.solver.budget import ActionBudget, Budget, JobBudget
from bosket.scheduler.solver.domain_room import DomainRoom
from bosket.scheduler.solver.failed import FailedJobs
from bosket.scheduler.solver.job_kind import JobKinds
from bosket.scheduler.solver.order import Entries, JobTable
from bosket.scheduler.solver.pruning import Rules, pruned
from bosket.scheduler.solver.room import largest_amounts
from bosket.scheduler.solver.search import Search, SearchOutcome, Solution
from bosket.scheduler.solver.simulation_order import Branches


class Policy(ABC):
    """The rules of one action."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def may_ask(self, job: JobState) -> bool:
        """Whether the action concerns this job at all."""
        del job
        return True

    def is_entitled(self, job: JobState) -> bool:
        """Whether the job may preempt at present; this can change when other jobs are evicted."""
        del job
        return True

    def has_a_chance(self, job: JobState) -> bool:
        """Whether a search could succeed. A job without a chance counts as failed, unlike a job that isn't entitled."""
        del job
        return True

    @abstractmethod
    def candidates(self, job: JobState, running: JobTable) -> Mapping[QueueRow, Entries]:
        """Jobs that may be victims, by queue."""

    def search(self, job: JobState, tables: Tables, budget: JobBudget) -> SearchOutcome:
        """Searches for victims and prunes the solution."""
        with self.session.limits.noting() as obstacles:
            solution = self.solve(job, tables, budget)
            if solution is not None:
                solution = self.pruned(job, tables, solution)
        return SearchOutcome(solution, obstacles.refused, obstacles.protected_until, budget.cut_short())

    @abstractmethod
    def validators(self) -> AllOf[ScenarioValidator] | list[ScenarioValidator]: ...

    def solve(
        self, job: JobState, tables: Tables, budget: JobBudget, among: Collection[JobState] | None = None
    ) -> Solution | None:
        """A solution for the job, in effect; None if there is none. `among`: the only jobs that may be victims, if
        given."""
        candidates = only(among, self.candidates(job, tables.running))
        return self.searcher(job, tables, candidates, budget).solve() if any(candidates.values()) else None

    def solve_with(
        self, job: JobState, tables: Tables, victims: tuple[Batch, ...], budget: JobBudget
    ) -> Solution | None:
        """A solution with exactly these victims, in effect; None if they make no room."""
        return self.searcher(job, tables, {}, budget).solve_with(victims)

    def searcher(
        self, job: JobState, tables: Tables, candidates: Mapping[QueueRow, Entries], budget: JobBudget
    ) -> Search:
        return Search(
            self.session,
            job,
            branches=tables.branches,
            running=tables.running,
            candidates=candidates,
            validators=self.validators(),
            budget=budget,
        )

    def accepts(self, solution: Solution) -> bool:
        """A condition on solutions beside the validators."""
        del solution
        return True

    def has_no_better_right(self, other: JobState, victim: JobState) -> bool:
        """Whether another job may be evicted instead of a victim, if that means fewer pods."""
        return other.queue_row == victim.queue_row and other.job.priority == victim.job.priority

    def pruned(self, job: JobState, tables: Tables, solution: Solution) -> Solution:
        """The solution without evictions that aren't needed, in effect."""
        if not solution.is_complete or not solution.evicted:
            return solution
        session, limits = self.session, self.session.configuration.search_budgets
        candidates: list[JobState] = []

        def solve_instead(victim: JobState, victims: Collection[JobState], budget: Budget) -> Solution | None:
            if not candidates:
                candidates.extend(state for entries in tables.running.by_queue.values() for _, state in entries)
            others = {each for each in candidates if self.has_no_better_right(each, victim)}
            among = (others | set(victims)) - {victim}
            statistics = session.outcome.searches
            session.outcome.searches = SearchStatistics(
                turns=statistics.turns
            )  # pruning must not be counted as a search
            try:
                return self.solve(job, tables, JobBudget(budget.left, budget, limits), among)
            finally:
                session.outcome.searches = statistics

        def work_lost(batch: Batch) -> float:
            return sum([lost_gpu_seconds(session.snapshot.now, batch.job, task) for task in batch.tasks])

        def is_cheapest(found: Solution) -> bool:
            return found.search.is_cheapest(found, tables.largest())

        return pruned(solution, Rules(self.accepts, is_cheapest, solve_instead, work_lost))

    @abstractmethod
    def explain(self, preemptor: JobState) -> CauseOf:
        """The cause of evictions for this job, as text for people, with the amounts before the search."""

    @abstractmethod
    def alike(self, job: JobState) -> Hashable:
        """A key: for jobs with equal keys, one failed search stands for the others."""


def evict_for_pending(session: Session, policy: Policy) -> None:
    """Searches victims for every pending job, in order, and commits solutions, until the action's budget is used up.

    A session with proposals only checks these.
    """
    if session.proposals is not None:
        _evict_as_proposed(session, policy, session.proposals.get(session.action, ()))
    elif _has_work(session):
        _search_for_pending(session, policy)


def _search_for_pending(session: Session, policy: Policy) -> None:
    waiting = session.jobs.pending()
    asking = [job for job in waiting if policy.may_ask(job) and not _is_delayed(session, job)]
    tables: Tables | None = None
    budget = ActionBudget(session.configuration.search_budgets, session.action)
    kinds = session.once(JobKinds)
    failed: defaultdict[Hashable, FailedJobs] = defaultdict(lambda: FailedJobs(kinds))
    still_to_come = Counter(map(policy.alike, asking))
    # A job that isn't entitled may become so only after evictions for another job: if none is, none will be.
    turns = JobsByQueue(session, asking) if any(map(policy.is_entitled, asking)) else None
    while turns is not None and (job := turns.pop()) is not None:
        # One failed search stands for equal jobs behind it; the count says whether any are left to profit.
        likeness = policy.alike(job)
        still_to_come[likeness] -= 1
        if not policy.is_entitled(job) or (job.was_evicted and job.short_of_pods()):
            continue
        failed_alike = failed[likeness]
        if session.settings.use_scheduling_signatures and not failed_alike.is_worth_trying(job):
            continue
        if _is_hopeless(session, job):
            continue
        if not policy.has_a_chance(job) or not _may_have_domains(session, job):
            if still_to_come[likeness]:
                failed_alike.add(job)
            continue
        if tables is None:  # built late: often no job gets this far
            tables = Tables(session)
            if not tables.running.by_queue:
                return  # there are no victims
        # A job gets its minimum even when the action's budget is used up, so that no job starves behind expensive ones.
        for_job = budget.for_job()
        session.outcome.searches.tried[session.action] += 1
        if for_job.is_used_up():
            _note(session, "not_attempted", for_job)
            session.outcome.not_placed(job, SearchCutShort(session.action, begun=False))
            continue
        # Before the search: the text shows the accounts as they were when the right to preempt was established.
        cause_of = policy.explain(job)
        outcome = policy.search(job, tables, for_job)
        solution = outcome.solution
        if solution is not None:
            changed = solution.statement.jobs()
            is_served = _conclude(session, job, solution, cause_of)
            tables.renew(changed)
            if is_served:
                _note(session, "solved", for_job)
                continue
        _note(session, "deadline_exhausted" if outcome.cut_short else "generators_exhausted", for_job)
        if outcome.refused is not None:
            session.outcome.not_placed(job, outcome.refused)
        if (
            solution is None
            and not math.isinf(outcome.protected_until)
            and _is_a_matter_of_time(session, policy, job, tables, for_job)
        ):
            session.outcome.not_placed(job, MinRuntimeNotElapsed(outcome.protected_until))
        # A job with successors has fewer victims than equal jobs, so its failure does not stand for theirs.
        if still_to_come[likeness] and not session.outcome.successors(job.job) - {job.job.key}:
            failed_alike.add(job)
        if for_job.cut_short():
            # KAI ends the whole action here; one large gang then keeps all others from being tried, cycle by cycle.
            session.outcome.not_placed(job, SearchCutShort(session.action, begun=True))


def _evict_as_proposed(session: Session, policy: Policy, proposals: Sequence[Proposal]) -> None:
    """Checks proposals of earlier searches by all rules, and commits those that still hold."""
    if not proposals:
        return
    waiting = {state.job.key: state for state in session.jobs.pending()}
    tables = Tables(session)
    session.outcome.jobs_seen = len(proposals)
    for proposal in proposals:
        job = waiting.get(proposal.job)
        if job is None or job.job.group.metadata.uid != proposal.uid or not job.has_left_over:
            continue
        if not policy.may_ask(job) or _is_delayed(session, job) or not policy.is_entitled(job):
            continue
        if (job.was_evicted and job.short_of_pods()) or _is_hopeless(session, job) or not policy.has_a_chance(job):
            continue
        victims = _proposed_victims(proposal, policy.candidates(job, tables.running))
        if victims is None:
            continue
        cause_of = policy.explain(job)
        budget = ActionBudget(session.configuration.search_budgets, session.action).for_job()
        solution = policy.solve_with(job, tables, victims, budget)
        if solution is None:
            continue
        solution = policy.pruned(job, tables, solution)
        changed = solution.statement.jobs()
        if solution.is_complete and solution.statement.fits_without_tentative_room():
            solution.statement.commit(cause_of)
            tables.renew(changed)
        else:
            solution.statement.discard()


def _proposed_victims(proposal: Proposal, candidates: Mapping[QueueRow, Entries]) -> tuple[Batch, ...] | None:
    """The proposal's victims in this snapshot; None when one is gone or may no longer be evicted for the job."""
    states = {state.job.key: state for entries in candidates.values() for _, state in entries}
    batches: list[Batch] = []
    for key, pods in proposal.victims:
        state = states.get(key)
        if state is None:
            return None
        active = {(task.key, task.uid): task for task in state.active_tasks()}
        if not all(pod in active for pod in pods):
            return None
        batches.append(Batch(state, tuple(active[pod] for pod in pods)))
    return tuple(batches)


def _note(session: Session, result: SearchResult, budget: JobBudget) -> None:
    """Counts the result of the search for one job."""
    session.outcome.searches.jobs[session.action, result, budget.is_reduced] += 1
    if result == "not_attempted" or (result == "deadline_exhausted" and budget.is_reduced):
        session.outcome.searches.exhausted[session.action] = None


def _is_a_matter_of_time(session: Session, policy: Policy, job: JobState, tables: Tables, budget: JobBudget) -> bool:
    """Whether the job would be served if no minimum run time protected its victims."""
    if budget.is_used_up():
        return False
    with session.limits.without_protection():
        solution = policy.solve(job, tables, budget)
    if solution is None:
        return False
    solution.statement.discard()
    return solution.is_complete


def _conclude(session: Session, job: JobState, solution: Solution, cause_of: CauseOf) -> bool:
    """Commits the solution and returns True, unless the job can't be served like that.

    As in KAI, a gang isn't served while sub-groups lack their minimum, even if it could do without them; the outcome
    stays in effect for the other jobs of this cycle. Unlike in KAI, all of it is rolled back at the end, no job gets a
    nomination for such room, and a gang does this only once.
    """
    statement = solution.statement
    if not solution.is_complete:
        if session.outcome.is_passed_over(job.job):
            statement.discard()
        else:
            statement.leave_in_effect()
            session.outcome.pass_over(job.job)
        return False
    if not statement.fits_without_tentative_room():
        statement.leave_in_effect()
        return False
    statement.commit(cause_of)
    return True


def only(among: Collection[JobState] | None, candidates: Mapping[QueueRow, Entries]) -> Mapping[QueueRow, Entries]:
    """The candidates among the given jobs; all candidates for None."""
    if among is None:
        return candidates
    return {row: [entry for entry in entries if entry[1] in among] for row, entries in candidates.items()}


class Tables:
    """The pending and the running jobs, kept from one search to the next."""

    def __init__(self, session: Session) -> None:
        self._session = session
        running = (session.jobs.state_of(job) for job in session.snapshot.jobs.values() if _may_be_active(job))
        self.running = JobTable(session, (state for state in running if state and _may_be_victim(state)))
        self._largest: list[float] | None = None

    def largest(self) -> list[float]:
        """By resource, the most that any possible victim holds. Computed once, before anybody is evicted."""
        if self._largest is None:
            entries = (entry for entries in self.running.by_queue.values() for entry in entries)
            classes = {task.pod_class for _, state in entries for task in state.job.tasks}
            self._largest = largest_amounts(self._session, classes)
        return self._largest

    @cached_property
    def branches(self) -> Branches:
        """The pending jobs, for simulations. Built for the first search: often no job may be evicted at all."""
        waiting = (self._session.jobs.state_of(job) for job in self._session.snapshot.unsettled if job.has_pending)
        return Branches(
            self._session, JobTable(self._session, (state for state in waiting if state and state.has_left_over))
        )

    def renew(self, jobs: set[JobState]) -> None:
        """Updates the tables for jobs that a search changed."""
        for job in jobs:
            self.branches.pending.renew(job, keep=job.has_left_over)
            self.running.renew(job, keep=_may_be_victim(job))


_delay = attrgetter("preemption_delay_seconds")


def _has_work(session: Session) -> bool:
    """Whether any job may be a victim, or any waiting job has a preemption delay whose end must be reported."""
    snapshot = session.snapshot
    if any(map(_delay, snapshot.unsettled)):
        return True
    return session.outcome.version > 0 or any(job.preemptible and job.is_active for job in snapshot.jobs.values())


def _may_be_active(job: Job) -> bool:
    """Whether the job has running tasks, or may have got a place in this cycle. Cheap: called for every job."""
    return job.preemptible and (job.is_active or job.has_pending)


def _may_be_victim(job: JobState) -> bool:
    return job.job.preemptible and job.has_active


def admitted(
    preemptor: JobState, running: JobTable, filters: AllOf[VictimFilter], rows: list[QueueRow]
) -> Mapping[QueueRow, Entries]:
    """By queue, the running jobs to which no victim filter objects."""
    result: dict[QueueRow, Entries] = {}
    asking = [each for each in filters if each.by_job]
    for row in rows:
        entries = running.by_queue.get(row)
        if not entries or not all(each.takes_from(preemptor, row) for each in filters):
            continue
        for each in asking:
            entries = [entry for entry in entries if each.takes(preemptor, entry[1])]
        result[row] = entries
    return result


def _is_delayed(session: Session, job: JobState) -> bool:
    """Whether the job's preemption delay isn't over."""
    ends = preemption_delay_end(job.job, evicted_at=session.snapshot.now if job.was_evicted else None)
    if ends is None or session.snapshot.now >= ends:
        return False
    session.outcome.consider_again_at(ends)
    session.outcome.not_placed(job, DelayNotElapsed(job.job.group.spec.preemptionDelay or "", ends))
    return True


def preemption_delay_end(job: Job, *, evicted_at: float | None) -> float | None:
    """When the job may preempt: its preemption delay after its creation, or after its own eviction."""
    if not job.preemption_delay_seconds:
        return None
    since = max(job.created, job.history.last_evicted or 0.0, evicted_at or 0.0)
    return since + job.preemption_delay_seconds


def _may_have_domains(session: Session, job: JobState) -> bool:
    """Whether the topology has domains that are large enough for the job, if no other pod were there."""
    return not job.is_constrained or DomainRoom(session, job, job.next_tasks(), at_best=True).suffices()


def _is_hopeless(session: Session, job: JobState) -> bool:
    """Whether some task can't be placed whatever is evicted."""
    if job.next_alike() is not None and not any(map(session.unfit, job.job.pod_sets[0].pending)):
        return False  # avoids sorting the pending tasks
    for task in job.next_tasks():
        unfit = session.unfit(task)
        if unfit is not None:
            pod_set = job.pod_set(task)
            session.outcome.not_placed(job, GangShort(task.key, 0, pod_set.min_available, "", PodUnfit(unfit)))
            return True
    return False
