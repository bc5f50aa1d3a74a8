"""Plugin gpusharingorder: prefers nodes with room on a shared GPU to nodes where a new one would be opened.

As in KAI the score applies to every pod: one without a GPU request "has room" on each shared device.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from bosket.scheduler.framework.extension import NodeScorer, Rows, Scores
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.resource import GPU
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.plugins.score import GPU_SHARING


class GpuSharingOrder:
    """Adds a constant to nodes with a group that takes the pod."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        session.extensions.node_scores.add(_HasRoom(session))


class _HasRoom(NodeScorer):
    def __init__(self, session: Session) -> None:
        self._shared, self._device_choices = session.nodes.shared, session.extensions.device_choices

    def concerns(self, pod_class: PodClass) -> bool:
        # Who weighs devices against each other says of nodes, too, whether a shared one is better.
        return not self._device_choices and not _wants_whole(pod_class)

    def cache_key(self, pod_class: PodClass) -> Hashable:
        return _wants_whole(pod_class)

    def packs(self, pod_class: PodClass) -> bool:
        del pod_class
        return True

    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        if not self._shared or _wants_whole(pod_class):
            return np.zeros(len(self._shared.sizes))[rows]
        return np.where(self._shared.have_room(pod_class.share, rows), GPU_SHARING, 0.0)

    def score(self, pod_class: PodClass, row: NodeRow) -> float:
        if not self._shared or _wants_whole(pod_class):
            return 0.0
        return GPU_SHARING if self._shared.with_room(pod_class.share, row) else 0.0


def _wants_whole(pod_class: PodClass) -> bool:
    """No shared device has room for a whole one."""
    return pod_class.share is None and pod_class.amounts[GPU] > 0
