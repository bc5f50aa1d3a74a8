"""Plugin numa: predicts whether a node's kubelet can align a pod to its NUMA zones; prefers few zones.

Off by default, as in KAI. Arguments: `ignoreList`, resources, separated by commas, that zones report but no kubelet
aligns; `reconstructAvailable` (default true): the free amounts of a zone are what pods leave, instead of what its
exporter last reported. Nodes without a NodeResourceTopology are not filtered; pods that are neither Guaranteed nor
request a device of a zone are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from bosket.api.kai import NUMAZonePlacement
from bosket.api.quantity import from_int, from_milli
from bosket.scheduler.configuration.configuration import ConfigurationError
from bosket.scheduler.framework.extension import NodeFilter, NodeScorer, ReasonCodes, Rows, Scores
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.decisions import Bind
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.numa import Policy
from bosket.scheduler.model.task import ClassIndex, PodClass
from bosket.scheduler.plugins.numa.ledger import ZoneLedger, placement_of
from bosket.scheduler.plugins.score import NUMA

NOT_ALIGNED = "node cannot NUMA-align the pod's resources under its Topology Manager policy"
#: As Go reads a truth value.
_TRUTH = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True)
_TRUTH |= dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False)


class Numa:
    """Registers the filter and the scorer if some node reports zones."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        reconstruct = arguments.get("reconstructAvailable", "true")
        if reconstruct not in _TRUTH:
            raise ConfigurationError(
                f"plugin numa: reconstructAvailable is {reconstruct!r}, it must be 'true' or 'false'"
            )
        self._reconstruct = _TRUTH[reconstruct]
        names = arguments.get("ignoreList", "").split(",")
        self._ignored = frozenset(name.strip() for name in names if name.strip())

    def open(self, session: Session) -> None:
        ledger = ZoneLedger(session, self._ignored, reconstruct=self._reconstruct)
        if not ledger.zones:
            return
        session.extensions.placement_listeners.add(ledger)
        session.extensions.free_now.add(ledger.is_free_now)
        session.extensions.node_filters.add(_Aligned(session, ledger))
        session.extensions.node_scores.add(_FewZones(session, ledger))
        session.extensions.bind_details.add(_Prediction(ledger))


class _Aligned(NodeFilter):
    """Objects to nodes whose kubelet would refuse the pod."""

    def __init__(self, session: Session, ledger: ZoneLedger) -> None:
        self._ledger = ledger
        self._rows = [row for row, zones in ledger.zones.items() if zones.policy.refuses]
        self._code = session.reason_book.number(NOT_ALIGNED)
        self._none = np.zeros(len(session.snapshot.nodes), dtype=np.int32)

    def concerns(self, pod_class: PodClass) -> bool:
        return bool(self._rows) and pod_class.numa is not None

    def codes(self, pod_class: PodClass, rows: Rows) -> ReasonCodes:
        codes = self._none[rows].copy()
        if isinstance(rows, slice):
            for row in self._rows:
                codes[row] = self._objection(pod_class, row)
        else:
            for position, row in enumerate(rows.tolist()):
                if row in self._ledger.zones:
                    codes[position] = self._objection(pod_class, row)
        return codes

    def _objection(self, pod_class: PodClass, row: NodeRow) -> int:
        node = self._ledger.at(row)
        needs = pod_class.numa
        assert node is not None
        assert needs is not None
        if not node.zones.policy.refuses or not node.aligns(needs):
            return 0
        return 0 if self._ledger.fit(pod_class, row) is not None else self._code


class _FewZones(NodeScorer):
    """The fewer zones a pod spans the better. A node that says nothing is taken for the worst there is."""

    def __init__(self, session: Session, ledger: ZoneLedger) -> None:
        self._ledger = ledger
        self._most = max(len(zones.ids) for zones in ledger.zones.values())
        self._nothing = np.zeros(len(session.snapshot.nodes))
        self._unknown = np.full(len(session.snapshot.nodes), NUMA / self._most)
        self._wanted: dict[ClassIndex, bool] = {}

    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        if not self._concerns(pod_class):
            return self._nothing[rows]
        scores = self._unknown[rows].copy()
        if isinstance(rows, slice):
            for row in self._ledger.zones:
                scores[row] = self._score(pod_class, row)
        else:
            for position, row in enumerate(rows.tolist()):
                scores[position] = self._score(pod_class, row)
        return scores

    def score(self, pod_class: PodClass, row: NodeRow) -> float:
        return self._score(pod_class, row) if self._concerns(pod_class) else 0.0

    def _concerns(self, pod_class: PodClass) -> bool:
        """Whether the pods are Guaranteed, or ask for a device that the zones of some node tell about."""
        needs = pod_class.numa
        if needs is None or needs.guaranteed:
            return needs is not None
        found = self._wanted.get(pod_class.index)
        if found is None:
            nodes = (self._ledger.at(row) for row in self._ledger.zones)
            found = self._wanted[pod_class.index] = any(node is not None and node.aligns(needs) for node in nodes)
        return found

    def _score(self, pod_class: PodClass, row: NodeRow) -> float:
        node = self._ledger.at(row)
        needs = pod_class.numa
        if node is None or needs is None:
            return NUMA / self._most
        if node.zones.policy is Policy.NONE or not node.aligns(needs):
            return NUMA / len(node.zones.ids)
        given = self._ledger.fit(pod_class, row)
        return 0.0 if given is None else NUMA / max(1, len(given))


class _Prediction:
    """Writes into a bind in which zones the pod is expected."""

    def __init__(self, ledger: ZoneLedger) -> None:
        self._ledger = ledger

    def __call__(self, bind: Bind, row: NodeRow) -> Bind:
        given = self._ledger.held(bind.task, row) if row in self._ledger.zones else ()
        if not given:
            return bind
        placements = tuple(
            NUMAZonePlacement(zone=zone, amount={name: _quantity(name, amount) for name, amount in amounts.items()})
            for zone, amounts in placement_of(given, self._ledger.zones[row])
        )
        return msgspec.structs.replace(bind, numa_zones=placements)


def _quantity(name: str, amount: int) -> str:
    return from_milli(amount) if name == "cpu" else from_int(amount)
