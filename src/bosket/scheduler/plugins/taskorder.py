"""Plugin taskorder: tasks with a task priority first, larger numbers first."""

from __future__ import annotations

from collections.abc import Mapping

from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.task import Task


class TaskOrder:
    """Orders tasks by the label kai.scheduler/task-priority."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        session.extensions.task_order.add(_rank)


def _rank(task: Task) -> tuple[int, ...]:
    return (1, 0) if task.task_priority is None else (0, -task.task_priority)
