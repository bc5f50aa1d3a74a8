"""The ledger, made when it is first needed."""

from __future__ import annotations

from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.task import Task
from bosket.scheduler.plugins.dynamicresources.ledger import DeviceLedger


class LazyLedger:
    """Hears of placements; those of pods without claims are none of its business."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ledger: DeviceLedger | None = None

    def get(self) -> DeviceLedger:
        if self._ledger is None:
            self._ledger = DeviceLedger(self._session)
        return self._ledger

    def arrived(self, task: Task, row: int) -> None:
        if task.devices is not None:
            self.get().arrived(task, row)

    def left(self, task: Task, row: int) -> None:
        if task.devices is not None:
            self.get().left(task, row)
