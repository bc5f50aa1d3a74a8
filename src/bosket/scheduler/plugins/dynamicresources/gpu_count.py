"""GpuCount: counts GPUs that are claimed as devices: each device once, however many pods share it.

Only devices that one node alone reaches are among its GPUs. A task whose claims request more GPUs than its known
devices counts as holding that many more.
"""

from __future__ import annotations

from collections.abc import Iterable

from bosket.api.device_claim import is_gpu
from bosket.api.resource_k8s import AllocationResult
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.device import DeviceId, PoolId, devices_of
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.resource import GPU
from bosket.scheduler.model.task import Task, TaskStatus
from bosket.scheduler.plugins.dynamicresources.reach import Reaches

DeviceCell = tuple[int, DeviceId]  #: a device on a node


class GpuCount:
    """Keeps the session's account of GPUs true where devices are shared."""

    def __init__(self, session: Session, reaches: Reaches) -> None:
        self._nodes, self._rows = session.nodes, session.snapshot.nodes.rows
        self._inventory, self._table = session.snapshot.inventory, session.snapshot.nodes
        self._reaches = reaches
        self._users: dict[DeviceCell, int] = {}  # that have it now, those that go included
        self._stayers: dict[DeviceCell, int] = {}
        self._has_gpus: dict[int, bool] = {}

    def found(self, task: Task) -> None:
        """The task was there when the cycle began."""
        row = self._rows.get(task.node)
        assert task.devices is not None
        if row is None:
            return
        for device in task.devices.gpu_devices:
            if self._reaches.is_own(PoolId(device.driver, device.pool), row):
                _add(self._users, (row, device))
                if task.status != TaskStatus.RELEASING:
                    _add(self._stayers, (row, device))

    def has_gpus(self, row: NodeRow) -> bool:
        """Whether devices are among the node's GPUs."""
        found = self._has_gpus.get(row)
        if found is None:
            found = self._has_gpus[row] = self._inventory.has_gpus(self._table.nodes[row].metadata.name)
        return found

    def counted(self, gpus: int, allocations: Iterable[AllocationResult | None], row: NodeRow) -> tuple[DeviceId, ...]:
        """Those of allocated devices that are among the node's GPUs; `gpus` of them at most."""
        if not gpus:
            return ()
        own = {
            device
            for allocation in allocations
            for device in devices_of(allocation)
            if is_gpu(device.driver) and self._reaches.is_own(PoolId(device.driver, device.pool), row)
        }
        return tuple(sorted(own)[:gpus])

    def more(self, gpus: int, devices: Iterable[DeviceId], row: NodeRow) -> int:
        """How many GPUs of the node somebody takes who claims so many, among them these devices."""
        return gpus - sum((row, device) in self._users for device in devices) if self.has_gpus(row) else 0

    def arrived(self, task: Task, row: NodeRow, devices: tuple[DeviceId, ...], *, allocated: bool) -> None:
        """`allocated`: on free resources; otherwise on such as are being released, or back where it was."""
        idle = releasing = 0
        for device in devices:
            device_cell = (row, device)
            if allocated:
                if device_cell not in self._users:
                    idle += 1
                elif device_cell not in self._stayers:
                    releasing += 1
                _add(self._users, device_cell)
            elif device_cell not in self._stayers:
                releasing += 1
            _add(self._stayers, device_cell)
        unknown = self._unknown(task, devices, row)
        self._take(row, idle + unknown * allocated, releasing + unknown * (not allocated))

    def left(self, task: Task, row: NodeRow, devices: tuple[DeviceId, ...], *, allocated: bool) -> None:
        """`allocated`: its placement on free resources is undone."""
        idle = releasing = 0
        for device in devices:
            device_cell = (row, device)
            _drop(self._stayers, device_cell)
            if allocated:
                _drop(self._users, device_cell)
                if device_cell not in self._users:
                    idle += 1
                elif device_cell not in self._stayers:
                    releasing += 1
            elif device_cell not in self._stayers:
                releasing += 1
        unknown = self._unknown(task, devices, row)
        self._take(row, -idle - unknown * allocated, -releasing - unknown * (not allocated))

    def _unknown(self, task: Task, devices: tuple[DeviceId, ...], row: NodeRow) -> int:
        assert task.devices is not None
        return task.devices.gpus - len(devices) if self.has_gpus(row) else 0

    def _take(self, row: NodeRow, idle: int, releasing: int) -> None:
        if idle:
            self._nodes.idle_at[GPU, row] -= idle
        if releasing:
            self._nodes.releasing_at[GPU, row] -= releasing


def _add(counts: dict[DeviceCell, int], device_cell: DeviceCell) -> None:
    counts[device_cell] = counts.get(device_cell, 0) + 1


def _drop(counts: dict[DeviceCell, int], device_cell: DeviceCell) -> None:
    times = counts.get(device_cell, 0) - 1
    if times:
        counts[device_cell] = times
    else:
        del counts[device_cell]
