"""Pods that share GPUs keep apart: the emptier a device the better, and best is one that nobody uses."""

from __future__ import annotations

from collections.abc import Mapping

from bosket.scheduler.framework.session import Session


class GpuSpread:
    """Registers the order of devices."""

    whole = 1.0

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        session.extensions.gpu_scores.add(self)

    def shared(self, used: float) -> float:
        return 1 - used
