"""Plugin nodeavailability: prefers nodes where a task fits now to nodes where it would be pipelined."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from bosket.scheduler.framework.extension import NodeScorer, Rows, Scores
from bosket.scheduler.framework.ledger import NodeLedger
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.plugins.score import AVAILABILITY


class NodeAvailability:
    """Adds a constant to nodes whose idle resources suffice."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        session.extensions.node_scores.add(_FitsNow(session.nodes))


class _FitsNow(NodeScorer):
    def __init__(self, ledger: NodeLedger) -> None:
        self._ledger = ledger

    def cache_key(self, pod_class: PodClass) -> Hashable:
        del pod_class  # what it asks of nodes' resources is all
        return None

    def packs(self, pod_class: PodClass) -> bool:
        del pod_class
        return True

    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        return np.asarray(self._ledger.fit_idle(pod_class, rows) * AVAILABILITY)

    def score(self, pod_class: PodClass, row: NodeRow) -> float:
        return AVAILABILITY if self._ledger.fits_idle(pod_class, row) else 0.0
