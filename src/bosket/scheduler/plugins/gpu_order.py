"""Plugins gpupack and gpuspread: which device of a node is the better one for a pod that shares GPUs.

A configuration names one of them, by how the shard places pods on GPUs: together or apart. Their scores run from 0.0 to
1.0, like the used part of a device, and are compared by placement once the node is chosen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from bosket.scheduler.framework.session import Session


class _GpuOrder(ABC):
    """A `GpuScorer` that registers itself."""

    whole: float

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        session.extensions.gpu_scores.add(self)

    @abstractmethod
    def shared(self, used: float) -> float: ...


class GpuPack(_GpuOrder):
    """Pods that share GPUs go together: the fuller a device the better, and a new one is opened last."""

    whole = 0.0

    def shared(self, used: float) -> float:
        return used


class GpuSpread(_GpuOrder):
    """Pods that share GPUs keep apart: the emptier a device the better, and best is one that nobody uses."""

    whole = 1.0

    def shared(self, used: float) -> float:
        return 1 - used
