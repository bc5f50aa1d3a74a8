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
from bosket.scheduler.model.cell import Cells, cells
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


class _ByResource(NodeScorer):
    def __init__(self, gpu: NodeScorer, cpu: NodeScorer) -> None:
        self._gpu, self._cpu = gpu, cpu

    def _for(self, pod_class: PodClass) -> NodeScorer:
        return self._gpu if pod_class.wants_gpu else self._cpu

    def basis(self, pod_class: PodClass) -> Hashable:
        return self._for(pod_class).basis(pod_class)

    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        return self._for(pod_class).scores(pod_class, rows)

    def score(self, pod_class: PodClass, row: int) -> float:
        return self._for(pod_class).score(pod_class, row)


class _BinPack(NodeScorer):
    """The less is free the better, scaled between the fullest and the emptiest node that has the resource at all."""

    def __init__(self, ledger: NodeLedger, place: int) -> None:
        self._ledger, self._place = ledger, place
        self._has = ledger.table.allocatable[place] > 0
        self._range = _FreeRange(ledger, place, np.flatnonzero(self._has))

    def basis(self, pod_class: PodClass) -> Hashable:
        del pod_class
        return self._range.now()

    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        del pod_class
        least, most = self._range.now()
        has = self._has[rows]
        if most == least:
            return np.where(has & (most != 0), MAX_DENSITY, 0.0)
        free = self._ledger.idle[self._place, rows] + self._ledger.releasing[self._place, rows]
        return np.where(has, MAX_DENSITY * (1 - (free - least) / (most - least)), 0.0)

    def score(self, pod_class: PodClass, row: int) -> float:
        del pod_class
        least, most = self._range.now()
        if not self._has[row]:
            return 0.0
        if most == least:
            return MAX_DENSITY if most != 0 else 0.0
        free = self._ledger.idle_at[self._place, row] + self._ledger.releasing_at[self._place, row]
        return MAX_DENSITY * (1 - (free - least) / (most - least))


class _FreeRange:
    """The least and the most that is free or being released on one of these nodes, kept as placements are made."""

    def __init__(self, ledger: NodeLedger, place: int, rows: np.ndarray) -> None:
        self._ledger, self._place = ledger, place
        self._free = ledger.idle[place] + ledger.releasing[place]
        self._free_at: Cells[int] = cells(self._free)
        self._rows = rows
        self._counts = np.zeros(len(self._free), dtype=bool)
        self._counts[rows] = True
        self._seen = len(ledger.log)
        self._least, self._most = self._look()

    def now(self) -> tuple[float, float]:
        log = self._ledger.log
        if self._seen != len(log):
            self._follow(log)
        return self._least, self._most

    def _follow(self, log: list[int]) -> None:
        idle_at, releasing_at, place = self._ledger.idle_at, self._ledger.releasing_at, self._place
        look_again = False
        for row in log[self._seen :]:
            before, after = self._free_at[row], idle_at[place, row] + releasing_at[place, row]
            self._free_at[row] = after
            if before == after or not self._counts[row]:
                continue
            if before in (self._least, self._most):
                look_again = True
            self._least, self._most = min(self._least, after), max(self._most, after)
        self._seen = len(log)
        if look_again:
            self._least, self._most = self._look()

    def _look(self) -> tuple[float, float]:
        free = self._free if len(self._rows) == len(self._free) else self._free[self._rows]
        return (float(free.min()), float(free.max())) if free.size else (0.0, 0.0)


class _Spread(NodeScorer):
    """The larger the free part of a node the better."""

    def __init__(self, ledger: NodeLedger, place: int) -> None:
        self._ledger, self._place = ledger, place
        self._total = ledger.table.allocatable[place]

    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        del pod_class
        free = self._ledger.idle[self._place, rows] + self._ledger.releasing[self._place, rows]
        total = self._total[rows]
        return np.asarray(np.divide(free, total, out=np.zeros_like(free), where=total > 0))

    def score(self, pod_class: PodClass, row: int) -> float:
        del pod_class
        total = float(self._total[row])
        free = self._ledger.idle_at[self._place, row] + self._ledger.releasing_at[self._place, row]
        return free / total if total > 0 else 0.0
