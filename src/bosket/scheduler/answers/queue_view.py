"""What each queue uses, deserves and may use, and how many of its jobs wait: for `bosket queues` and `GET /queues`.

Amounts are the scheduler's own: those of a session that was opened on the snapshot, with all plugins. Where nodes or
queues can't be read, they come from the jobs that can, and what isn't known is None.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import open_session
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.queue import UNLIMITED
from bosket.scheduler.model.resource import NOTHING, QUEUE_RESOURCES, QueueAmounts, plus
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, ALLOCATED, WAITING

#: Resources by the names that people use, in the order of `QueueAmounts`, and how much of the scheduler's unit one is.
UNITS: Final[Mapping[str, float]] = {"gpu": 1.0, "cpu": 1000.0, "memory": float(2**30)}
#: Kinds without which the amounts of queues aren't known.
_NEEDED: Final = ("Node", "Queue", "Pod", "PodGroup")


class ResourceView(msgspec.Struct, frozen=True, rename="camel"):
    """One resource of one queue: GPUs, cores or GiB. A quota or limit of None has no bound."""

    used: float
    requested: float  #: used, and what waiting pods ask for
    non_preemptible: float | None  #: the part of `used` that nobody may take back; None: not known
    fair_share: float | None = None  #: None: not known
    quota: float | None = None
    limit: float | None = None
    weight: float | None = None  #: over quota; None: not known


class QueueView(msgspec.Struct, frozen=True, rename="camel"):
    """One queue, what is below it included."""

    name: str
    display_name: str
    parent: str
    depth: int  #: 0 for a root
    is_leaf: bool
    priority: int | None
    running_jobs: int
    waiting_jobs: int  #: jobs of which nothing runs yet
    waiting_gpus: float  #: that the pending pods of these ask for
    resources: dict[str, ResourceView]  #: by the names in `UNITS`
    problem: str = ""  #: why jobs of this queue can't be scheduled


class QueueReport(msgspec.Struct, frozen=True, rename="camel"):
    """All queues: parents before children, siblings by name."""

    queues: tuple[QueueView, ...]
    total: dict[str, float] | None  #: what nodes that take pods have, by the names in `UNITS`; None: not known
    unknown: tuple[str, ...] = ()  #: kinds that can't be read, at least not all of them


def queue_report(snapshot: Snapshot, configuration: Configuration, unread: Collection[str] = ()) -> QueueReport:
    """The queues of the snapshot. `unread`: kinds of which the snapshot doesn't have all objects."""
    unknown = tuple(kind for kind in _NEEDED if kind in unread)
    jobs = _JobCounts(snapshot)
    if "Queue" in unknown:
        views = [_view_of_jobs(name, jobs) for name in sorted({job.queue for job in snapshot.jobs.values()} - {""})]
        return QueueReport(tuple(views), None if "Node" in unknown else _total(snapshot), unknown)
    session = open_session(snapshot, configuration)
    tree, shares = snapshot.queues, session.queues.fair_share
    requested = _rolled_up(snapshot, {name: use.requested for name, use in snapshot.use.items()})
    views = []
    for row in _in_tree_order(tree.roots, tree.children):
        queue, names = tree.queues[row], jobs.below(snapshot, row)
        allocated = jobs.held(names) if unknown else session.queues.allocated[row]
        asked = jobs.asked(names) if unknown else requested[row]
        non_preemptible = None if unknown else session.queues.non_preemptible[row]
        views.append(
            QueueView(
                name=queue.name,
                display_name=queue.display_name,
                parent=queue.parent,
                depth=len(tree.paths[row]) - 1,
                is_leaf=not tree.children[row],
                priority=queue.priority,
                running_jobs=sum(jobs.running.get(name, 0) for name in names),
                waiting_jobs=sum(jobs.waiting.get(name, 0) for name in names),
                waiting_gpus=sum(jobs.waiting_gpus.get(name, 0.0) for name in names),
                resources={
                    name: ResourceView(
                        used=allocated[at] / unit,
                        requested=asked[at] / unit,
                        non_preemptible=None if non_preemptible is None else non_preemptible[at] / unit,
                        fair_share=None if unknown else _finite(shares[row][at] / unit),
                        quota=_bounded(queue.quota[at], unit),
                        limit=_bounded(queue.limit[at], unit),
                        weight=queue.weight[at],
                    )
                    for at, (name, unit) in enumerate(UNITS.items())
                },
            )
        )
    views += [_view_of_jobs(name, jobs, why) for name, why in sorted(tree.refused.items())]
    return QueueReport(tuple(views), None if "Node" in unknown else _total(snapshot), unknown)


