"""One operation of a statement, with what is needed to undo it."""

from __future__ import annotations

from typing import Protocol

import msgspec

from bosket.scheduler.framework.extension import Kind
from bosket.scheduler.framework.job_state import JobState, Placement
from bosket.scheduler.framework.ledger import Column, DevicesBefore, QueueAccounts
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.resource import ResourceIndex
from bosket.scheduler.model.task import WAITING, Task


class Operation(msgspec.Struct, frozen=True, eq=False):
    """What was done with a task, and the values needed to undo it."""

    kind: Kind
    job: JobState
    task: Task
    row: NodeRow  #: of the node that it was placed on or taken from; NOWHERE for one that isn't ours
    before: Placement  #: of the task, before the operation
    column: Column
    accounts: QueueAccounts
    devices: DevicesBefore | None  #: of a task that shares GPUs
    gpu_groups: tuple[str, ...]


class Tentative(Protocol):
    """Operations in effect without being decided: later jobs of the cycle see them, and the session rolls them back."""

    @property
    def operations(self) -> list[Operation]: ...

    def unchanged(self) -> list[Operation]:
        """Operations on tasks that still are as the operations left them, the newest first."""
        ...

    def room_made(self) -> dict[tuple[ResourceIndex, NodeRow], float]:
        """By resource and node: what is free because of these operations; negative where they take room."""
        ...

    def take_back(self) -> None:
        """Undoes the operations, but for tasks that something was decided about since."""
        ...


def lost_gpu_seconds(now: float, job: JobState, task: Task) -> float:
    """GPU seconds that a pod has run for: since its job started, or since it was made if that was later or isn't known.

    Asked before the pod's eviction has been decided, or while it counts as going from where it runs.
    """
    if task.status in WAITING:
        return 0.0  # it has its place since this cycle only
    since = max(job.job.history.last_started or 0.0, task.created)
    gpus = (job.cost(task) if task.pod_class.share is not None else task.pod_class.charge)[0]
    return max(0.0, now - since) * gpus
