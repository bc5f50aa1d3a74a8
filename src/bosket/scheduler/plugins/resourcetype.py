"""Plugin resourcetype: tasks without GPUs prefer nodes without GPUs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from bosket.scheduler.framework.extension import NodeScorer, Rows, Scores
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.mig_node import MigStrategy
from bosket.scheduler.model.resource import GPU
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.plugins.score import RESOURCE_TYPE


class ResourceType:
    """Adds a constant to CPU-only nodes for CPU-only tasks."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        whole = session.snapshot.mig_strategies() == MigStrategy.WHOLE
        session.extensions.node_scores.add(_CpuOnly((session.snapshot.nodes.allocatable[GPU] <= 0) & whole))


class _CpuOnly(NodeScorer):
    static = True

    def __init__(self, cpu_only_nodes: np.ndarray) -> None:
        self._bonus = np.where(cpu_only_nodes, RESOURCE_TYPE, 0.0)
        self._nothing = np.zeros(len(cpu_only_nodes))

    def cache_key(self, pod_class: PodClass) -> Hashable:
        return pod_class.wants_gpu

    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        return (self._nothing if pod_class.wants_gpu else self._bonus)[rows]