class _JobCounts:
    """Jobs by the name of their own queue."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.running: dict[str, int] = {}
        self.waiting: dict[str, int] = {}
        self.waiting_gpus: dict[str, float] = {}
        self._held: dict[str, QueueAmounts] = {}
        self._asked: dict[str, QueueAmounts] = {}
        for job in snapshot.jobs.values():
            self._count(job)

    def _count(self, job: Job) -> None:
        held = asked = NOTHING
        is_active = False
        for task in job.tasks:
            is_active = is_active or task.status in ACTIVE_ALLOCATED
            if task.status in ALLOCATED:
                held = plus(held, task.pod_class.charge)
            elif task.status in WAITING:
                asked = plus(asked, task.pod_class.charge)
        queue = job.queue
        if is_active:
            self.running[queue] = self.running.get(queue, 0) + 1
        elif job.has_waiting:
            self.waiting[queue] = self.waiting.get(queue, 0) + 1
            self.waiting_gpus[queue] = self.waiting_gpus.get(queue, 0.0) + asked[0]
        self._held[queue] = plus(self._held.get(queue, NOTHING), held)
        self._asked[queue] = plus(self._asked.get(queue, NOTHING), plus(held, asked))

    def below(self, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """The names of the queue and all below it."""
        tree = snapshot.queues
        return tuple(tree.queues[each].name for each in _in_tree_order((row,), tree.children))

    def held(self, names: Iterable[str]) -> QueueAmounts:
        return _sum(self._held.get(name, NOTHING) for name in names)

    def asked(self, names: Iterable[str]) -> QueueAmounts:
        return _sum(self._asked.get(name, NOTHING) for name in names)


def _in_tree_order(roots: Iterable[int], children: tuple[tuple[int, ...], ...]) -> list[int]:
    """Rows, parents first. Rows are in order of names."""
    found: list[int] = []
    ahead = list(reversed(list(roots)))
    while ahead:
        row = ahead.pop()
        found.append(row)
        ahead.extend(reversed(children[row]))
    return found


def _rolled_up(snapshot: Snapshot, own: Mapping[str, QueueAmounts]) -> list[QueueAmounts]:
    """By row: the sum over the queue and all below it."""
    tree = snapshot.queues
    sums = [NOTHING] * len(tree.queues)
    for name, amounts in sorted(own.items()):
        row = tree.rows.get(name)
        for step in tree.paths[row] if row is not None else ():
            sums[step] = plus(sums[step], amounts)
    return sums


def _view_of_jobs(name: str, jobs: _JobCounts, problem: str = "") -> QueueView:
    """A queue of which no more is known than its jobs."""
    held, asked = jobs.held([name]), jobs.asked([name])
    return QueueView(
        name=name,
        display_name=name,
        parent="",
        depth=0,
        is_leaf=True,
        priority=None,
        running_jobs=jobs.running.get(name, 0),
        waiting_jobs=jobs.waiting.get(name, 0),
        waiting_gpus=jobs.waiting_gpus.get(name, 0.0),
        resources={
            resource: ResourceView(used=held[at] / unit, requested=asked[at] / unit, non_preemptible=None)
            for at, (resource, unit) in enumerate(UNITS.items())
        },
        problem=problem,
    )


def _total(snapshot: Snapshot) -> dict[str, float]:
    table, taking = snapshot.nodes, snapshot.taking_nodes()
    return {
        name: float((table.allocatable[place] * taking).sum()) / unit
        for place, (name, unit) in zip(QUEUE_RESOURCES, UNITS.items(), strict=True)
    }


def _bounded(amount: float, unit: float) -> float | None:
    return None if amount == UNLIMITED else amount / unit


def _finite(amount: float) -> float | None:
    return amount if math.isfinite(amount) else None


def _sum(amounts: Iterable[QueueAmounts]) -> QueueAmounts:
    total = NOTHING
    for each in amounts:
        total = plus(total, each)
    return total
