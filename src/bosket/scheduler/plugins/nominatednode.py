"""Plugin nominatednode: prefers the node in a pod's `status.nominatedNodeName`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from bosket.scheduler.framework.extension import NodeScorer, Rows, Scores
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import NodeTable
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.plugins.score import NOMINATED_NODE


class NominatedNode:
    """Adds to the nominated node more than all other scores together."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        session.extensions.node_scores.add(_Nominated(session.snapshot.nodes))


class _Nominated(NodeScorer):
    static = True

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._nowhere = np.zeros(len(table))

    def cache_key(self, pod_class: PodClass) -> Hashable:
        return pod_class.nominated_node

    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        row = self._table.rows.get(pod_class.nominated_node)
        if row is None:
            return self._nowhere[rows]
        scores = self._nowhere.copy()
        scores[row] = NOMINATED_NODE
        return scores[rows]
