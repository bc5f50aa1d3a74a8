"""The contract of each extension point: what a plugin registers, and when the scheduler calls it.

Here are orders, and all about where pods go; who may be evicted for whom is in `eviction_extension`.

A plugin registers in its `open`, with `session.node_scores.add(scorer)` and the like; `extension_points` says how the
answers of several plugins combine. Each contract says when and how often its extension is called, and what it may
assume. These rules hold for all of them:

* Threads: all calls of one session come from one thread, one after the other, between `open` and the end of the last
  action. Cycles that place and searches for victims are sessions of their own, which may run at the same time.
* Answers follow from the snapshot, the plugin's arguments and the accounts of the session (`session.nodes`,
  `session.queues`, placements of jobs). No clock, no network, no random numbers: the same snapshot must give the same
  decisions.
* Accounts show everything that the session has done so far, and in a search what the simulation has done: victims are
  being evicted, others have the nodes that they were given. Most of it is undone again.
* An extension changes nothing but its own accounts. Those that change in the course of a cycle follow a
  `PlacementListener`.
* An exception ends the cycle: `decide` raises, and the session with all accounts is dropped, whatever state an
  extension was in. The scheduler then finds the jobs, nodes, queues or plugins (those of other packages) with which
  `decide` raises, logs them, and decides anew without them (`bosket.scheduler.faults`). What `open` raises names the
  plugin. "It does not fit" is an answer, not an exception.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.job_state import JobState
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

    Called by the view of a class (`ClassView`): for all nodes when the class is first looked at, then for the nodes
    that a placement or its undoing has changed, just before the next pod of the class is placed. So a static filter is
    called once per class and cycle, any other one about once per placement. May assume that only its answer about nodes
    with enough of every resource matters: the view checks resources itself.
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

    Called as a `NodeFilter` is, and as often.
    May assume that only its scores of nodes that have room, and that no filter refuses, matter: others are ignored.
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

    Called for jobs with topology constraints alone, once for the job as a whole and then once for each sub-group, each
    time that the job is placed, in simulations too.
    May assume that nothing of the part is placed yet, and that `on` holds the nodes that the larger part may use.
    """

    def __call__(
        self, job: JobState, group: PodSet | SubGroupSet, tasks: Sequence[Task], on: Mask
    ) -> NodeSubsets | JobReason | None: ...


class PlacementPlan(Protocol):
    """Finds nodes for all tasks of a job at once, where placing its parts one after the other has failed.

    Called for jobs that aren't held to KAI's estimates (`CycleOutcome.ignores_estimates`): once at the end of a job's
    first cycle, later once in each turn and in each simulation that fails to place the job part by part.
    May assume that nothing of the job's next tasks is placed at that time.
    """

    def concerns(self, job: JobState) -> bool:
        """Whether the plan could find nodes where placing part by part fails. Cheap."""
        ...

    def find(self, job: JobState, tasks: Sequence[Task], on: Mask) -> Mapping[Task, NodeRow] | None:
        """By task, the row of its node, in the order in which the tasks are to be placed; None where there is no room.

        The tasks are then placed there by the usual code, which may still refuse."""
        ...


class GpuScorer(Protocol):
    """Says how good devices of a node are for a pod that shares GPUs; higher is better.

    Called for each task that is placed, once the node is chosen and has more devices with room than the pod wants, once
    per device; not where a `DeviceChoice` has an opinion. Scores of several scorers are added up, ties go by name.
    May assume that the devices have room for the pod.
    """

    whole: float  #: for a GPU that nobody uses yet

    def shared(self, used: float) -> float:
        """The score of a device of which this part, from 0.0 to 1.0, is used."""
        ...


class DeviceChoice(Protocol):
    """Says which devices of a node are best for a pod that shares GPUs, by more than how full each is; None for no
    opinion.

    Called once for each task that is placed, when the node is chosen and has more devices with room than the pod wants.
    May assume that all of `names` have room. Where one is registered, scorers don't prefer a node for having a shared
    device with room: the choice of devices takes part in the choice of the node.
    """

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

    Called once after each operation of a statement and once when it is undone, thousands of times in a search.
    May assume that after an operation the job's placements and all accounts show it; that when one is undone the job's
    placements were put back, and the node's account is not yet; that calls come in the order of operations, and undoing
    calls in the reverse order, so that an account that does the opposite of what it did is exact. Where any listener is
    registered, searches place task by task, which costs more: a plugin that has nothing to follow in a snapshot
    registers none.

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
    """Adds to a bind what a plugin gave the task beside its node. Returns the bind, or a copy with more in it.

    Called once for each task that is bound, when its statement is committed.
    May assume that the task's placement is in effect, and that nothing undoes it any more.
    """

    def __call__(self, bind: Bind, row: NodeRow) -> Bind: ...


