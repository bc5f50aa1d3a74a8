"""A session: one cycle's context. Opened on a snapshot, filled by plugins, used by actions, closed into Decisions."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bosket.api.object import ObjectKey
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.framework.allowance import Allowance
from bosket.scheduler.framework.class_view import ClassView
from bosket.scheduler.framework.extension import (
    AllOf,
    BindDetail,
    CapacityCheck,
    DeviceChoice,
    EachOf,
    FirstOpinion,
    FreeNow,
    GpuScorer,
    InTurn,
    JobKey,
    KeyOf,
    NodeFilter,
    NodeScorer,
    NodeSubsetChoice,
    PlaceKeeper,
    PlacementListener,
    PlacementPlan,
    QueueOrder,
    ReasonBook,
    ReasonCodes,
    ReclaimRight,
    ScenarioGenerator,
    ScenarioValidator,
    SubGroupKey,
    SumOf,
    TaskCheck,
    TaskKey,
    VictimFilter,
)
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.ledger import NodeLedger, QueueLedger
from bosket.scheduler.framework.neighbour_view import SharedBases
from bosket.scheduler.framework.protection import Protection
from bosket.scheduler.framework.watch import Watch, unwatched
from bosket.scheduler.model.decisions import Decisions, Eviction, Operation, StaleMark, Waiting
from bosket.scheduler.model.job import Job, PodSet, SubGroupSet
from bosket.scheduler.model.node import Mask
from bosket.scheduler.model.proposal import Proposals
from bosket.scheduler.model.queue import QueueTree
from bosket.scheduler.model.reason import (
    NO_CODE,
    QUEUE_DOES_NOT_EXIST,
    AccessDenied,
    GatesClosed,
    JobReason,
    NotReady,
    QueueUnusable,
    SpecUnusable,
    TopologyUnsatisfied,
    unknown_subgroup,
)
from bosket.scheduler.model.resource import Shares
from bosket.scheduler.model.search_tally import SearchTally
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, UNBOUND, WAITING, PodClass, Task

if TYPE_CHECKING:
    from bosket.scheduler.framework.statement import Statement
    from bosket.scheduler.framework.turns import Ranked
    from bosket.scheduler.solver.job_kind import JobKinds


class FixedVerdict(NamedTuple):
    """What filters say of nodes that nothing in a cycle changes."""

    codes: ReasonCodes
    allowed: Mask  #: where they object to nothing
    is_welcome: bool  #: whether they object to no node at all


class Session:
    """Accounts, extension points and outcomes of one cycle."""

    def __init__(self, snapshot: Snapshot, configuration: Configuration) -> None:
        self.snapshot = snapshot
        self.settings = configuration.settings
        self.search_budgets = configuration.search_budgets
        self._queue_depth = configuration.queue_depth
        self.nodes = NodeLedger(snapshot.nodes)
        self.smallest_device_mib, self.largest_device_mib = (
            snapshot.nodes.devices.smallest,
            snapshot.nodes.devices.largest,
        )
        self.queues = QueueLedger(snapshot)
        self.allowance = Allowance(snapshot.disruptions)
        self.protection = Protection()
        self._preempted_by = {victim: set(jobs) for victim, jobs in snapshot.preempted_by.items()}
        self.reason_book = ReasonBook()
        self.version = 0  #: changes with every commit
        self.action = ""  #: the one that is under way, by its configured name
        self.searches = SearchTally()
        self.ranked: dict[int, Ranked] = {}  #: queues as an action before ranked them; see `Turns`
        self.job_kinds: JobKinds | None = None  #: made by the first search, for all actions
        self.watch: Watch = unwatched
        #: what earlier searches found: actions that evict check it and search for nobody; None lets them search
        self.proposals: Proposals | None = None
        #: by queue: what each may count on; set by the plugin that knows about shares
        self.fair_share: Sequence[Shares] = [(math.inf, math.inf, math.inf)] * len(snapshot.queues.queues)

        self.job_order: KeyOf[JobKey] = KeyOf()
        self.task_order: KeyOf[TaskKey] = KeyOf()
        self.subgroup_order: KeyOf[SubGroupKey] = KeyOf()
        self.queue_order: FirstOpinion[QueueOrder] = FirstOpinion()
        self.task_checks: FirstOpinion[TaskCheck] = FirstOpinion()
        self.node_filters: AllOf[NodeFilter] = AllOf()
        self.node_scores: SumOf[NodeScorer] = SumOf()
        self.node_subsets: FirstOpinion[NodeSubsetChoice] = FirstOpinion()
        self.placement_plans: InTurn[PlacementPlan] = InTurn()
        self.gpu_scores: SumOf[GpuScorer] = SumOf()
        self.device_choices: FirstOpinion[DeviceChoice] = FirstOpinion()
        self.capacity_checks: FirstOpinion[CapacityCheck] = FirstOpinion()
        self.placement_listeners: EachOf[PlacementListener] = EachOf()
        self.free_now: AllOf[FreeNow] = AllOf()
        self.place_keepers: EachOf[PlaceKeeper] = EachOf()
        self.bind_details: EachOf[BindDetail] = EachOf()
        self.reclaim_rights: AllOf[ReclaimRight] = AllOf()
        self.reclaim_filters: AllOf[VictimFilter] = AllOf()
        self.preempt_filters: AllOf[VictimFilter] = AllOf()
        self.reclaim_validators: AllOf[ScenarioValidator] = AllOf()
        self.preempt_validators: AllOf[ScenarioValidator] = AllOf()
        self.scenario_generators: InTurn[ScenarioGenerator] = InTurn()

        #: searches that found room for a gang that isn't served all the same; they count as decided until taken back
        self.left_in_effect: list[Statement] = []

        self._states: dict[ObjectKey, JobState] = {}
        self._candidates: list[JobState] | None = None
        self._pending: list[JobState] | None = None  # candidates that had tasks left over when they were last looked at
        self._views: dict[int, ClassView] = {}
        self._shared_bases = SharedBases(self)
        # what filters say of nodes that nothing in this cycle changes, by what they look at of a class
        self._fixed: dict[Hashable, FixedVerdict] = {}
        self._dear: dict[int, list[int]] = {}  # by class: sizes of devices
        self._prices: dict[tuple[int, int, int | None], Shares] = {}  # by class, number and size of devices
        self._reasons: dict[ObjectKey, list[JobReason]] = {}
        self._stale: list[StaleMark] = []
        self._recovered: list[Job] = []
        self._look_again_at = math.inf
        self._operations: list[Operation] = []
        self._evictions = 0  # among them
        self._started: list[Job] = []
        self._passed_over: list[Job] = []
        self._tried_again: set[ObjectKey] = set()  # jobs that are judged by what really fits, at the end of the cycle

    # What actions ask

    def candidates(self) -> list[JobState]:
        """Jobs with pending tasks that may be scheduled at all. The others are told why."""
        if self._candidates is None:
            self._candidates = self._find_candidates()
        return self._candidates

    def _find_candidates(self) -> list[JobState]:
        result = []
        for job in self.snapshot.unsettled:
            if job.problem is None and (not job.has_waiting or job.key in self.snapshot.held):
                continue
            reason = self._reason_against(job)
            if reason is not None:
                self._add_reason(job, reason)
            else:
                result.append(self.state(job))
        return result

    def pending(self) -> list[JobState]:
        """Those of the candidates that still have tasks left over. Asked when an action begins.

        What is decided isn't undone: whoever has nothing left over by then isn't looked at again.
        """
        known = self.candidates() if self._pending is None else self._pending
        pending = [state for state in known if state.has_left_over]
        if not self.left_in_effect:
            self._pending = pending
        return pending

    @property
    def queue_depth(self) -> int | None:
        """How many jobs of one queue the action that is under way may try; None for all of them."""
        return self._queue_depth.get(self.action)

    def state(self, job: Job) -> JobState:
        state = self._states.get(job.key)
        if state is None:
            state = self._states[job.key] = JobState(job, self, self.snapshot.queues.rows[job.queue])
        return state

    def state_of(self, job: Job) -> JobState | None:
        """The job's state; None when its queue can't hold jobs."""
        found = self._states.get(job.key)
        if found is None and self.snapshot.queues.leaf(job.queue) is not None:
            found = self.state(job)
        return found

    def view(self, pod_class: PodClass) -> ClassView:
        """Fit and scores of a pod class over all nodes, kept true while decisions are made."""
        view = self._views.get(pod_class.index)
        if view is None:
            view = self._views[pod_class.index] = self._shared_bases.make_view(pod_class)
        return view

    def is_welcome(self, pod_class: PodClass) -> bool:
        """Whether no filter objects to any node, so that only what is free there counts."""
        filters = [each for each in self.node_filters if each.concerns(pod_class)]
        return all(map(_is_fixed, filters)) and self.look_at_nodes(pod_class, filters).is_welcome

    def look_at_nodes(self, pod_class: PodClass, filters: Sequence[NodeFilter]) -> FixedVerdict:
        """What fixed filters say of all nodes; the first objection counts."""
        known_by = tuple([(each, each.known_by(pod_class)) for each in filters])
        found = self._fixed.get(known_by)
        if found is None:
            codes: ReasonCodes = np.zeros(len(self.snapshot.nodes), dtype=np.int32)
            for each in filters:
                codes = np.where(codes == 0, each.codes(pod_class, slice(None)), codes)
            found = self._fixed[known_by] = FixedVerdict(codes, codes == 0, not codes.any())
        return found

    def unfit(self, task: Task) -> str | None:
        """Why the task can't be placed, whatever the node."""
        for check in self.task_checks:
            objection = check(task)
            if objection is not None:
                return objection
        return None

    def is_free_now(self, pod_class: PodClass, row: int) -> bool:
        """Whether pods of a class needn't wait for resources of the node."""
        if not self.nodes.fits_idle(pod_class, row):
            return False
        for check in self.free_now:  # noqa: SIM110 - asked for every pod that is placed: a generator costs more
            if not check(pod_class, row):
                return False
        return True

    def over_capacity(self, job: JobState) -> JobReason | None:
        """Why the job's queue has no room for its next tasks."""
        for check in self.capacity_checks:
            reason = check(job, job.least_request())
            if reason is not None:
                return reason
        return None

    def too_dear(self, job: JobState, task: Task) -> dict[int, JobReason]:
        """By size of devices: why the task's queue has no room for it there.

        The job as a whole was checked, with the largest devices there are: on smaller ones memory costs more.
        """
        reasons: dict[int, JobReason] = {}
        if task.pod_class.share is None or not (sizes := self._dear_sizes(task.pod_class)):
            return reasons
        for size in sizes:
            for check in self.capacity_checks:
                reason = check(job, task.pod_class.required_on(size))
                if reason is not None:
                    reasons.setdefault(size, reason)
        return reasons

    def price(self, pod_class: PodClass, count: int, device_mib: int | None) -> Shares:
        """What so many pods ask for together, if all devices were of this size. Jobs that are alike get the very same
        object: whether the next job of a queue asks for something else is then seen at once."""
        key = (pod_class.index, count, device_mib)
        found = self._prices.get(key)
        if found is None:
            gpus, millicores, memory = pod_class.shared_by(device_mib)
            found = self._prices[key] = (gpus * count, millicores * count, memory * count)
        return found

    def _dear_sizes(self, pod_class: PodClass) -> list[int]:
        """Sizes of devices on which pods of a class cost more than was checked for their job as a whole."""
        found = self._dear.get(pod_class.index)
        if found is None:
            devices = self.snapshot.nodes.devices
            checked = pod_class.shared_by(devices.largest)[0]
            sizes = sorted(set(devices.sizes))
            found = [size for size in sizes if pod_class.required_on(size)[0] > checked]
            self._dear[pod_class.index] = found
        return found

    # Orders

    def job_key(self, job: JobState) -> tuple[object, ...]:
        return (*[key(job) for key in self.job_order], job.job.created, job.job.key.name, job.job.key.namespace)

    def task_key(self, task: Task) -> tuple[object, ...]:
        return (*[key(task) for key in self.task_order], task.created, task.pod.metadata.uid, task.key)

    def in_order(self, tasks: Iterable[Task]) -> list[Task]:
        """Tasks as they are to be placed, sorted by `task_key`.

        One criterion after the other, the last one first: tasks have most of them in common or come sorted by them, so
        that this takes a third of what tuples of all of them do.
        """
        ordered = sorted(tasks, key=_task_key)
        ordered.sort(key=_task_uid)
        ordered.sort(key=_task_created)
        for key in reversed(self.task_order):
            keys = list(map(key, ordered))
            if keys.count(keys[0]) < len(keys):
                ordered.sort(key=key)
        return ordered

    def subgroup_key(self, job: JobState) -> Callable[[PodSet | SubGroupSet], tuple[object, ...]]:
        return lambda subgroup: (*(key(job, subgroup) for key in self.subgroup_order), subgroup.name)

    # Outcomes

    def decided(self, operations: Sequence[Operation], *, evicts: bool) -> None:
        """Records what a committed statement holds; `evicts`: whether evictions are among it."""
        self._operations += operations
        for each in operations if evicts else ():
            if isinstance(each, Eviction):
                self._evictions += 1
                self.allowance.spend(each.task)
                if each.preemptor is not None:
                    self._preempted_by.setdefault(each.job.key, set()).add(each.preemptor.key)
        self.version += 1

    @property
    def has_evicted(self) -> bool:
        """Whether somebody has been evicted, or moved, in this cycle."""
        return self._evictions > 0

    def stays(self, task: Task) -> None:
        """It was to move, and needn't: nothing was decided about it."""
        self._operations = [each for each in self._operations if each.task is not task]
        self._evictions = sum(isinstance(each, Eviction) for each in self._operations)

    def successors(self, job: Job) -> set[ObjectKey]:
        """Jobs that preempted this job, that preempted one of these, and so on: this job may not preempt them."""
        found: set[ObjectKey] = set()
        ahead = [job.key]
        while ahead:
            fresh = self._preempted_by.get(ahead.pop(), set()) - found
            found |= fresh
            ahead += fresh
        return found

    def is_passed_over(self, job: Job) -> bool:
        """Whether it held up others in an earlier cycle, for nothing, or was refused by KAI's estimates."""
        return job.key in self.snapshot.passed_over

    def passed_over(self, job: Job) -> None:
        """The job gets nothing in this cycle, in which KAI's ways are followed. The next cycle goes on without them."""
        self._passed_over.append(job)
        self.look_again_at(self.snapshot.now)

    def judges_by_fit(self, job: JobState) -> bool:
        """Whether the job may be placed wherever it really fits, and not only where KAI's estimates let it be tried.

        In a job's first cycle that is the case at the end only, after every job that KAI serves; from the next cycle on
        it is the case in the job's turn and in searches for victims.
        """
        return job.job.key in self._tried_again or self.is_passed_over(job.job)

    def judge_by_fit(self, job: JobState) -> None:
        """From now on, in this cycle."""
        self._tried_again.add(job.job.key)

    def placed_after_all(self, job: JobState) -> None:
        """The reasons why it couldn't be placed earlier in the cycle don't count any more."""
        self._reasons.pop(job.job.key, None)

    def started(self, job: JobState) -> None:
        """Records that the job's first tasks are bound."""
        if not job.had_active:
            job.had_active = True
            self._started.append(job.job)

    def not_placed(self, job: JobState, reason: JobReason) -> None:
        """One more reason why the job waits. Of two of the same kind the first is kept."""
        if isinstance(reason, TopologyUnsatisfied) and reason.shortage is not None:
            self._add_reason(job.job, reason.shortage)
        self._add_reason(job.job, reason)

    def _add_reason(self, job: Job, reason: JobReason) -> None:
        known = self._reasons.setdefault(job.key, [])
        if all(each.code != reason.code or (not reason.code and type(each) is not type(reason)) for each in known):
            known.append(reason)

    def stale(self, mark: StaleMark) -> None:
        self._stale.append(mark)

    def recovered(self, job: Job) -> None:
        self._recovered.append(job)

    def look_again_at(self, when: float) -> None:
        """From then on something may come out differently though nothing but the time has changed."""
        self._look_again_at = min(self._look_again_at, when)

    def take_back(self) -> None:
        """Undoes what was left in effect."""
        while self.left_in_effect:
            self.left_in_effect.pop().take_back()

    def close(self) -> Decisions:
        self.take_back()
        waiting, placed, settled = [], [], []
        for job in self.snapshot.unsettled:
            state = self._states.get(job.key)
            reasons = self._reasons.get(job.key, [])
            statuses = state.statuses() if state else {task.status for task in job.tasks}
            still_waits = not statuses.isdisjoint(WAITING)
            if still_waits and state is not None and state.was_evicted and (short := state.short_of_pods()) is not None:
                reasons = [short]
            if job.strangers and not reasons and not statuses:
                reasons = [SpecUnusable(job.key, unknown_subgroup(job.strangers[0].subgroup, job.key), NO_CODE)]
            if reasons or job.strangers or still_waits:
                left = state.left_over() if state else []
                active = not statuses.isdisjoint(ACTIVE_ALLOCATED)
                waiting.append(Waiting(job, tuple(left), tuple(reasons), active=active))
            elif not statuses.isdisjoint(UNBOUND):
                placed.append(job)
            else:
                settled.append(job)
        tree = self.snapshot.queues
        return Decisions(
            operations=tuple(self._operations),
            waiting=tuple(waiting),
            placed=tuple(placed),
            settled=tuple(settled),
            started=tuple(self._started),
            stale=tuple(self._stale),
            recovered=tuple(self._recovered),
            passed_over=tuple(self._passed_over),
            look_again_at=self._look_again_at,
            queue_allocated=_by_queue(tree, self.queues.allocated),
            fair_share=_by_queue(tree, self.fair_share),
            searches=self.searches,
        )

    def _reason_against(self, job: Job) -> JobReason | None:
        if job.problem is not None:
            return SpecUnusable(job.key, job.problem)
        if not (job.pod_sets[0] if job.is_plain else job.root).ready:
            short = next((pod_set for pod_set in job.pod_sets if not pod_set.ready), job.pod_sets[0])
            return NotReady(short.min_available, short.alive, short.gated, job.shown_name(short))
        queues = self.snapshot.queues
        unusable = queues.reason_against(job.queue)
        if unusable is not None:
            return QueueUnusable(unusable, NO_CODE if job.queue in queues.rows else QUEUE_DOES_NOT_EXIST)
        denied = self.snapshot.denied.get(job.key)
        if denied is not None:
            return AccessDenied(job.key, denied)
        return None if job.has_pending else GatesClosed(sum(pod_set.gated for pod_set in job.pod_sets))


_is_fixed, _task_key, _task_uid, _task_created = map(attrgetter, ("fixed", "key", "pod.metadata.uid", "created"))


def _by_queue(tree: QueueTree, amounts: Sequence[Shares]) -> Mapping[str, Shares]:
    # Plugins see it when the session closes, and may not change it.
    return MappingProxyType({queue.name: amounts[row] for row, queue in enumerate(tree.queues)})
