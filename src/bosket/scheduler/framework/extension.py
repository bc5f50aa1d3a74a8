"""Extension points: lists of plugins' answers, each with a name that says how the answers combine.

A plugin registers with `session.node_scores.add(scorer)` and the like when a session opens. Order of registration is
the order in the configuration; sums of floats are made in that order, because exact equality decides ties.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bosket.scheduler.framework.job_state import JobState
    from bosket.scheduler.model.job import PodSet, SubGroupSet
    from bosket.scheduler.model.task import PodClass, Task
    from bosket.scheduler.reason import JobReason

F = TypeVar("F")

Rows = slice | NDArray[np.intp]  #: rows of the node table: all of them, or those that changed
ReasonCodes = NDArray[np.int32]  #: (node,), 0 where the node is fine, otherwise a number of the session's `ReasonBook`
Scores = NDArray[np.float64]  #: (node,)


class NodeFilter(Protocol):
    """Says which nodes may take pods of a class."""

    #: True when the answer rests on labels, taints and conditions alone: it is then asked for once, not per placement.
    fixed: bool

    def codes(self, pod_class: PodClass, rows: Rows) -> ReasonCodes: ...


class NodeScorer(Protocol):
    """Says how good nodes are for pods of a class; higher is better."""

    def basis(self, pod_class: PodClass) -> Hashable:
        """What scores of *all* nodes rest on, such as a minimum. While it stays, only changed rows are asked for."""
        ...

    def scores(self, pod_class: PodClass, rows: Rows) -> Scores: ...


class JobKey(Protocol):
    """A sort key for jobs; smaller goes first."""

    def __call__(self, job: JobState) -> float: ...


class TaskKey(Protocol):
    """A sort key for tasks of a job; smaller goes first."""

    def __call__(self, task: Task) -> tuple[float, ...] | float: ...


class SubGroupKey(Protocol):
    """A sort key for sub-groups of a job; smaller goes first."""

    def __call__(self, job: JobState, subgroup: PodSet | SubGroupSet) -> tuple[float, ...] | float: ...


class QueueComparator(Protocol):
    """Which of two siblings goes first: negative for the left one, 0 for no opinion. The jobs are next in line."""

    def __call__(self, left: int, right: int, left_job: JobState, right_job: JobState) -> float: ...


class CapacityCheck(Protocol):
    """Whether a job's queue has room for these tasks; a reason when it has not."""

    def __call__(self, job: JobState, tasks: list[Task]) -> JobReason | None: ...


class _Point(Generic[F]):
    def __init__(self) -> None:
        self._entries: list[F] = []

    def add(self, entry: F) -> None:
        self._entries.append(entry)

    def __iter__(self) -> Iterator[F]:
        return iter(self._entries)


class AllOf(_Point[F]):
    """Everybody must agree; the first to refuse gives the reason."""


class SumOf(_Point[F]):
    """Answers are added up, in order of registration."""


class KeyOf(_Point[F]):
    """Answers form one sort key, the first registered being the most significant."""


class FirstOpinion(_Point[F]):
    """The first answer that is an opinion (non-zero, not None) decides."""


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

    def text(self, number: int) -> str:
        return self._texts[number]
