"""What plugins register with a session's extension points: the contract of each.

A plugin registers in its `open`, with `session.node_scores.add(scorer)` and the like; see `extension_points` for how
the answers of several plugins combine.
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
from bosket.scheduler.model.node import Mask
from bosket.scheduler.model.reason import JobReason
from bosket.scheduler.model.resource import QueueAmounts
from bosket.scheduler.model.task import PodClass, Task

Rows = slice | NDArray[np.intp]  #: rows of the node table: all of them, or those that changed
ReasonCodes = NDArray[np.int32]  #: (node,), 0 where the node is fine, otherwise a number of the session's `ReasonBook`
Scores = NDArray[np.float64]  #: (node,)


class Exceptions(NamedTuple):
    """To which nodes a filter objects, where that is known without a look at all of them."""

    rows: NDArray[np.intp]  #: in any order; some may be in it twice
    #: False: the filter objects to these nodes, and to no others; True: it objects to all others, and perhaps to these
    refuses_others: bool = False


class NodeFilter(ABC):
    """Says which nodes may take pods of a class."""

    #: True when the answer rests on labels, taints and conditions alone: it is then asked for once, not per placement.
    fixed = False
    #: True when placing pods never makes it withdraw an objection: a node that it refused stays refused until one goes.
    only_takes = False

    def concerns(self, pod_class: PodClass) -> bool:
        """Whether it can object to pods of this class at all; asked once per class and cycle."""
        del pod_class
        return True

    def basis(self, pod_class: PodClass) -> Hashable:
        """What answers about *all* nodes rest on. While it stays, only rows where a placement changed are asked for."""
        del pod_class
        return None

    def known_by(self, pod_class: PodClass) -> Hashable:
        """What of a class the filter looks at, beside what it asks of nodes' resources (`needs`, `share`): classes that
        have it in common get the same answers."""
        return pod_class.index

    def exceptions(self, pod_class: PodClass) -> Exceptions | None:
        """To which nodes it objects, for a filter that says the same of almost all of them; None if it doesn't.

        Overridden by filters that go by who is on nodes, of which each class may have its own: views of classes that
        differ in nothing else then share all that doesn't come from such filters. They have a `basis` as well.
        """
        del pod_class
        return None

    @abstractmethod
    def codes(self, pod_class: PodClass, rows: Rows) -> ReasonCodes:
        """0 for a node that will do, otherwise the number of an objection in the session's `ReasonBook`."""

    def code(self, pod_class: PodClass, row: int) -> int:
        """The same for one row. Worth writing out where it is asked for after every placement."""
        return int(self.codes(pod_class, np.array([row]))[0])


class NodeScorer(ABC):
    """Says how good nodes are for pods of a class; higher is better."""

    #: True when nothing that is decided in the cycle changes the scores: they are then asked for once per class.
    fixed = False
    #: True when the score of one row costs about as much as those of many: changed rows are then asked for together.
    by_arrays = False

    def concerns(self, pod_class: PodClass) -> bool:
        """Whether its scores for pods of this class can be other than 0; asked once per class and cycle."""
        del pod_class
        return True

    def basis(self, pod_class: PodClass) -> Hashable:
        """What scores of *all* nodes rest on, such as a minimum. While it stays, only changed rows are asked for."""
        del pod_class
        return None

    def known_by(self, pod_class: PodClass) -> Hashable:
        """What of a class the scorer looks at, beside what it asks of nodes' resources (`needs`, `share`): classes that
        have it in common get the same scores."""
        return pod_class.index

    def exceptions(self, pod_class: PodClass) -> NDArray[np.intp] | None:
        """All nodes with a score other than 0, in any order; None where it takes a look at every node to know them.
        See `NodeFilter.exceptions`."""
        del pod_class
        return None

    def packs(self, pod_class: PodClass) -> bool:
        """Whether a pod of the class that is placed on a node lowers no score there for the next one, as long as that
        has room in what is idle there (one that shares GPUs, on a device that others share), and changes no other
        node's score. Then equal pods go to the same node until it is full, without a look at scores."""
        del pod_class
        return self.fixed

    @abstractmethod
    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        """Scores of these rows."""

    def score(self, pod_class: PodClass, row: int) -> float:
        """The same for one row, to the bit. Worth writing out where it is asked for after every placement."""
        return float(self.scores(pod_class, np.array([row]))[0])


class NodeSubsets(NamedTuple):
    """Which sets of nodes to try for a part of a job, one after the other, and which nodes are better among them."""

    masks: Iterable[Mask]
    scores: Scores | None = None  #: added to what scorers say; -inf for nodes that must not be used


class NodeSubsetChoice(Protocol):
    """Says where all tasks of a part of a job may go together; None for no opinion, a reason when it is nowhere."""

    def __call__(
        self, job: JobState, group: PodSet | SubGroupSet, tasks: Sequence[Task], on: Mask
    ) -> NodeSubsets | JobReason | None: ...


