"""Forecast: when nodes will have room, by when the jobs that run on them are expected to end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bosket.api.object import ObjectKey
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.estimates import Estimates
from bosket.scheduler.model.reservation import Reservation
from bosket.scheduler.model.resource import GPU
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, PodClass, Task

#: Without a declared run time: a job is expected to end when this part of its like has ended.
RUNNING_PART: Final = 0.6
#: And it passes a gang with a reservation only if this part of its like would end in time.
PASSING_PART: Final = 0.9

Amounts2D = NDArray[np.float64]  #: (resource, node), in the node table's units


class Release(NamedTuple):
    """Something that a node gets back."""

    when: float
    row: int
    amounts: tuple[tuple[int, float], ...]  #: (place of the resource, amount)


class Hold(NamedTuple):
    """What is kept on nodes for a job, and from when to when the job is expected to have it."""

    start: float
    end: float
    rows: NDArray[np.intp]
    amounts: Amounts2D  #: (resource, one of these rows)


class Forecast:
    """What will be free on each node, at any time. Made of the snapshot when a session opens."""

    def __init__(self, session: Session, estimates: Estimates, *, evicts: bool) -> None:
        #: by row: preemptible jobs that began there though the node was held for a gang
        self.evictable: dict[int, set[ObjectKey]] = {}
        self._holds = _held_nodes(session.snapshot.reservations) if evicts else {}
        self._session, self.estimates = session, estimates
        self._now = session.snapshot.now
        releases = sorted(self._releases())
        nodes = session.snapshot.nodes
        self._base: Amounts2D = nodes.idle + nodes.releasing
        self._when = np.array([each.when for each in releases])
        self._rows = np.array([each.row for each in releases], dtype=np.intp)
        self._amounts = np.zeros((len(session.snapshot.resource_names), len(releases)))
        for number, release in enumerate(releases):
            for place, amount in release.amounts:
                self._amounts[place, number] = amount

    def moments(self, holds: Iterable[Hold]) -> list[float]:
        """The times at which something becomes free, from now on; at the end of others' holds, too."""
        later = {each.end for each in holds if self._now < each.end < math.inf}
        return sorted({self._now, *self._when.tolist(), *later})

    def free_at(self, when: float, holds: Iterable[Hold] = ()) -> Amounts2D:
        """What is free then, less what is held for others: from now on until they are expected to have ended.

        Nothing that is free at one time is taken at a later one, so that the first time with enough room can be
        searched for by halving.
        """
        free = self._base.copy()
        count = int(self._when.searchsorted(when, side="right"))
        rows = self._rows[:count]
        for place in range(len(free)):
            np.add.at(free[place], rows, self._amounts[place, :count])
        for hold in holds:
            if hold.end > when:
                free[:, hold.rows] -= hold.amounts
        return free

    def ready(self, until: float) -> NDArray[np.float64]:
        """(node,): the last time, up to this one, at which something there becomes free."""
        last = np.full(len(self._session.snapshot.nodes), self._now)
        count = int(self._when.searchsorted(until, side="right"))
        np.maximum.at(last, self._rows[:count], self._when[:count])
        return last

    def _releases(self) -> Iterator[Release]:
        snapshot = self._session.snapshot
        for name, tasks in snapshot.residents.items():
            row = snapshot.nodes.rows.get(name)
            if row is None:
                continue
            shared: dict[str, float] = {}
            for task in tasks:
                if task.status not in ACTIVE_ALLOCATED:
                    continue
                end = self._end(task, name, row)
                if end < math.inf:
                    yield Release(end, row, task.pod_class.holds)
                for group in task.gpu_groups:
                    shared[group] = max(shared.get(group, 0.0), end)
            for end in shared.values():  # a shared GPU is free when the last of its pods has ended
                if end < math.inf:
                    yield Release(end, row, ((GPU, 1.0),))

    def _end(self, task: Task, node: str, row: int) -> float:
        job = self._session.snapshot.jobs.get(task.group) if task.group else None
        if job is None:
            return math.inf
        end = self.estimates.end(job, RUNNING_PART)
        for held in self._holds.get(node, ()) if job.preemptible else ():
            began = self.estimates.since(job)
            if held.since <= (self._now if began is None else began) < held.start:
                self.evictable.setdefault(row, set()).add(job.key)
                end = min(end, max(held.start, self._now))
        return end


class _HeldFrom(NamedTuple):
    """Since when a node is held, and for which start."""

    since: float
    start: float


def _held_nodes(reservations: Iterable[Reservation]) -> dict[str, list[_HeldFrom]]:
    found: dict[str, list[_HeldFrom]] = {}
    for reservation in reservations:
        for each in reservation.nodes:
            found.setdefault(each.node, []).append(_HeldFrom(each.since, reservation.start))
    return found


def needs_of(pod_class: PodClass) -> tuple[tuple[int, float], ...]:
    """(place, amount) of what a pod takes of a node; parts of shared GPUs as whole ones."""
    if pod_class.share is None:
        return pod_class.holds
    return (*pod_class.holds, (GPU, float(pod_class.share.devices)))


def rooms(free: Amounts2D, needs: Sequence[tuple[int, float]]) -> NDArray[np.float64]:
    """(node,): how many pods with such needs have room."""
    counts = np.full(free.shape[1], np.inf)
    for place, amount in needs:
        counts = np.minimum(counts, np.floor(free[place] / amount + 1e-9))
    return np.asarray(np.maximum(counts, 0.0))
