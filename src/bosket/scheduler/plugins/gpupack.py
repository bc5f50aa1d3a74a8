"""Pods that share GPUs go together: the fuller a device the better, and a new one is opened last."""

from __future__ import annotations

from collections.abc import Mapping

from bosket.scheduler.framework.session import Session


class GpuPack:
    """Registers the order of devices."""

    whole = 0.0

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        session.extensions.gpu_scores.add(self)

    def shared(self, used: float) -> float:
        return used
