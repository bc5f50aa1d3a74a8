"""The contract of each extension point: what a plugin registers, and when the scheduler calls it.

A plugin registers in its `open`, with `session.node_scores.add(scorer)` and the like; `extension_points` says how the
answers of several plugins combine. Rules for all extensions:

* All calls of one session come from one thread, one after the other, between `open` and the end of the last action.
  Cycles that place and searches for victims are sessions of their own, which may run at the same time.
* Answers follow from the snapshot, the plugin's arguments and the accounts of the session (`session.nodes`,
  `session.queues`, placements of jobs). No clock, no network, no random numbers: the same snapshot must give the same
  decisions.
* An extension changes nothing but its own accounts. Those that change in the course of a cycle follow a
  `PlacementListener`, because most of what happens in a search is undone again.
* An exception ends the cycle: `decide` raises. The scheduler then finds the jobs, nodes or queues that the extension
  fails with, logs them, and decides anew without them (`bosket.scheduler.faults`). "It does not fit" is an answer, not
  an exception. What `open` raises names the plugin.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.scenario import Batch, Scenario
from bosket.scheduler.model.decisions import Bind
from bosket.scheduler.model.job import PodSet, SubGroupSet
from bosket.scheduler.model.node import Mask, NodeRow
from bosket.scheduler.model.queue import QueueRow
from bosket.scheduler.model.reason import JobReason
from bosket.scheduler.model.reservation import Reservation
from bosket.scheduler.model.resource import QueueAmounts
from bosket.scheduler.model.task import PodClass, Task

Rows = slice | NDArray[np.intp]  #: rows of the node table: all of them, or those that changed
ReasonCodes = NDArray[np.int32]  #: (node,), 0 where the node is fine, otherwise a number of the session's `ReasonBook`
Scores = NDArray[np.float64]  #: (node,)


class Exceptions(NamedTuple):
    """The nodes to which a filter objects, where they are known without a look at all nodes."""

    rows: NDArray[np.intp]  #: in any order; some may be in it twice
    #: False: the filter objects to these nodes, and to no others; True: it objects to all others, and perhaps to these
    refuses_others: bool = False


class NodeFilter(ABC):
    """Says which nodes may take pods of a class.

    Called by the view of a class: for all nodes when the class is first looked at, then for the nodes that a placement
    or its undoing has changed. Only nodes with enough of every resource matter: the view checks resources itself.
    """

    #: True when the answer depends on labels, taints and conditions alone: `codes` is then called once, not after
    #: placements.
    static = False
    #: True when placing pods never makes the filter withdraw an objection: a node that it refused stays refused until
    #: a pod leaves. Searches then stop as soon as a job has lost its last node.
    only_takes = False

    def concerns(self, pod_class: PodClass) -> bool:
        """Whether the filter can object to pods of this class at all. Called once per class and cycle."""
        del pod_class
        return True

    def global_inputs(self, pod_class: PodClass) -> Hashable:
        """The value that answers about *all* nodes depend on. Called after every placement, so it must be cheap.

        While it stays equal, only nodes where a placement changed are asked about again; when it changes, all are.
        """
        del pod_class
        return None

    def cache_key(self, pod_class: PodClass) -> Hashable:
        """The part of a class that the filter looks at, beside its requests (`needs`, `share`): classes with equal keys
        get the same answers. Called once per class and cycle."""
        return pod_class.index

    def exceptions(self, pod_class: PodClass) -> Exceptions | None:
        """The nodes to which the filter objects, for a filter that answers the same for almost all; None otherwise.

        Overridden by filters that go by which pods are on nodes, where each job may have a class of its own: views of
        classes that differ in nothing else then share everything else. Such filters override `global_inputs` as well.
        """
        del pod_class
        return None

    @abstractmethod
    def codes(self, pod_class: PodClass, rows: Rows) -> ReasonCodes:
        """0 for a node that may take the pod, otherwise the number of an objection in the session's `ReasonBook`."""

    def code(self, pod_class: PodClass, row: NodeRow) -> int:
        """`codes` of one row. Called after every placement for a filter that isn't static: worth writing out."""
        return int(self.codes(pod_class, np.array([row]))[0])


