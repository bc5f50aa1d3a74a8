"""scheduling.k8s.io/v1: priority classes."""

from __future__ import annotations

from bosket.api.object import KubeObject


class PriorityClass(KubeObject):
    """A name for a priority that pods can have."""

    value: int = 0
    globalDefault: bool = False
    description: str = ""
    preemptionPolicy: str | None = None
