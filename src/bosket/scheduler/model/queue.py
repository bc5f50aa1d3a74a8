"""Queues: quota, limit and weight for GPU, CPU and memory, in a tree of any depth.

Only leaf queues hold jobs. A queue whose parent doesn't exist, or that is its own ancestor, is left out of the tree
with all its descendants; `QueueTree.refused` says why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, NewType, cast

from bosket.api.kai import Queue as QueueObject
from bosket.api.kai import QueueResource, QueueResources
from bosket.api.time import InvalidDuration, parse_duration, time_or_zero
from bosket.scheduler.model.resource import QueueAmounts

#: The row of a queue in the tree. A type of its own, so that mypy finds confusions with a `NodeRow`.
QueueRow = NewType("QueueRow", int)
#: Stands for the row of the parent of queues that have none.
ROOT = QueueRow(-1)
UNLIMITED = -1.0
DEFAULT_PRIORITY = 100
MEGABYTE = 10**6
#: The name of the parent of all queues where the hierarchy is ignored.
FLAT_PARENT = "default"


@dataclass(frozen=True, slots=True, eq=False)
class Queue:
    """One queue. Amounts are (GPUs, millicores, bytes); -1 means unlimited."""

    name: str
    parent: str
    display_name: str
    priority: int
    created: float
    quota: QueueAmounts
    limit: QueueAmounts
    weight: QueueAmounts
    preempt_min_runtime: float | None = None  #: seconds that a job runs before others of its queue may take its place
    reclaim_min_runtime: float | None = None  #: the same for jobs of other queues


class QueueError(ValueError):
    """An invalid queue, with the wrong field."""


def queue_from(obj: QueueObject) -> Queue:
    """Reads a Queue object. Raises QueueError for an invalid amount."""
    try:
        amounts = _amounts(obj.spec.resources)
    except _UnusableAmount as error:
        raise QueueError(f"Queue {obj.metadata.name}: {error}") from None
    return Queue(
        name=obj.metadata.name,
        parent=obj.spec.parentQueue or "",
        display_name=obj.spec.displayName or obj.metadata.name,
        priority=DEFAULT_PRIORITY if obj.spec.priority is None else obj.spec.priority,
        created=time_or_zero(obj.metadata.creationTimestamp),
        quota=amounts.quota,
        limit=amounts.limit,
        weight=amounts.weight,
        preempt_min_runtime=_seconds(obj, "preemptMinRuntime"),
        reclaim_min_runtime=_seconds(obj, "reclaimMinRuntime"),
    )


def _seconds(obj: QueueObject, field_name: str) -> float | None:
    text = getattr(obj.spec, field_name)
    if text is None:
        return None
    try:
        return parse_duration(text)
    except InvalidDuration as error:
        raise QueueError(f"Queue {obj.metadata.name}: spec.{field_name}: {error}") from error


class _UnusableAmount(ValueError):
    """The field of a queue that is wrong, its value, and what would be right."""


class _Amounts(NamedTuple):
    """What a queue is owed, may use at most, and weighs."""

    quota: QueueAmounts
    limit: QueueAmounts
    weight: QueueAmounts


@lru_cache(maxsize=1024)
def _amounts(resources: QueueResources | None) -> _Amounts:
    """The amounts of a queue, cached: of a thousand queues most have the same. Raises _UnusableAmount."""
    shares = (resources.gpu, resources.cpu, resources.memory) if resources else (None, None, None)

    def amounts(part: str) -> QueueAmounts:
        gpus = _amount("gpu", part, shares[0])
        millicores = _amount("cpu", part, shares[1])
        memory = _amount("memory", part, shares[2])
        if part != "overQuotaWeight":
            memory = max(UNLIMITED, memory * MEGABYTE)
        return gpus, millicores, memory

    return _Amounts(amounts("quota"), amounts("limit"), amounts("overQuotaWeight"))


def _amount(name: str, part: str, share: QueueResource | None) -> float:
    # A missing limit means unlimited. KAI reads 0, so that nothing runs (docs/deviations.md).
    absent = UNLIMITED if part == "limit" else 0.0
    given = getattr(share, part) if share is not None else None
    value = absent if given is None else float(given)
    if 0.0 <= value < math.inf:
        return value
    may_be_unlimited = part != "overQuotaWeight"
    if not math.isfinite(value) or (value < 0 and not (may_be_unlimited and value == UNLIMITED)):
        wanted = "0 or more, or -1 for unlimited" if may_be_unlimited else "0 or more"
        raise _UnusableAmount(f"spec.resources.{name}.{part} is {value:g}, it must be {wanted}")
    return value


@dataclass(frozen=True, slots=True, eq=False)
class QueueTree:
    """All usable queues, rows in order of their names. `paths[leaf]` lists rows from the leaf to its root."""

    queues: tuple[Queue, ...]
    rows: Mapping[str, QueueRow]
    parents: tuple[QueueRow, ...]  #: row of the parent, `ROOT` for a root
    children: tuple[tuple[QueueRow, ...], ...]
    roots: tuple[QueueRow, ...]
    paths: tuple[tuple[QueueRow, ...], ...]
    refused: Mapping[str, str] = field(default_factory=dict)  #: queue name → why it can't be used

    def leaf(self, name: str) -> QueueRow | None:
        """The row of a queue that may hold jobs."""
        row = self.rows.get(name)
        return row if row is not None and not self.children[row] else None

    def where_paths_part(self, left: QueueRow, right: QueueRow) -> tuple[QueueRow, QueueRow]:
        """The first ancestors, from the root down, that differ; the last compared pair where one path ends."""
        pairs = zip(reversed(self.paths[left]), reversed(self.paths[right]), strict=False)
        mine, theirs = left, right
        for mine, theirs in pairs:
            if mine != theirs:
                break
        return mine, theirs

    def reason_against(self, name: str) -> str | None:
        """Why jobs of this queue can't be scheduled; None when they can."""
        if not name:
            return "The pod group names no queue (spec.queue is empty)"
        row = self.rows.get(name)
        if row is None:
            return self.refused.get(name) or f"Queue '{name}' does not exist"
        if self.children[row]:
            return f"Queue '{name}' has child queues, only a leaf queue can hold jobs"
        return None


