"""QueueUses: what the jobs of each queue hold and request: pods counted by class as jobs come, change and go.

Counts are integers, and amounts are computed from them in one fixed order: nothing drifts, and a change costs only the
changed job, however many others the queue has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from itertools import islice
from typing import NamedTuple, TypeVar

from bosket.api.object import ObjectKey
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.node import NodeTable
from bosket.scheduler.model.resource import NOTHING, QueueAmounts, plus
from bosket.scheduler.model.snapshot import QueueUse
from bosket.scheduler.model.task import ALLOCATED, PodClass, Task

T = TypeVar("T", bound=Hashable)


class _JobUse(NamedTuple):
    """What one job adds to the counts of its queue."""

    queue: str
    preemptible: bool
    held: tuple[tuple[PodClass, int], ...]  #: pods on nodes of this shard
    shared: tuple[tuple[QueueAmounts, int], ...]  #: pods that share GPUs, by their charge on their node's devices
    pending: tuple[tuple[PodClass, int], ...]
    depends_on_devices: bool  #: whether its pods' charges depend on the size of devices


class QueueUses:
    """Counts by queue, and the amounts computed from them."""

    def __init__(self) -> None:
        self._changed: dict[ObjectKey, Job | None] = {}  # since the last count
        self._of_job: dict[ObjectKey, _JobUse] = {}
        self._of_queue: dict[str, _Counts] = {}
        self._dirty: set[str] = set()  # queues of which a job was counted since
        self._uses: dict[str, QueueUse] = {}
        self._by_device: dict[ObjectKey, Job] = {}  # jobs whose pods cost what the size of devices makes of them
        self._sizes: tuple[int, ...] = ()
        self._latest: _JobUse | None = None

    def replace(self, key: ObjectKey, before: Job | None, after: Job | None) -> None:
        """Counts a job that came, changed or went."""
        if before is not None or after is not None:
            self._changed[key] = after

    def is_unchanged(self, uses: Mapping[str, QueueUse]) -> bool:
        """Whether `count()` would return these amounts."""
        return self._uses is uses and not self._changed and not self._dirty

    def count_ahead(self, table: NodeTable, most: int) -> bool:
        """Counts up to `most` jobs before the next `count`. True when some are left."""
        self._look_at_sizes(table)
        for key in list(islice(self._changed, most)):
            self._count(key, self._changed[key], table)
            del self._changed[key]
        return bool(self._changed)

    def count(self, table: NodeTable) -> Mapping[str, QueueUse]:
        """The amounts by queue. Pods on nodes outside this shard are another scheduler's and don't count."""
        self._look_at_sizes(table)
        for key, job in self._changed.items():
            self._count(key, job, table)
        self._changed.clear()
        if self._dirty:
            self._uses = dict(self._uses)  # copied: the last snapshot keeps its own
        for name in self._dirty:
            counts = self._of_queue[name]
            if counts.jobs:
                self._uses[name] = counts.use(table.devices.smallest)
            else:
                del self._of_queue[name]
                self._uses.pop(name, None)
        self._dirty.clear()
        return self._uses

    def _look_at_sizes(self, table: NodeTable) -> None:
        sizes = table.devices.sizes
        if sizes is not self._sizes and sizes != self._sizes:
            self._changed = {**self._by_device, **self._changed}
        self._sizes = sizes

    def _count(self, key: ObjectKey, job: Job | None, table: NodeTable) -> None:
        """Replaces the counts of one job."""
        before = self._of_job.pop(key, None)
        if before is not None:
            self._of_queue[before.queue].add(before, -1)
            self._dirty.add(before.queue)
            self._by_device.pop(key, None)
        if job is not None:
            self._of_job[key] = use = self._use_of(job, table)
            counts = self._of_queue.get(use.queue)
            if counts is None:
                counts = self._of_queue[use.queue] = _Counts()
            counts.add(use, 1)
            self._dirty.add(use.queue)
            if use.depends_on_devices:
                self._by_device[key] = job

    def _use_of(self, job: Job, table: NodeTable) -> _JobUse:
        """Jobs that are alike share one object: of those that wait in a long queue most are, and come one after the
        other."""
        latest, parts = self._latest, job.pod_sets
        only = parts[0].only_class if len(parts) == 1 and not parts[0].active else None
        if only is not None:  # all pods are pending and of one class
            pending = ((only, len(parts[0].pending)),)
            use = _JobUse(job.queue, job.preemptible, (), (), pending, only.share is not None)
        else:
            use = _use_of(job, table)
        if use == latest:
            return latest
        self._latest = use
        return use


class _Counts:
    """The jobs of one queue, summed by class, and by charge where equal pods cost differently from node to node."""

    __slots__ = ("_firm", "_firm_shared", "_held", "_pending", "_shared", "jobs")

    def __init__(self) -> None:
        self.jobs = 0
        self._held: dict[PodClass, int] = {}
        self._firm: dict[PodClass, int] = {}
        self._pending: dict[PodClass, int] = {}
        self._shared: dict[QueueAmounts, int] = {}
        self._firm_shared: dict[QueueAmounts, int] = {}

    def add(self, use: _JobUse, times: int) -> None:
        """Adds (1) or removes (-1) a job."""
        self.jobs += times
        if use.pending:
            _add(self._pending, use.pending, times)
        if use.held:
            _add(self._held, use.held, times)
            if not use.preemptible:
                _add(self._firm, use.held, times)
        if use.shared:
            _add(self._shared, use.shared, times)
            if not use.preemptible:
                _add(self._firm_shared, use.shared, times)

    def use(self, smallest: int | None) -> QueueUse:
        """`smallest`: the smallest size of devices, by which pending pods are charged."""
        wanted: dict[QueueAmounts, int] = {}
        _add(wanted, [(pod_class.charge_by(smallest), count) for pod_class, count in self._pending.items()])
        held = _sum(_by_cost(self._held, self._shared)) if self._held or self._shared else NOTHING
        firm = _sum(_by_cost(self._firm, self._firm_shared)) if self._firm or self._firm_shared else NOTHING
        return QueueUse(held, firm, plus(held, _sum(wanted)))


def _use_of(job: Job, table: NodeTable) -> _JobUse:
    """What a job adds. Equal jobs share one object: in a long queue most jobs are alike and arrive one after
    another."""
    rows, sizes = table.rows, table.devices.sizes
    pending: list[PodClass] = []
    held: list[PodClass] = []
    shared: list[QueueAmounts] = []
    for pod_set in job.pod_sets:
        if pod_set.pending:
            pending += [task.pod_class for task in pod_set.pending]
        if not pod_set.active:
            continue
        for task in pod_set.tasks:
            if task.status in ALLOCATED and task.node in rows:
                if task.pod_class.share is None:
                    held.append(task.pod_class)
                else:
                    shared.append(_cost(task, sizes[rows[task.node]]))
    depends = bool(shared) or any(pod_class.share is not None for pod_class in pending)
    return _JobUse(job.queue, job.preemptible, _counted(held), _counted(shared), _counted(pending), depends)


def _cost(task: Task, device_mib: int) -> QueueAmounts:
    return task.pod_class.charge_on(device_mib)


def _counted(each: list[T]) -> tuple[tuple[T, int], ...]:
    """What is there how often; most jobs' pods are all alike."""
    if not each:
        return ()
    count = each.count(each[0])
    return ((each[0], count),) if count == len(each) else tuple(Counter(each).items())


def _add(counts: dict[T, int], more: Iterable[tuple[T, int]], times: int = 1) -> None:
    for what, count in more:
        now = counts.get(what, 0) + count * times
        if now:
            counts[what] = now
        else:
            del counts[what]


def _by_cost(pods: Mapping[PodClass, int], shared: Mapping[QueueAmounts, int]) -> dict[QueueAmounts, int]:
    costs = dict(shared)
    _add(costs, [(pod_class.charge, count) for pod_class, count in pods.items()])
    return costs


def _sum(costs: Mapping[QueueAmounts, int]) -> QueueAmounts:
    """The charge of so many pods of each class, in the resources of queues."""
    gpus, millicores, memory = NOTHING
    for (gpu, cpu, size), count in sorted(costs.items()):  # sorted: float sums must not depend on the order of arrival
        gpus, millicores, memory = gpus + gpu * count, millicores + cpu * count, memory + size * count
    return gpus, millicores, memory