class NodeScorer(ABC):
    """Says how good nodes are for pods of a class; higher is better.

    Called as a `NodeFilter` is, for nodes that have room and that no filter refuses; what it says of others is ignored.
    Scores of several scorers are added up, so that their magnitude is their weight.
    """

    #: True when nothing that is decided in the cycle changes the scores: `scores` is then called once per class.
    static = False
    #: True when the score of one row costs about as much as those of many: changed rows are then asked for together.
    by_arrays = False

    def concerns(self, pod_class: PodClass) -> bool:
        """Whether its scores for pods of this class can be other than 0. Called once per class and cycle."""
        del pod_class
        return True

    def global_inputs(self, pod_class: PodClass) -> Hashable:
        """The value that scores of *all* nodes depend on, such as a minimum. See `NodeFilter.global_inputs`."""
        del pod_class
        return None

    def cache_key(self, pod_class: PodClass) -> Hashable:
        """The part of a class that the scorer looks at, beside its requests (`needs`, `share`): classes with equal keys
        get the same scores. Called once per class and cycle."""
        return pod_class.index

    def exceptions(self, pod_class: PodClass) -> NDArray[np.intp] | None:
        """All nodes with a score other than 0, in any order; None where finding them takes a look at every node.
        See `NodeFilter.exceptions`."""
        del pod_class
        return None

    def packs(self, pod_class: PodClass) -> bool:
        """Whether a pod that is placed on a node lowers no score of the node for the next pod of the class, as long as
        the next one has room in what is idle there (one that shares GPUs: on a device that others share), and changes
        no other node's score. Equal pods then go to the same node until it is full, without a call of `score`.

        Called once per class and cycle."""
        del pod_class
        return self.static

    @abstractmethod
    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        """Scores of these rows."""

    def score(self, pod_class: PodClass, row: NodeRow) -> float:
        """The score of one row, to the bit the same as in `scores`: ties are decided by exact equality.

        Called after every placement for a scorer that isn't static: worth writing out."""
        return float(self.scores(pod_class, np.array([row]))[0])


class NodeSubsets(NamedTuple):
    """Sets of nodes to try for a part of a job, one after the other, and which nodes are better among them."""

    masks: Iterable[Mask]  #: drawn one by one, each after the attempt with the one before was undone
    scores: Scores | None = None  #: added to what scorers say; -inf for nodes that must not be used


class NodeSubsetChoice(Protocol):
    """Says where all tasks of a part of a job may go together: None for no opinion, a reason when it is nowhere.

    Called for jobs with topology constraints alone, for the job as a whole and then for each sub-group, when the job
    is placed, in simulations too. `on`: the nodes that the larger part may use. Nothing of the part is placed yet.
    """

    def __call__(
        self, job: JobState, group: PodSet | SubGroupSet, tasks: Sequence[Task], on: Mask
    ) -> NodeSubsets | JobReason | None: ...


class PlacementPlan(Protocol):
    """Finds nodes for all tasks of a job at once, where placing its parts one after the other has failed.

    Called for jobs that aren't held to KAI's estimates (`CycleOutcome.ignores_estimates`): at the end of a job's first
    cycle, later in its turn and in simulations. Nothing of the job's next tasks is placed at that time.
    """

    def concerns(self, job: JobState) -> bool:
        """Whether the plan could find nodes where placing part by part fails. Cheap."""
        ...

    def find(self, job: JobState, tasks: Sequence[Task], on: Mask) -> Mapping[Task, NodeRow] | None:
        """By task, the row of its node, in the order in which the tasks are to be placed; None where there is no room.

        The tasks are then placed there by the usual code, which may still refuse."""
        ...


class GpuScorer(Protocol):
    """Says how good devices of a node are for a pod that shares GPUs; higher is better. Called once the node is chosen,
    where the node has more devices with room than the pod wants, unless a `DeviceChoice` has an opinion."""

    whole: float  #: for a GPU that nobody uses yet

    def shared(self, used: float) -> float:
        """The score of a device of which this part, from 0.0 to 1.0, is used."""
        ...


class DeviceChoice(Protocol):
    """Says which devices of a node are best for a pod that shares GPUs, by more than how full each is; None for no
    opinion. Called once the node is chosen. Where one is registered, scorers don't prefer a node for having a shared
    device with room: the choice of devices takes part in the choice of the node."""

    def __call__(self, pod_class: PodClass, row: NodeRow, names: Sequence[str], whole: int) -> Sequence[str] | None:
        """`names`: shared devices that take the pod; `whole`: so many GPUs can be opened for it, at most as many as it
        wants. Returns the shared ones among the best; the others of as many as it wants are opened."""
        ...


