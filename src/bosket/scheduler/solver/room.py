"""Room: necessary conditions by counts: could the pending tasks fit with what is free and what victims hold?

Each pod class is counted alone, resource by resource, so a yes promises nothing. A no is final and costs a hundredth of
a simulation. Used for all candidates before a search, and for the victims of each scenario.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.class_view import ClassView
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import NOWHERE, Amounts2D, Mask, NodeRow
from bosket.scheduler.model.resource import GPU, PODS
from bosket.scheduler.model.task import PodClass, Task
from bosket.scheduler.model.topology import OUTSIDE, TopologyLevel

#: Tolerance of float sums of GPU parts.
ROUNDING = 1e-9

NO_ROWS = np.empty(0, dtype=np.intp)


Amounts = NDArray[np.float64]  #: (node,), of one resource
Classes = Mapping[PodClass, int]  #: how many pods of which class


class Held(NamedTuple):
    """The amounts that some tasks hold on their nodes."""

    rows: NDArray[np.intp]  #: of the nodes, each once
    amounts: Amounts2D  #: (resource, position in `rows`)


class _Part(NamedTuple):
    """The amounts held on a subset of nodes."""

    rows: NDArray[np.intp]
    cells: NDArray[np.intp]  #: in the flattened array over (resource, node), each once
    amounts: Amounts


def held_by(session: Session, victims: Iterable[tuple[JobState, Task]]) -> Held:
    """By node, the amounts that evicting these tasks frees. Tasks on nodes outside this shard don't count."""
    by_row: dict[NodeRow, list[float]] = {}
    resources, shared = len(session.nodes.idle), session.nodes.shared
    for job, task in victims:
        placement = job.placement(task)
        row = placement.row
        if row == NOWHERE:
            continue
        held = by_row.get(row)
        if held is None:
            held = by_row[row] = [0.0] * resources
        pod_class = task.pod_class
        for resource, amount in pod_class.holds:
            held[resource] += amount
        share = pod_class.share
        if share is not None:
            size = shared.sizes[row]
            held[GPU] += len(placement.gpu_groups) * share.memory_on(size) / size
    rows = np.fromiter(by_row, dtype=np.intp, count=len(by_row))
    amounts = np.array(list(by_row.values()), dtype=float).reshape(len(by_row), resources).T
    return Held(rows, amounts)


def held_by_job(session: Session, job: JobState) -> Held:
    """The amounts that all active tasks of a job hold. Not valid during a simulation."""
    return held_by(session, ((job, task) for task in job.active_tasks()))


