"""What the jobs of each queue hold and want, counted again for queues of which a job changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from bosket.api.object import ObjectKey
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.node import NodeTable
from bosket.scheduler.model.resource import NOTHING, Shares, plus
from bosket.scheduler.model.task import ALLOCATED, PodClass, Task
from bosket.scheduler.snapshot.snapshot import QueueUse


class QueueUses:
    """Jobs by queue, and what comes of them."""

    def __init__(self) -> None:
        self._jobs: dict[str, dict[ObjectKey, Job]] = {}
        self._uses: dict[str, QueueUse] = {}
        self._dirty: set[str] = set()
        self._by_device: set[str] = set()  # queues whose pods cost what the size of devices makes of them
        self._sizes: tuple[int, ...] = ()

    def replace(self, key: ObjectKey, before: Job | None, after: Job | None) -> None:
        """A job came, changed or went."""
        if before is not None:
            del self._jobs[before.queue][key]
            self._dirty.add(before.queue)
        if after is not None:
            self._jobs.setdefault(after.queue, {})[key] = after
            self._dirty.add(after.queue)

    def is_unchanged(self) -> bool:
        return not self._dirty

    def count(self, table: NodeTable) -> Mapping[str, QueueUse]:
        """By queue; what runs on other nodes than these isn't counted, because it is another shard's."""
        if table.devices.sizes != self._sizes:
            self._sizes = table.devices.sizes
            self._dirty |= self._by_device
        if self._dirty:
            self._uses = dict(self._uses)  # the snapshot before keeps its own
        for name in self._dirty:
            self._by_device.discard(name)
            if self._jobs.get(name):
                count = _Count(table)
                for job in self._jobs[name].values():
                    count.add(job)
                self._uses[name] = count.use()
                if count.depends_on_devices:
                    self._by_device.add(name)
            else:
                self._jobs.pop(name, None)
                self._uses.pop(name, None)
        self._dirty.clear()
        return self._uses


class _Count:
    """The jobs of one queue, added up by class, and by cost where the same pod costs differently from node to node."""

    def __init__(self, table: NodeTable) -> None:
        self._rows, self._devices = table.rows, table.devices
        self._allocated: list[PodClass] = []
        self._non_preemptible: list[PodClass] = []
        self._pending: dict[PodClass, int] = {}
        self._sharing: dict[Shares, int] = {}
        self._sharing_non_preemptible: dict[Shares, int] = {}
        self.depends_on_devices = False

    def add(self, job: Job) -> None:
        for pod_set in job.pod_sets:
            pending, only = self._pending, pod_set.only_class
            if only is not None:
                pending[only] = pending.get(only, 0) + len(pod_set.pending)
            else:
                for task in pod_set.pending:
                    pending[task.pod_class] = pending.get(task.pod_class, 0) + 1
            if not pod_set.active:
                continue
            held, rows = [], self._rows
            for task in pod_set.tasks:
                if task.status in ALLOCATED and task.node in rows:
                    if task.pod_class.share is None:
                        held.append(task.pod_class)
                    else:
                        self._share(task, preemptible=job.preemptible)
            self._allocated += held
            if not job.preemptible:
                self._non_preemptible += held

    def _share(self, task: Task, *, preemptible: bool) -> None:
        self.depends_on_devices = True
        cost = task.pod_class.shared_on(self._devices.sizes[self._rows[task.node]])
        self._sharing[cost] = self._sharing.get(cost, 0) + 1
        if not preemptible:
            self._sharing_non_preemptible[cost] = self._sharing_non_preemptible.get(cost, 0) + 1

    def use(self) -> QueueUse:
        smallest = self._devices.smallest
        wanted: dict[Shares, int] = {}
        for pod_class, count in self._pending.items():
            cost = pod_class.shared_by(smallest)
            wanted[cost] = wanted.get(cost, 0) + count
            self.depends_on_devices |= pod_class.share is not None
        held = _sum(self._allocated, self._sharing)
        firm = _sum(self._non_preemptible, self._sharing_non_preemptible)
        return QueueUse(held, firm, plus(held, _sum((), wanted)))


def _sum(pods: Collection[PodClass], costs: Mapping[Shares, int]) -> Shares:
    """What pods hold, and so many others of each cost, of the resources that queues account for."""
    if pods:
        costs = dict(costs)
        for pod_class, count in Counter(pods).items():
            costs[pod_class.shared] = costs.get(pod_class.shared, 0) + count
    gpus, millicores, memory = NOTHING
    for (gpu, cpu, size), count in sorted(costs.items()):  # sums of floats in one order, whatever was seen first
        gpus, millicores, memory = gpus + gpu * count, millicores + cpu * count, memory + size * count
    return gpus, millicores, memory