class Kind(Enum):
    """What a statement does with a task."""

    ALLOCATE = "allocate"
    PIPELINE = "pipeline"
    EVICT = "evict"
    SPARE = "spare"  #: take its eviction back
    STAY = "stay"  #: take an earlier eviction back too: it was moved in this cycle, and now needn't even be moved


class PlacementListener:
    """Follows every change to which pods are on the nodes, undone ones included.

    Called after each operation of a statement, once the job's placements and the accounts of queues and devices show
    it; when an operation is undone, after the job's placements were put back and before the node's account is. Calls
    come in the order of operations, and undoing calls in the reverse order, so that an account that does the opposite
    of what it did is exact. Where any listener is registered, searches place task by task, which costs
    more: a plugin that has nothing to follow in a snapshot registers none.

    Most listeners override `arrived` and `left` alone. One that must know which operation it was, such as an account of
    what tasks get beside their node, overrides `done` and `undone` instead.
    """

    #: True for a listener that assigns tasks more than their node (NUMA zones, devices). What it assigned can only be
    #: given back in the reverse order of operations, so that no search is left in effect while one is registered.
    assigns = False

    def arrived(self, task: Task, row: NodeRow) -> None:
        """The task was placed on the node, on idle or releasing resources, or its eviction was taken back."""

    def left(self, task: Task, row: NodeRow) -> None:
        """The task was evicted from the node, or its placement there was undone."""

    def stays(self, task: Task, row: NodeRow) -> bool:
        """Whether a task that was evicted from this node, and fits there again, would be given what it had.

        If every listener that assigns agrees, the task is spared; otherwise it is moved within its node."""
        del task, row
        return True

    def done(self, kind: Kind, task: Task, row: NodeRow) -> None:
        """The operation took effect."""
        (self.left if kind is Kind.EVICT else self.arrived)(task, row)

    def undone(self, kind: Kind, task: Task, row: NodeRow) -> None:
        """The operation was taken back."""
        (self.arrived if kind is Kind.EVICT else self.left)(task, row)


class BindDetail(Protocol):
    """Adds to a bind what a plugin gave the task beside its node. Called once for each task that is bound, when its
    statement is committed and its placement is still in effect. Returns the bind, or a copy with more in it."""

    def __call__(self, bind: Bind, row: NodeRow) -> Bind: ...


class FreeNow(Protocol):
    """Says whether pods of a class can have what they need on a node without waiting for anything to be released: if
    not, the task is pipelined. Called for each task that is placed, where its resources are idle on the chosen node."""

    def __call__(self, pod_class: PodClass, row: NodeRow) -> bool: ...


class TaskCheck(Protocol):
    """Says why a task can't be placed whatever the node, None when it can. Called for each task that is to be placed,
    each time, before nodes are looked at; searches skip a job with such a task. The answer is shown to the user."""

    def __call__(self, task: Task) -> str | None: ...


class JobKey(Protocol):
    """A sort key for jobs; smaller goes first. Called once per job and action that looks at it, again when a part of
    it was placed or taken. Victims are taken in the reverse order. Ties go by age, then by name."""

    def __call__(self, job: JobState) -> float: ...


class TaskKey(Protocol):
    """A sort key for tasks of a job; smaller goes first. It follows from the task alone: tasks are sorted once and the
    order is kept. Called only where more than one task of a pod set waits, or is evicted."""

    def __call__(self, task: Task) -> tuple[float, ...] | float: ...


class SubGroupKey(Protocol):
    """A sort key for sub-groups of a job; smaller goes first. Called when the next tasks of a job with sub-groups are
    looked for; it may depend on which of its tasks have a place."""

    def __call__(self, job: JobState, subgroup: PodSet | SubGroupSet) -> tuple[float, ...] | float: ...


class QueueOrder(Protocol):
    """Says which of two sibling queues goes first."""

    def rank(self, row: QueueRow, wanted: QueueAmounts, leaving: QueueAmounts) -> Any:
        """The rank of a queue: what compares with `<` and `==` to the ranks of siblings. The smaller goes first, equal
        is no opinion.

        `wanted`: what the job that is next in the queue asks for; `leaving`: where victims are looked for, what would
        be taken from the queue. The rank follows from these, the queue's account and the snapshot, and from nothing
        else: it is kept until one of them changes, also from one simulation to the next. Ranks are compared far more
        often than they are made; tuples of numbers are best.
        """
        ...


