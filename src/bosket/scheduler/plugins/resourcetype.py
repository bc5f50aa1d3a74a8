"""Tasks without GPUs prefer nodes without GPUs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bosket.scheduler.framework.extension import NodeScorer, Rows, Scores
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.mig_node import MigStrategy, mig_strategy
from bosket.scheduler.model.resource import GPU
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.plugins.score import RESOURCE_TYPE


class ResourceType:
    """Adds a constant to CPU-only nodes for CPU-only tasks."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        table, memory = session.snapshot.nodes, session.snapshot.memory
        partitioned = memory.recall(
            table.static_version,
            "partitioned",
            None,
            lambda: np.array([mig_strategy(each) is not MigStrategy.WHOLE for each in table.nodes], dtype=bool),
        )
        session.node_scores.add(_CpuOnly((table.allocatable[GPU] <= 0) & ~partitioned))


class _CpuOnly(NodeScorer):
    fixed = True

    def __init__(self, cpu_only_nodes: np.ndarray) -> None:
        self._bonus = np.where(cpu_only_nodes, RESOURCE_TYPE, 0.0)
        self._nothing = np.zeros(len(cpu_only_nodes))

    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        return (self._nothing if pod_class.wants_gpu else self._bonus)[rows]
