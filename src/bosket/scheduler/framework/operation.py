"""One operation of a statement, with what is needed to undo it."""

from __future__ import annotations

from typing import Protocol

import msgspec

from bosket.scheduler.framework.extension import Kind
from bosket.scheduler.framework.job_state import JobState, Placement
from bosket.scheduler.framework.ledger import Column, DevicesBefore, QueueAccounts
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.resource import ResourceIndex
from bosket.scheduler.model.task import Task


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
