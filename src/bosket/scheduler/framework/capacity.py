"""Whether queues have room for what jobs ask for, by all capacity checks, and what pods cost on devices of a size."""

from __future__ import annotations

from bosket.scheduler.framework.extension_points import ExtensionPoints
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.model.node import NodeTable
from bosket.scheduler.model.reason import JobReason
from bosket.scheduler.model.resource import QueueAmounts
from bosket.scheduler.model.task import ClassIndex, PodClass, Task


class Capacity:
    """The capacity checks of a session, and the prices that they are asked with."""

    def __init__(self, table: NodeTable, extensions: ExtensionPoints) -> None:
        self._devices, self._checks = table.devices, extensions.capacity_checks
        self._costly_sizes: dict[ClassIndex, list[int]] = {}
        #: by class, number and size of devices
        self._prices: dict[tuple[ClassIndex, int, int | None], QueueAmounts] = {}

    def objection(self, job: JobState) -> JobReason | None:
        """Why the job's queue has no room for its next tasks."""
        for check in self._checks:
            reason = check(job, job.least_request())
            if reason is not None:
                return reason
        return None

    def over_capacity_by_size(self, job: JobState, task: Task) -> dict[int, JobReason]:
        """By size of devices: why the task's queue has no room for it there.

        The job as a whole was checked, with the largest devices there are: on smaller ones memory costs more.
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
        """What so many pods ask for together, if all devices were of this size. Jobs that are alike get the very same
        object: whether the next job of a queue asks for something else is then seen at once."""
        key = (pod_class.index, count, device_mib)
        found = self._prices.get(key)
        if found is None:
            gpus, millicores, memory = pod_class.charge_by(device_mib)
            found = self._prices[key] = (gpus * count, millicores * count, memory * count)
        return found

    def _sizes_that_cost_more(self, pod_class: PodClass) -> list[int]:
        """Sizes of devices on which pods of a class cost more than was checked for their job as a whole."""
        found = self._costly_sizes.get(pod_class.index)
        if found is None:
            checked = pod_class.charge_by(self._devices.largest)[0]
            sizes = sorted(set(self._devices.sizes))
            found = [size for size in sizes if pod_class.required_on(size)[0] > checked]
            self._costly_sizes[pod_class.index] = found
        return found