class PlacementPlan(Protocol):
    """Finds nodes for all tasks of a job at once, where placing its parts one after the other fails."""

    def concerns(self, job: JobState) -> bool:
        """Whether it could find nodes where that fails."""
        ...

    def find(self, job: JobState, tasks: Sequence[Task], on: Mask) -> Mapping[Task, int] | None:
        """By task, the row of its node, in the order in which they are to be placed; None where there is no room."""
        ...


class GpuScorer(Protocol):
    """Says how good devices of a node are for a pod that shares GPUs; higher is better."""

    whole: float  #: for a GPU that nobody uses yet

    def shared(self, used: float) -> float:
        """For one of which such a part is used."""
        ...


class DeviceChoice(Protocol):
    """Says which devices of a node are best for a pod that shares GPUs, by more than how full each is; None for no
    opinion. Where one is registered it also has a say in which node it is, and a node isn't better for having a shared
    device with room alone."""

    def __call__(self, pod_class: PodClass, row: int, names: Sequence[str], whole: int) -> Sequence[str] | None:
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
    """Follows every change to what is on the nodes, undone ones included, as it happens.

    Most listeners override `arrived` and `left` alone. One that needs to know which operation it was, such as an
    account of what tasks get beside their node, overrides `done` and `undone` instead.
    """

    #: True for a listener that assigns tasks more than their node (NUMA zones, devices). What it assigned is given back
    #: in the reverse order of operations only, so that no search is left in effect while there is such a listener.
    assigns = False

    def arrived(self, task: Task, row: int) -> None:
        """The task was placed there, on free resources or on such as are being released."""

    def left(self, task: Task, row: int) -> None:
        """The task was evicted from there, or its placement was undone."""

    def stays(self, task: Task, row: int) -> bool:
        """Of a task that was evicted from this node and fits there again: whether it would be given what it had. It
        is spared then, and otherwise moved within its node."""
        del task, row
        return True

    def done(self, kind: Kind, task: Task, row: int) -> None:
        """The operation took effect."""
        (self.left if kind is Kind.EVICT else self.arrived)(task, row)

    def undone(self, kind: Kind, task: Task, row: int) -> None:
        """The operation was taken back, and everything after it before."""
        (self.arrived if kind is Kind.EVICT else self.left)(task, row)


class BindDetail(Protocol):
    """Adds to a bind what a plugin gave the task beside its node; asked while the placement is in effect."""

    def __call__(self, bind: Bind, row: int) -> Bind: ...


class FreeNow(Protocol):
    """Whether pods of a class can have what they need on a node without waiting for anything to be released."""

    def __call__(self, pod_class: PodClass, row: int) -> bool: ...


class TaskCheck(Protocol):
    """Whether a task can be placed at all, whatever node it is; a reason when it can't."""

    def __call__(self, task: Task) -> str | None: ...


class JobKey(Protocol):
    """A sort key for jobs; smaller goes first."""

    def __call__(self, job: JobState) -> float: ...


class TaskKey(Protocol):
    """A sort key for tasks of a job; smaller goes first."""

    def __call__(self, task: Task) -> tuple[float, ...] | float: ...


class SubGroupKey(Protocol):
    """A sort key for sub-groups of a job; smaller goes first."""

    def __call__(self, job: JobState, subgroup: PodSet | SubGroupSet) -> tuple[float, ...] | float: ...


class QueueOrder(Protocol):
    """Which of two sibling queues goes first.

    A queue's rank follows from its account, from what the job that is next in it wants, or, where victims are looked
    for, from what would be taken from it. It is kept until one of these changes.
    """

    def rank(self, row: int, wanted: QueueAmounts, leaving: QueueAmounts) -> Any:
        """What compares with `<` and `==` to the ranks of siblings: the smaller goes first, equal is no opinion.

        Ranks are compared far more often than they are made; tuples of numbers are best.
        """
        ...


class ReclaimRight(Protocol):
    """Whether a job may take back resources from other queues at all."""

    def __call__(self, reclaimer: JobState) -> bool: ...


class VictimFilter(Protocol):
    """Which jobs may be evicted for another one; cheap, asked before any search."""

    by_job: bool  #: whether it has an opinion about single jobs, and not only about queues

    def takes_from(self, preemptor: JobState, queue_row: int) -> bool:
        """Whether jobs of a queue come into question; asked once per queue."""
        ...

    def takes(self, preemptor: JobState, victim: JobState) -> bool: ...


class ScenarioValidator(Protocol):
    """Whether the outcome of a search is just. Asked while it is in effect."""

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
        """(node,): GPUs that are idle or being released, before anybody is evicted."""
        ...


class ScenarioGenerator(Protocol):
    """Which sets of victims to try, one after the other, as victims are added in their order."""

    name: str

    def __call__(self, search: GatheredVictims) -> Iterator[Scenario]: ...


class CapacityCheck(Protocol):
    """Whether a job's queue has room for what its next tasks ask for; a reason when it has not."""

    def __call__(self, job: JobState, requested: QueueAmounts) -> JobReason | None: ...


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
