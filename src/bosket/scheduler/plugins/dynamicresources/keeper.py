"""DeviceKeeper: a placement listener that builds the device ledger on first use."""

from __future__ import annotations

from bosket.scheduler.framework.extension import Kind, PlacementListener
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.task import Task
from bosket.scheduler.plugins.dynamicresources.ledger import DeviceLedger


class DeviceKeeper(PlacementListener):
    """Follows operations; those of pods without claims are none of its business."""

    assigns = True

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ledger: DeviceLedger | None = None

    def get(self) -> DeviceLedger:
        if self._ledger is None:
            self._ledger = DeviceLedger(self._session)
        return self._ledger

    def stays(self, task: Task, row: NodeRow) -> bool:
        return task.devices is None or self.get().stays(task, row)

    def done(self, kind: Kind, task: Task, row: NodeRow) -> None:
        if task.devices is not None:
            self.get().done(kind, task, row)

    def undone(self, kind: Kind, task: Task, row: NodeRow) -> None:
        if task.devices is not None:
            self.get().undone(kind, task, row)
