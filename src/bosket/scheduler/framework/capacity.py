"""Capacity: whether queues have room for what jobs ask for, by all capacity checks of plugins."""

from __future__ import annotations

from bosket.scheduler.framework.extension_points import ExtensionPoints
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.model.node import NodeTable
from bosket.scheduler.model.reason import JobReason
from bosket.scheduler.model.resource import QueueAmounts
from bosket.scheduler.model.task import ClassIndex, PodClass, Task


class Capacity:
    """The capacity checks of a session, and the requests that they are called with."""

    def __init__(self, table: NodeTable, extensions: ExtensionPoints) -> None:
        self._devices, self._checks = table.devices, extensions.capacity_checks
        self._costly_sizes: dict[ClassIndex, list[int]] = {}
        #: by class, number and size of devices
        self._prices: dict[tuple[ClassIndex, int, int | None], QueueAmounts] = {}

    def objection(self, job: JobState) -> JobReason | None:
        """Why the job's queue has no room for its next tasks; None if it has."""
        for check in self._checks:
            reason = check(job, job.least_request())
            if reason is not None:
                return reason
        return None

    def over_capacity_by_size(self, job: JobState, task: Task) -> dict[int, JobReason]:
        """By device size: why the task's queue has no room for the task on devices of that size.

        The job as a whole was checked with the largest devices; on smaller devices the same memory is a larger part of
        a GPU.
        """
        reasons: dict[int, JobReason] = {}
        if task.pod_class.share is None or not (sizes := self._sizes_that_cost_more(task.pod_class)):
            return reasons
        for size in sizes:
            for check in self._checks:
                reason = check(job, task.pod_class.required_on(size))
                if reason is not None:
                    reasons.setdefault(size, reason)
        return reasons

    def price(self, pod_class: PodClass, count: int, device_mib: int | None) -> QueueAmounts:
        """The request of so many pods of a class, if all devices were of this size. Equal requests are the same object:
        `Turns` compares by identity whether a queue's next job asks for something else."""
        key = (pod_class.index, count, device_mib)
        found = self._prices.get(key)
        if found is None:
            gpus, millicores, memory = pod_class.charge_by(device_mib)
            found = self._prices[key] = (gpus * count, millicores * count, memory * count)
        return found

    def _sizes_that_cost_more(self, pod_class: PodClass) -> list[int]:
        """The device sizes on which pods of a class cost more than was checked for their job."""
        found = self._costly_sizes.get(pod_class.index)
        if found is None:
            checked = pod_class.charge_by(self._devices.largest)[0]
            sizes = sorted(set(self._devices.sizes))
            found = [size for size in sizes if pod_class.required_on(size)[0] > checked]
            self._costly_sizes[pod_class.index] = found
        return found
