"""Plugins kubeflow and ray: of some workloads one pod goes first, the one that the others report to or join.

Each goes by a label that the workload's operator puts on pods. In any other workload no pod has it, and the plugin
changes no order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from bosket.api.keys import KUBEFLOW_JOB_ROLE_LABEL, RAY_NODE_TYPE_LABEL
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.task import Task


class _LeadingPod:
    """Orders tasks: those whose label has one of these values first."""

    label: ClassVar[str]
    leading: ClassVar[frozenset[str]]

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        label, leading = self.label, self.leading

        def rank(task: Task) -> float:  # called for every task: names of a closure cost least
            return 0.0 if task.pod.metadata.labels.get(label) in leading else 1.0

        session.extensions.task_order.add(rank)


class Kubeflow(_LeadingPod):
    """Of a Kubeflow job the master goes first, or MPI's launcher: the other pods report to it."""

    label = KUBEFLOW_JOB_ROLE_LABEL
    leading = frozenset({"master", "launcher"})


class Ray(_LeadingPod):
    """Of a Ray cluster the head goes first, because workers join it."""

    label = RAY_NODE_TYPE_LABEL
    leading = frozenset({"head"})
