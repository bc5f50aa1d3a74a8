"""Of a Kubeflow job the pod that the others report to goes first: the master, or MPI's launcher."""

from __future__ import annotations

from collections.abc import Mapping

from bosket.api.keys import KUBEFLOW_JOB_ROLE_LABEL
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.task import Task

LEADING_ROLES = frozenset({"master", "launcher"})


class Kubeflow:
    """Orders tasks by their role in the training job."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        session.extensions.task_order.add(_rank)


def _rank(task: Task) -> float:
    return 0.0 if task.pod.metadata.labels.get(KUBEFLOW_JOB_ROLE_LABEL) in LEADING_ROLES else 1.0
