"""Plugin nodeplacement: packs tasks onto the fullest nodes, spreads them over the emptiest, or avoids fragmentation.

Arguments `gpu` and `cpu`, each `binpack` (the default) or `spread`. GPU tasks are placed by free GPUs, others by free
CPU. With `gpu: fragmentation`, which KAI doesn't have, all tasks are placed by the GPUs that they would make unusable
(`plugins.fragmentation`), with these strategies as tie-break. Unusable for which pods is given by the pods that the
cluster sees, or by the argument `podMix` (`plugins.fixed_mix`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping

import numpy as np

from bosket.api.keys import NODE_GPU_COUNT_LABEL
from bosket.scheduler.configuration.configuration import ConfigurationError
from bosket.scheduler.framework.extension import NodeScorer, Rows, Scores
from bosket.scheduler.framework.fragmentation import FreeGpus
from bosket.scheduler.framework.ledger import NodeLedger
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import NodeRow, NodeTable
from bosket.scheduler.model.resource import CPU, GPU, ResourceIndex
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.plugins.fixed_mix import fixed_mix
from bosket.scheduler.plugins.fragmentation import LeastFragmentation
from bosket.scheduler.plugins.score import MAX_DENSITY

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


class NodePlacement:
    """Chooses the strategy per resource."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        self._strategies = {resource: arguments.get(name, "binpack") for name, resource in (("gpu", GPU), ("cpu", CPU))}
        self._mix = fixed_mix(arguments["podMix"]) if arguments.get("podMix") else None
        self._by_fragmentation = self._strategies[GPU] == "fragmentation"
        for resource, strategy in self._strategies.items():
            if strategy in ("binpack", "spread") or (resource == GPU and self._by_fragmentation):
                continue
            if strategy == "fragmentation":
                raise ConfigurationError("plugin nodeplacement: 'fragmentation' is a strategy for 'gpu', not for 'cpu'")
            known = "'binpack', 'spread' nor 'fragmentation'" if resource == GPU else "'binpack' nor 'spread'"
            raise ConfigurationError(f"plugin nodeplacement: {strategy!r} is neither {known}")

    def open(self, session: Session) -> None:
        scorers: dict[int, NodeScorer] = {
            resource: _Spread(session.nodes, resource) if strategy == "spread" else _BinPack(session.nodes, resource)
            for resource, strategy in self._strategies.items()
        }
        if self._by_fragmentation:
            mix = self._mix if self._mix is not None else session.snapshot.pod_mix
            free = FreeGpus(session.snapshot, session.nodes, mix)
            least = LeastFragmentation(free, scorers[CPU])
            session.extensions.node_scores.add(least)
            session.extensions.device_choices.add(least.choose)
            return
        session.extensions.node_scores.add(_ByResource(scorers[GPU], scorers[CPU]))


class _ByResource(NodeScorer):
    def __init__(self, gpu: NodeScorer, cpu: NodeScorer) -> None:
        self._gpu, self._cpu = gpu, cpu

    def _for(self, pod_class: PodClass) -> NodeScorer:
        return self._gpu if pod_class.wants_gpu else self._cpu

    def cache_key(self, pod_class: PodClass) -> Hashable:
        return pod_class.wants_gpu

    def packs(self, pod_class: PodClass) -> bool:
        return self._for(pod_class).packs(pod_class)

    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        return self._for(pod_class).scores(pod_class, rows)

    def score(self, pod_class: PodClass, row: NodeRow) -> float:
        return self._for(pod_class).score(pod_class, row)


class _BinPack(NodeScorer):
    """The less is free the better.

    KAI scales between the fullest and the emptiest node of the moment. Scaling by the largest node there is gives the
    same order, because no other score is as small as a difference of these, and then no score changes because of what
    happens on another node.
    """

    def __init__(self, ledger: NodeLedger, resource: ResourceIndex) -> None:
        self._ledger, self._resource = ledger, resource
        total = ledger.table.allocatable[resource]
        self._has = total > 0
        self._all_have = bool(self._has.all())
        self._most = float(total.max()) if total.size and total.max() > 0 else 1.0

    def packs(self, pod_class: PodClass) -> bool:
        del pod_class
        return True

    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        del pod_class
        scores: Scores = MAX_DENSITY * (1 - self._ledger.free()[self._resource, rows] / self._most)
        return scores if self._all_have else scores * self._has[rows]

    def score(self, pod_class: PodClass, row: NodeRow) -> float:
        del pod_class
        free = self._ledger.idle_at[self._resource, row] + self._ledger.releasing_at[self._resource, row]
        return MAX_DENSITY * (1 - free / self._most) if self._has[row] else 0.0


class _Spread(NodeScorer):
    """The larger the free part of a node the better. Of GPUs a node has as many as its label says, if it says so."""

    def __init__(self, ledger: NodeLedger, resource: ResourceIndex) -> None:
        self._ledger, self._resource = ledger, resource
        self._total = _gpu_counts(ledger.table) if resource == GPU else ledger.table.allocatable[resource]

    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        del pod_class
        free = self._ledger.idle[self._resource, rows] + self._ledger.releasing[self._resource, rows]
        total = self._total[rows]
        return np.asarray(np.divide(free, total, out=np.zeros_like(free), where=total > 0))

    def score(self, pod_class: PodClass, row: NodeRow) -> float:
        del pod_class
        total = float(self._total[row])
        free = self._ledger.idle_at[self._resource, row] + self._ledger.releasing_at[self._resource, row]
        return free / total if total > 0 else 0.0


def _gpu_counts(table: NodeTable) -> np.ndarray:
    """The GPUs that nodes have, also those that their device plugin doesn't offer at the moment."""
    labels = (node.metadata.labels.get(NODE_GPU_COUNT_LABEL, "") for node in table.nodes)
    counts = [int(label) if _WHOLE_NUMBER.fullmatch(label) else math.nan for label in labels]
    return np.where(np.isnan(counts), table.allocatable[GPU], counts)
