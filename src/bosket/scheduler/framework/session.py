"""Session: one cycle's context. Opened on a snapshot, filled by plugins, used by actions, closed into Decisions.

The session only holds its parts together: what plugins registered (`extensions`), the accounts (`nodes`, `queues`,
`limits`), what follows from them (`jobs`, `views`, `orders`, `capacity`), and the result so far (`outcome`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Any, TypeVar, cast

from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.configuration.settings import Settings
from bosket.scheduler.framework.capacity import Capacity
from bosket.scheduler.framework.class_view import ViewContext
from bosket.scheduler.framework.class_views import ClassViews
from bosket.scheduler.framework.cycle_outcome import CycleOutcome
from bosket.scheduler.framework.eviction_limits import EvictionLimits
from bosket.scheduler.framework.extension import HeldNodes, ReasonBook
from bosket.scheduler.framework.extension_points import ExtensionPoints, Registrar
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.job_states import JobStates
from bosket.scheduler.framework.ledger import NodeLedger, QueueLedger
from bosket.scheduler.framework.orders import Orders
from bosket.scheduler.model.decisions import Decisions, Waiting
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.proposal import Proposals
from bosket.scheduler.model.queue import QueueTree
from bosket.scheduler.model.reason import NO_CODE, SpecUnusable, unknown_subgroup
from bosket.scheduler.model.resource import QueueAmounts
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, UNBOUND, WAITING, PodClass, Task

#: Entered for the time of each step: ("open", ""), in it ("plugin", name) for each; ("action", name), in it
#: ("search", generator) for each turn; ("close", ""), in it ("plugin close", name) for each plugin with a `close`
#: method.
StepTimer = Callable[[str, str], AbstractContextManager[None]]


def untimed(step: str, name: str) -> AbstractContextManager[None]:
    """For those who don't measure."""
    del step, name
    return nullcontext()


T = TypeVar("T")


class Session(Registrar):
    """The parts of one cycle's context."""

    def __init__(self, snapshot: Snapshot, configuration: Configuration) -> None:
        self.snapshot = snapshot
        self.configuration = configuration
        self.timer: StepTimer = untimed
        self.action = ""  #: the current action, by its configured name
        #: findings of earlier searches: evicting actions check these and search for no other victims; None: they search
        self.proposals: Proposals | None = None
        self.extensions = ExtensionPoints()
        self.reason_book = ReasonBook()
        self.nodes = NodeLedger(snapshot.nodes)
        self.queues = QueueLedger(snapshot)
        self.limits = EvictionLimits(snapshot.disruptions)
        self.outcome = CycleOutcome(snapshot, self.limits)
        self.orders = Orders(self.extensions)
        self.capacity = Capacity(snapshot.nodes, self.extensions)
        self.jobs = JobStates(snapshot, self.nodes, self.orders, self.capacity, self.outcome)
        detailed = configuration.settings.detailed_fit_errors
        self.views = ClassViews(ViewContext(snapshot, self.nodes, self.extensions, self.reason_book, detailed))
        self._made: dict[Callable[..., Any], Any] = {}  # see `once`

    @property
    def settings(self) -> Settings:
        return self.configuration.settings

    @property
    def queue_depth(self) -> int | None:
        """How many jobs per queue the current action may try; None for all."""
        return self.configuration.queue_depth.get(self.action)

    def once(self, make: Callable[[Session], T]) -> T:
        """`make(session)`, computed on the first call and kept for all actions."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast(T, self._made[make])

    def unfit(self, task: Task) -> str | None:
        """Why the task can't be placed on any node; None if no task check objects."""
        for check in self.extensions.task_checks:
            objection = check(task)
            if objection is not None:
                return objection
        return None

    def held_from(self, job: JobState, tasks: Sequence[Task]) -> HeldNodes | None:
        """What is held for others that start later, as far as the job would be in their way."""
        reservers = self.extensions.reservers
        return reservers[0].held_from(job, tasks) if reservers else None

    def is_free_now(self, pod_class: PodClass, row: NodeRow) -> bool:
        """Whether a pod of the class could start on the node now, without waiting for resources that are being
        released."""
        if not self.nodes.fits_idle(pod_class, row):
            return False
        for check in self.extensions.free_now:  # noqa: SIM110 - asked for every pod: a generator costs more
            if not check(pod_class, row):
                return False
        return True

    def close(self) -> Decisions:
        """The cycle's decisions, with a report on every job that was not settled before."""
        outcome, tree = self.outcome, self.snapshot.queues
        # Before anything is read from job states: tentative placements must not be reported.
        outcome.take_back()
        waiting, placed, settled = [], [], []
        for job in self.snapshot.unsettled:
            state = self.jobs.known(job)
            reasons = outcome.reasons(job)
            statuses = state.statuses() if state else {task.status for task in job.tasks}
            still_waits = not statuses.isdisjoint(WAITING)
            # After an eviction in this cycle the job lacks pods, and reasons from earlier in the cycle are no longer
            # true.
            if still_waits and state is not None and state.was_evicted and (short := state.short_of_pods()) is not None:
                reasons = [short]
            if job.orphan_tasks and not reasons and not statuses:
                reasons = [SpecUnusable(job.key, unknown_subgroup(job.orphan_tasks[0].subgroup, job.key), NO_CODE)]
            if reasons or job.orphan_tasks or still_waits:
                left = state.left_over() if state else []
                active = not statuses.isdisjoint(ACTIVE_ALLOCATED)
                waiting.append(Waiting(job, tuple(left), tuple(reasons), active=active))
            elif not statuses.isdisjoint(UNBOUND):
                placed.append(job)
            else:
                settled.append(job)
        return Decisions(
            operations=tuple(outcome.operations),
            waiting=tuple(waiting),
            placed=tuple(placed),
            settled=tuple(settled),
            started=tuple(outcome.started),
            stale=tuple(outcome.stale),
            recovered=tuple(outcome.recovered),
            passed_over=tuple(outcome.passed_over),
            reservations=outcome.reservations,
            look_again_at=outcome.look_again_at,
            queue_allocated=_by_queue(tree, self.queues.allocated),
            fair_share=_by_queue(tree, self.queues.fair_share),
            searches=outcome.searches,
            steps=tuple(outcome.steps),
            job_key=self._job_key,
        )

    def _job_key(self, job: Job) -> tuple[object, ...]:
        # Computed on demand after the cycle, where a command shows the order of waiting jobs; most cycles never need
        # it.
        return self.orders.job_key(self.jobs.state(job))


def _by_queue(tree: QueueTree, amounts: Sequence[QueueAmounts]) -> Mapping[str, QueueAmounts]:
    # Closing plugins receive this mapping and must not change it.
    return MappingProxyType({queue.name: amounts[row] for row, queue in enumerate(tree.queues)})