class ReclaimRight(Protocol):
    """Says whether a job may take back resources from other queues at all. Called by reclaim, when it begins and
    again in the job's turn, before any search."""

    def __call__(self, reclaimer: JobState) -> bool: ...


class VictimFilter(Protocol):
    """Says which jobs may be evicted for another one. Called before a search, for far more jobs than are evicted:
    it must be cheap. Nothing is being simulated at that time."""

    by_job: bool  #: whether `takes` has an opinion; otherwise only `takes_from` is called

    def takes_from(self, preemptor: JobState, queue_row: QueueRow) -> bool:
        """Whether jobs of a queue may be evicted. Called once per search and queue that has running jobs."""
        ...

    def takes(self, preemptor: JobState, victim: JobState) -> bool:
        """Whether a job may be evicted. One that is only protected for a time asks `session.limits.protects(until)`,
        so that the preemptor's status can say how long it has to wait."""
        ...


class ScenarioValidator(Protocol):
    """Says whether the outcome of a scenario is just. Called for each simulation that placed the preemptor, while
    the outcome is in effect: accounts and placements show it, `scenario` holds what queues held before. The first
    validator that refuses ends the scenario; the generator's next one is tried."""

    def __call__(self, scenario: Scenario) -> bool: ...


class GatheredVictims(Protocol):
    """The victims that one attempt of a search has gathered so far; scenarios are made of them."""

    start: Scenario  #: the pending tasks, with the victims that go in any case
    potential: list[Batch]  #: those gathered so far, in the order of victims
    feasible: Mask  #: nodes that may be used whatever victims are chosen

    def steps(self) -> Iterator[None]:
        """Gathers victims until they could possibly make room, again and again, until there are no more."""
        ...

    def tasks_of(self, batches: Iterable[Batch]) -> int:
        """The tasks of all these batches as bits of a number: the same tasks give the same number."""
        ...

    def scenario(self, batches: Sequence[Batch]) -> Scenario:
        """The scenario with these victims, beside those that go in any case."""
        ...

    def free_gpus(self) -> NDArray[np.float64]:
        """(node,): GPUs that are idle or being released, before any victim is evicted."""
        ...


class ScenarioGenerator(Protocol):
    """Says which sets of victims to try, one after the other, as victims are gathered in their order.

    Called for each attempt of a search: for the whole job, and for larger and larger parts of it. Drawn from until
    a scenario succeeds, its budget is used up, or it ends; between two draws the scenario before was undone. A
    scenario that has failed in the same search already is skipped and costs nothing.
    """

    name: str  #: in the configuration of budgets, in metrics and logs

    def __call__(self, search: GatheredVictims) -> Iterator[Scenario]: ...


class CapacityCheck(Protocol):
    """Says why a job's queue, or one above it, has no room for what the job's next tasks ask for; None when it has.

    Called in each turn of a job and in each simulation that places it, with the request if all GPUs were as large as
    the largest; for pods that ask for GPU memory once more with the request on smaller devices.
    """

    def __call__(self, job: JobState, requested: QueueAmounts) -> JobReason | None: ...


class HeldNodes(NamedTuple):
    """The nodes that a job may use beside what is held for others."""

    kind: Hashable  #: equal for jobs that are kept from the same nodes, if their tasks are alike
    on: Mask
    objection: str  #: of the other nodes, for people


class Reserver(Protocol):
    """Holds nodes for jobs that are to start later.

    Called for each job that is about to be placed, in simulations too; what is nominated for a job is its own all the
    same. At most one plugin registers one, and the first counts.
    """

    def reserve(self) -> tuple[Reservation, ...]:
        """The reservations of this cycle, in the order of their rights. Called once all plugins have opened."""
        ...

    def held_from(self, job: JobState, tasks: Sequence[Task]) -> HeldNodes | None:
        """What is held for others, as far as the job would be in their way; None where it may go anywhere."""
        ...


class ReasonBook:
    """Numbers for reasons, so that verdicts about thousands of nodes are arrays."""

    def __init__(self) -> None:
        self._texts = [""]
        self._numbers: dict[str, int] = {"": 0}

    def number(self, text: str) -> int:
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self._texts)
            self._texts.append(text)
        return found

    def numbers(self, texts: Sequence[str]) -> ReasonCodes:
        return np.array([self.number(text) for text in texts], dtype=np.int32)

    def text(self, number: int) -> str:
        return self._texts[number]
