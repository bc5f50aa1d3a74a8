"""What the jobs of each queue hold and want, counted again for queues of which a job changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping

from bosket.api.object import ObjectKey
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.resource import NOTHING, Shares, plus
from bosket.scheduler.model.task import ALLOCATED, PodClass
from bosket.scheduler.snapshot.snapshot import QueueUse


class QueueUses:
    """Jobs by queue, and what comes of them."""

    def __init__(self) -> None:
        self._jobs: dict[str, dict[ObjectKey, Job]] = {}
        self._uses: dict[str, QueueUse] = {}
        self._dirty: set[str] = set()

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

    def count(self, nodes: Container[str]) -> Mapping[str, QueueUse]:
        """By queue; what runs on other nodes than these isn't counted, because it is another shard's."""
        if self._dirty:
            self._uses = dict(self._uses)  # the snapshot before keeps its own
        for name in self._dirty:
            if self._jobs.get(name):
                self._uses[name] = _use(self._jobs[name], nodes)
            else:
                self._jobs.pop(name, None)
                self._uses.pop(name, None)
        self._dirty.clear()
        return self._uses


def _use(jobs: Mapping[ObjectKey, Job], nodes: Container[str]) -> QueueUse:
    allocated, non_preemptible, pending = Counter[PodClass](), Counter[PodClass](), Counter[PodClass]()
    for job in jobs.values():
        for pod_set in job.pod_sets:
            if pod_set.only_class is not None:
                pending[pod_set.only_class] += len(pod_set.pending)
            else:
                pending.update(task.pod_class for task in pod_set.pending)
            if not pod_set.active:
                continue
            for task in pod_set.tasks:
                if task.status in ALLOCATED and task.node in nodes:
                    allocated[task.pod_class] += 1
                    if not job.preemptible:
                        non_preemptible[task.pod_class] += 1
    held = _shared_request(allocated)
    return QueueUse(held, _shared_request(non_preemptible), plus(held, _shared_request(pending)))


def _shared_request(pods: Counter[PodClass]) -> Shares:
    """What so many pods of each class ask for of the resources that queues account for."""
    gpus, millicores, memory = NOTHING
    requests = sorted((pod_class.shared, count) for pod_class, count in pods.items())
    for (gpu, cpu, size), count in requests:  # sums of floats in one order, whatever was seen first
        gpus, millicores, memory = gpus + gpu * count, millicores + cpu * count, memory + size * count
    return gpus, millicores, memory
