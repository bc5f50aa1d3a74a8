"""Packs tasks onto the fullest nodes, or spreads them over the emptiest, per resource.

Arguments `gpu` and `cpu`, each `binpack` (the default) or `spread`. Tasks that ask for GPUs are placed by free GPUs,
the others by free CPU.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from bosket.scheduler.framework.configuration import ConfigurationError
from bosket.scheduler.framework.extension import NodeScorer, Rows, Scores
from bosket.scheduler.framework.ledger import NodeLedger
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.resource import CPU, GPU
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.plugins.score import MAX_DENSITY


class NodePlacement:
    """Chooses the strategy per resource."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        self._strategies = {place: arguments.get(name, "binpack") for name, place in (("gpu", GPU), ("cpu", CPU))}
        for strategy in self._strategies.values():
            if strategy not in ("binpack", "spread"):
                raise ConfigurationError(f"plugin nodeplacement: {strategy!r} is neither 'binpack' nor 'spread'")

    def open(self, session: Session) -> None:
        scorers: dict[int, NodeScorer] = {
            place: _BinPack(session.nodes, place) if strategy == "binpack" else _Spread(session.nodes, place)
            for place, strategy in self._strategies.items()
        }
        session.node_scores.add(_ByResource(scorers[GPU], scorers[CPU]))


class _ByResource:
    def __init__(self, gpu: NodeScorer, cpu: NodeScorer) -> None:
        self._gpu, self._cpu = gpu, cpu

    def basis(self, pod_class: PodClass) -> Hashable:
        return (self._gpu if pod_class.wants_gpu else self._cpu).basis(pod_class)

    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        return (self._gpu if pod_class.wants_gpu else self._cpu).scores(pod_class, rows)


class _BinPack:
    """The less is free the better, scaled between the fullest and the emptiest node that has the resource at all."""

    def __init__(self, ledger: NodeLedger, place: int) -> None:
        self._ledger, self._place = ledger, place
        self._has = ledger.table.allocatable[place] > 0

    def basis(self, pod_class: PodClass) -> Hashable:
        del pod_class
        return self._range()

    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        del pod_class
        least, most = self._range()
        has = self._has[rows]
        if most == least:
            return np.where(has & (most != 0), MAX_DENSITY, 0.0)
        return np.where(has, MAX_DENSITY * (1 - (self._free(rows) - least) / (most - least)), 0.0)

    def _free(self, rows: Rows) -> Scores:
        return np.asarray(self._ledger.idle[self._place, rows] + self._ledger.releasing[self._place, rows])

    def _range(self) -> tuple[float, float]:
        free = self._free(slice(None))[self._has]
        return (float(free.min()), float(free.max())) if free.size else (0.0, 0.0)


class _Spread:
    """The larger the free part of a node the better."""

    def __init__(self, ledger: NodeLedger, place: int) -> None:
        self._ledger, self._place = ledger, place
        self._total = ledger.table.allocatable[place]

    def basis(self, pod_class: PodClass) -> Hashable:
        del pod_class
        return None

    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        del pod_class
        free = self._ledger.idle[self._place, rows] + self._ledger.releasing[self._place, rows]
        total = self._total[rows]
        return np.asarray(np.divide(free, total, out=np.zeros_like(free), where=total > 0))