def fits(held: QueueAmounts, bound: QueueAmounts) -> bool:
    """Whether amounts stay within a bound, where -1 means unlimited."""
    return all(most == UNLIMITED or has <= most for has, most in zip(held, bound, strict=True))


def without_hierarchy(queues: Iterable[Queue]) -> list[Queue]:
    """All queues with a parent as children of one unlimited queue: the quotas and limits of their parents are
    ignored."""
    free = (UNLIMITED, UNLIMITED, UNLIMITED)
    top = Queue(FLAT_PARENT, "", FLAT_PARENT, DEFAULT_PRIORITY, 0.0, free, free, (1.0, 1.0, 1.0))
    return [top, *(replace(queue, parent=FLAT_PARENT) for queue in queues if queue.parent)]


def build_tree(queues: Iterable[Queue], refused: Mapping[str, str]) -> QueueTree:
    """Links queues to their parents. `refused`: queues that could not be read; their descendants are left out, too."""
    by_name = {queue.name: queue for queue in queues}
    reasons = dict(refused)
    for name in sorted(by_name):
        reason = _reason_to_drop(name, by_name, reasons)
        if reason:
            reasons[name] = reason
    kept = [by_name[name] for name in sorted(by_name) if name not in reasons]
    all_rows = cast("Sequence[QueueRow]", range(len(kept)))
    rows = {queue.name: row for row, queue in zip(all_rows, kept, strict=True)}
    parents = tuple(rows[queue.parent] if queue.parent else ROOT for queue in kept)
    children: list[list[QueueRow]] = [[] for _ in kept]
    for row, parent in zip(all_rows, parents, strict=True):
        if parent != ROOT:
            children[parent].append(row)
    return QueueTree(
        queues=tuple(kept),
        rows=rows,
        parents=parents,
        children=tuple(map(tuple, children)),
        roots=tuple(row for row in all_rows if parents[row] == ROOT),
        paths=tuple(_path(row, parents) for row in all_rows),
        refused=reasons,
    )


def _reason_to_drop(name: str, by_name: Mapping[str, Queue], unusable: Mapping[str, str]) -> str | None:
    seen = [name]
    parent = by_name[name].parent
    while parent:
        if parent in seen:
            circle = " → ".join([*seen, parent])
            return f"Queue '{name}' can't be used: its parents form a circle ({circle})"
        if parent not in by_name:
            known = unusable.get(parent)
            why = f"is refused: {known}" if known else "does not exist"
            return f"Queue '{name}' can't be used: its parent queue '{parent}' {why}"
        seen.append(parent)
        parent = by_name[parent].parent
    return None


def _path(row: QueueRow, parents: tuple[QueueRow, ...]) -> tuple[QueueRow, ...]:
    path = []
    while row != ROOT:
        path.append(row)
        row = parents[row]
    return tuple(path)