class FreeNow(Protocol):
    """Says whether pods of a class can have what they need on a node without waiting for anything to be released: if
    not, the task is pipelined.

    Called once for each task that is placed and doesn't share GPUs, in simulations too.
    May assume that the pod's resources are idle on the node, and that no filter objects to it.
    """

    def __call__(self, pod_class: PodClass, row: NodeRow) -> bool: ...


class TaskCheck(Protocol):
    """Says why a task can't be placed whatever the node, None when it can. The answer is shown to the user.

    Called for each task that is to be placed, each time, in simulations too, so it must be cheap; and once before a
    search, which is skipped for a job with such a task.
    May assume nothing of nodes: it is called before any is looked at.
    """

    def __call__(self, task: Task) -> str | None: ...


class JobKey(Protocol):
    """A sort key for jobs; smaller goes first. Victims are taken in the reverse order. Ties go by age, then by name.

    Called once per job and action that looks at it, again when a part of it was placed or taken, in simulations too.
    May assume that the job's placements are as of now; the key must follow from them and from the snapshot.
    """

    def __call__(self, job: JobState) -> float: ...


class TaskKey(Protocol):
    """A sort key for tasks of a job; smaller goes first. Ties go by age, then by UID.

    Called once or twice per task and cycle, only where more than one task of a pod set waits, or is evicted.
    May assume nothing but the task: the key must follow from it alone, as tasks are sorted once and the order is kept.
    """

    def __call__(self, task: Task) -> tuple[float, ...] | float: ...


class SubGroupKey(Protocol):
    """A sort key for sub-groups of a job; smaller goes first. Ties go by name.

    Called once per sub-group whenever the next tasks of a job with sub-groups are looked for, when these are placed,
    and (in the reverse order) when its next victims are.
    May assume that the job's placements are as of now: the key may depend on which of its tasks have a node.
    """

    def __call__(self, job: JobState, subgroup: PodSet | SubGroupSet) -> tuple[float, ...] | float: ...


class QueueOrder(Protocol):
    """Says which of two sibling queues goes first."""

    def rank(self, row: QueueRow, wanted: QueueAmounts, leaving: QueueAmounts) -> Any:
        """The rank of a queue: what compares with `<` and `==` to the ranks of siblings. The smaller goes first, equal
        is no opinion.

        `wanted`: what the job that is next in the queue asks for; `leaving`: where victims are looked for, what would
        be taken from the queue. The rank follows from these, the queue's account and the snapshot, and from nothing
        else: it is kept until one of them changes, also from one simulation to the next.

        Called whenever one of them has changed since the queue was last compared with a sibling: about once per level
        and job that is placed. Ranks are compared far more often than they are made; tuples of numbers are best.
        May assume that the queue, or one below it, has a job that waits, or a victim.
        """
        ...


class CapacityCheck(Protocol):
    """Says why a job's queue, or one above it, has no room for what the job's next tasks ask for; None when it has.

    Called once in each turn of a job and in each simulation that places it, with what all of its next tasks ask for if
    all GPUs were as large as the largest. May assume that none of these tasks is charged yet.
    Called again for each task that asks for GPU memory and each smaller size of devices on which it costs more, with
    what that task alone asks for there. The tasks before it are charged by then.
    """

    def __call__(self, job: JobState, requested: QueueAmounts) -> JobReason | None: ...


class HeldNodes(NamedTuple):
    """The nodes that a job may use beside what is held for others."""

    kind: Hashable  #: equal for jobs that are kept from the same nodes, if their tasks are alike
    on: Mask
    objection: str  #: of the other nodes, for people


class Reserver(Protocol):
    """Holds nodes for jobs that are to start later. At most one plugin registers one, and the first counts.

    `held_from` is called for each job that is about to be placed, each time, in simulations too; not where a job gets
    the nodes that were nominated for it, which are its own all the same.
    May assume that the next tasks of the job aren't placed yet.
    """

    def reserve(self) -> tuple[Reservation, ...]:
        """The reservations of this cycle, in the order of their rights. Called once, when all plugins have opened."""
        ...

    def overdue(self) -> Iterable[tuple[JobState, float, list[JobState]]]:
        """The jobs that passed a gang and hold its nodes though its time has come: the gang, since when, the jobs.
        Called once, before anything is placed."""
        ...

    def held_from(self, job: JobState, tasks: Sequence[Task]) -> HeldNodes | None:
        """The nodes held for other jobs, if the job could be in their way; None where the job may go anywhere."""
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