class Holdings:
    """The sum of `held_by_job` over some jobs, kept up to date as jobs change."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._of_job: dict[JobState, Held] = {}
        self._column_of: dict[int, int] = {}  # of a node's row, in the arrays
        self._rows = np.zeros(0, dtype=np.intp)
        self._amounts: Amounts2D = np.zeros((len(session.nodes.idle), 0))
        self._held: Held | None = None
        self._changed: dict[JobState, bool] = {}  # and whether they are kept; looked at when somebody asks

    def renew(self, job: JobState, *, keep: bool) -> None:
        """Updates for a changed job; `keep` False removes it."""
        self._held = None
        self._changed[job] = keep

    def held(self) -> Held:
        for job, keep in self._changed.items():
            before = self._of_job.pop(job, None)
            if before is not None:
                self._amounts[:, self._columns(before.rows)] -= before.amounts
            if keep:
                held = self._of_job[job] = held_by_job(self._session, job)
                columns = self._columns(held.rows)
                self._amounts[:, columns] += held.amounts
        self._changed.clear()
        if self._held is None:
            there = self._amounts[PODS] > ROUNDING  # nodes that everybody has left are no longer among them
            self._held = Held(self._rows[there], self._amounts[:, there])
        return self._held

    def _columns(self, rows: NDArray[np.intp]) -> list[int]:
        known = self._column_of
        columns = [known.setdefault(row, len(known)) for row in rows.tolist()]
        if (more := len(known) - len(self._rows)) > 0:
            self._rows = np.fromiter(known, dtype=np.intp, count=len(known))
            self._amounts = np.concatenate([self._amounts, np.zeros((len(self._amounts), more))], axis=1)
        return columns


def free_amounts(session: Session) -> Amounts2D:
    """(resource, node): idle and releasing amounts, with free parts of shared GPUs added to the GPUs."""
    free: Amounts2D = session.nodes.idle + session.nodes.releasing
    free[GPU] = session.nodes.free_gpus()
    return free


class Room:
    """An upper bound on how many pending tasks fit."""

    def __init__(self, session: Session, pending: Sequence[Task], feasible: Mask, free: Amounts2D) -> None:
        """`feasible`: nodes that may be used without evictions; `free`: their `free_amounts`."""
        self._wanted = Counter(task.pod_class for task in pending)
        self._usable = feasible.copy()
        self._allowed = {pod_class: session.views.of(pod_class).allowed for pod_class in self._wanted}
        self._shared = session.nodes.shared
        self._free = free.copy()
        concerned = np.zeros(len(feasible), dtype=bool)  # nodes that some class may use
        for allowed in self._allowed.values():
            concerned |= allowed
        # Victims on other nodes can't help any class: their amounts are dropped once, here, for all simulations.
        self._concerned = concerned
        # by id(), together with the object: while it is referenced here, no other object can get the same id
        self._known: dict[int, tuple[Held, _Part | None]] = {}
        #: by class: (node,): how many pods each node could take
        self._slots = {each: self._slots_in(self._free, self._usable, each) for each in self._wanted}

    def copy(self) -> Room:
        """A copy to which other amounts may be added; caches are shared."""
        made = Room.__new__(Room)
        made.__dict__ |= self.__dict__
        made._usable, made._free = self._usable.copy(), self._free.copy()
        made._slots = {pod_class: slots.copy() for pod_class, slots in self._slots.items()}
        return made

    def _part(self, held: Held) -> _Part | None:
        """What of this is on nodes that matter; None where nothing is. The same object is mostly asked about again."""
        known = self._known.get(id(held))
        if known is None:
            inside = self._concerned[held.rows]
            rows, amounts = (held.rows[inside], held.amounts[:, inside]) if not inside.all() else held
            cells = (np.arange(len(amounts))[:, None] * self._free.shape[1] + rows).ravel()
            known = self._known[id(held)] = (held, _Part(rows, cells, amounts.ravel()) if len(rows) else None)
        return known[1]

    def add(self, held: Held) -> None:
        """Adds freed amounts and allows their nodes."""
        rows = self._add((held,), self._free, self._usable)
        for pod_class, slots in self._slots.items():
            allowed = self._only_allowed(rows, pod_class)
            slots[allowed] = self._slots_on(allowed, self._free, pod_class)

    def _only_allowed(self, rows: NDArray[np.intp], pod_class: PodClass) -> NDArray[np.intp]:
        """Those of the rows that matter to which nothing objects; the same where one class alone is wanted."""
        return rows[self._allowed[pod_class][rows]] if len(self._wanted) > 1 else rows

    def _add(self, held: Iterable[Held], free: Amounts2D, usable: Mask) -> NDArray[np.intp]:
        """Adds amounts; returns the rows of their nodes that matter, each once."""
        parts = [part for each in held if (part := self._part(each)) is not None]
        if not parts:
            return NO_ROWS
        if len(parts) == 1:
            rows, cells, amounts = parts[0]
            # A single part has each cell once; several parts may share cells, and then `+=` would lose amounts.
            free.reshape(-1)[cells] += amounts
        else:
            rows, cells, amounts = map(np.concatenate, zip(*parts, strict=True))
            np.add.at(free.reshape(-1), cells, amounts)  # several of them may be on one node
            there = np.zeros(len(usable), dtype=bool)
            there[rows] = True
            rows = np.flatnonzero(there)
        usable[rows] = True
        return rows

    def suffices(self) -> bool:
        """Whether every class, counted alone, could fit; if not, no choice among these victims helps."""
        return all(self._slots[each].sum() >= count for each, count in self._wanted.items())

    def suffices_with(self, held: Iterable[Held]) -> bool:
        """The same if these holdings were freed too. Only their nodes are recounted."""
        free = self._free.copy()
        rows = self._add(held, free, self._usable.copy())
        for pod_class, count in self._wanted.items():
            slots, allowed = self._slots[pod_class], self._only_allowed(rows, pod_class)
            if slots.sum() - slots[allowed].sum() + self._slots_on(allowed, free, pod_class).sum() < count:
                return False
        return True

    def suffices_in_domains_with(self, held: Iterable[Held], groups: Iterable[tuple[TopologyLevel, Classes]]) -> bool:
        """The same for tasks that must each be in one domain, with the others of their group.

        `groups`: by level, how many of which class.
        """
        free, usable = self._free.copy(), self._usable.copy()
        self._add(held, free, usable)
        slots = {pod_class: self._slots_in(free, usable, pod_class) for pod_class in self._wanted}
        return all(_some_domain_takes(slots, *each) for each in groups)

    def needed(self, held: Sequence[Held]) -> list[bool]:
        """For each holding, whether some class would not fit with all the others freed but not this one."""
        room = self.copy()
        there = np.zeros(len(self._usable), dtype=np.intp)  # how many of them are on each node
        for each in held:
            room.add(each)
            there[each.rows] += 1
        result = [False] * len(held)
        for pod_class, count in self._wanted.items():
            slots, allowed = room._slots[pod_class], self._allowed[pod_class]
            spare = float(slots.sum()) - count + ROUNDING
            for number, (rows, amounts) in enumerate(held):
                # Without this holding, a node is usable only if it was feasible anyway or another holding is on it.
                stay = rows[(self._usable[rows] | (there[rows] > 1)) & allowed[rows]]
                room._free[:, rows] -= amounts
                kept = room._slots_on(stay, room._free, pod_class)
                # Floats: this may not restore the last digit, which `ROUNDING` absorbs.
                room._free[:, rows] += amounts
                result[number] |= float(slots[rows].sum() - kept.sum()) > spare
        return result

    def _slots_in(self, free: Amounts2D, usable: Mask, pod_class: PodClass) -> Amounts:
        """(node,): how many pods of a class each node could take; 0 where the node may not be used."""
        slots = np.zeros(len(usable))
        rows = np.flatnonzero(usable & self._allowed[pod_class])
        slots[rows] = self._slots_on(rows, free, pod_class)
        return slots

    def _slots_on(self, rows: NDArray[np.intp], free: Amounts2D, pod_class: PodClass) -> Amounts:
        """The same for these rows, which may all be used."""
        slots = _slots_by_node(pod_class, self._wanted[pod_class], lambda resource: free[resource, rows])
        share = pod_class.share
        if share is not None:
            parts = (self._shared.memory(share) * share.devices / np.array(self._shared.sizes))[rows]
            np.minimum(slots, np.floor(free[GPU, rows] / parts + ROUNDING), out=slots)
        return np.maximum(slots, 0.0)


def _some_domain_takes(slots: Mapping[PodClass, Amounts], level: TopologyLevel, classes: Classes) -> bool:
    """Whether one domain has room for every class by itself."""
    takes, inside = np.ones(len(level.names), dtype=bool), level.of_row != OUTSIDE
    for pod_class, count in classes.items():
        by_domain = np.bincount(level.of_row[inside], weights=slots[pod_class][inside], minlength=len(takes))
        takes &= by_domain >= count
    return bool(takes.any())


def largest_amounts(session: Session, classes: Iterable[PodClass]) -> list[float]:
    """By resource, the most that a pod of any of these classes holds."""
    result = [0.0] * len(session.nodes.idle)
    for each in classes:
        for resource, amount in each.holds:
            result[resource] = max(result[resource], amount)
        if each.share is not None:
            result[GPU] = max(result[GPU], float(each.share.devices))
    return result


def least_departures(
    session: Session, pending: Iterable[Task], free: Amounts2D, largest: Sequence[float], most: int
) -> int:
    """The least number of evictions by which these tasks could fit; counted up to `most`.

    `largest`: by resource, the most that one evicted pod frees.
    """
    least = 1
    for pod_class, count in Counter(task.pod_class for task in pending).items():
        allowed = session.views.of(pod_class).allowed
        for resource, amount in sorted(pod_class.holds, key=lambda each: each[0] != GPU):  # mostly GPUs are short
            there = np.maximum(free[resource][allowed], 0.0)
            slots = np.floor(there / amount + ROUNDING)
            missing = count - int(slots.sum())
            if missing > 0 and largest[resource]:
                # Nodes give what is left beside these slots, one for each that is missing; the rest is freed.
                left = np.sort(there - slots * amount)[-missing:].sum()
                freed = (missing * amount - float(left)) / largest[resource]
                least = max(
                    least, math.ceil(freed - ROUNDING), math.ceil(missing / math.ceil(largest[resource] / amount))
                )
                if least >= most:
                    return least
    return least


class Prospect:
    """Whether the preemptor can still fit while other jobs before it take room in a simulation.

    Placements only take room, so a no is final and the simulation ends early. With pod affinity a placement may also
    give room, and nothing is concluded. Created when all victims of the simulation have been evicted.
    """

    def __init__(self, session: Session, pending: Sequence[Task], on: Mask) -> None:
        """`on`: nodes that may be used."""
        self._session = session
        self._single: list[tuple[ClassView, list[NodeRow]]] = []  # with the nodes that may still take one pod
        self._counted: list[tuple[PodClass, int, NDArray[np.intp]]] = []
        for pod_class, count in Counter(task.pod_class for task in pending).items():
            view = session.views.of(pod_class)
            if not view.only_loses_room:
                continue
            if count == 1 or pod_class.share is not None:
                self._single.append((view, view.fits(on).tolist()))
            else:
                self._counted.append((pod_class, count, np.flatnonzero(on & view.allowed)))

    def is_lost(self) -> bool:
        return any(not _has_node(*each) for each in self._single) or any(
            self._slots(*each) < each[1] for each in self._counted
        )

    def _slots(self, pod_class: PodClass, count: int, rows: NDArray[np.intp]) -> float:
        idle, releasing = self._session.nodes.idle, self._session.nodes.releasing
        slots = _slots_by_node(pod_class, count, lambda resource: idle[resource, rows] + releasing[resource, rows])
        return float(np.maximum(slots, 0.0).sum())


def _has_node(view: ClassView, rows: list[NodeRow]) -> bool:
    """Whether one of these nodes takes a pod. Those that don't are dropped: they won't take one later either."""
    while rows:
        if view.takes(rows[-1]):
            return True
        rows.pop()
    return False


def _slots_by_node(pod_class: PodClass, most: int, free: Callable[[int], Amounts]) -> Amounts:
    """(node,): how many pods of a class fit, `most` at most; `free`: by resource, the amounts of the nodes in question.

    Negative where a node holds more than it has.
    """
    slots = np.minimum(free(PODS), float(most))
    for resource, amount in pod_class.needs:
        np.minimum(slots, np.floor(free(resource) / amount + ROUNDING), out=slots)
    return slots
