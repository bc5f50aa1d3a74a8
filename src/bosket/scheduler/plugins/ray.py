"""Of a Ray cluster the head goes first, because workers join it."""

from __future__ import annotations

from collections.abc import Mapping

from bosket.api.keys import RAY_NODE_TYPE_LABEL
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.task import Task

HEAD = "head"


class Ray:
    """Orders tasks by their part in the Ray cluster."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        session.extensions.task_order.add(_rank)


def _rank(task: Task) -> float:
    return 0.0 if task.pod.metadata.labels.get(RAY_NODE_TYPE_LABEL) == HEAD else 1.0
