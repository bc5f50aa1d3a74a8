"""Topology spread constraints that must hold: no domain may get ahead of the emptiest one by more than the skew.

KAI doesn't look at them. Which nodes and pods count, and what an empty selector means, is as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from bosket.api.core import Node
from bosket.kube.taint import tolerates
from bosket.scheduler.framework.extension import NodeFilter, ReasonCodes, Rows
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import Mask
from bosket.scheduler.model.peer import SpreadConstraint
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.plugins.domain import NONE, DomainCount, domains_of
from bosket.scheduler.plugins.mark_ledger import MarkLedger
from bosket.scheduler.plugins.predicates.node_selector import own_nodes

UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"


class TopologySpread(NodeFilter):
    """Objects to domains that have too many pods already."""

    def __init__(self, session: Session, ledger: MarkLedger) -> None:
        self._session, self._ledger = session, ledger
        self._uneven, self._no_label = session.reason_book.numbers((UNEVEN, NO_LABEL))
        self._nothing: ReasonCodes = np.zeros(len(session.snapshot.nodes), dtype=np.int32)
        self._constraints: dict[int, list[_Constraint]] = {}

    def concerns(self, pod_class: PodClass) -> bool:
        return pod_class.wishes is not None and bool(pod_class.wishes.spread)

    def basis(self, pod_class: PodClass) -> Hashable:
        return tuple(each.basis() for each in self._of(pod_class))

    def codes(self, pod_class: PodClass, rows: Rows) -> ReasonCodes:
        codes = self._nothing[rows]
        for each in reversed(self._of(pod_class)):  # the first constraint that is violated gives the reason
            missing, uneven = each.look(rows)
            codes = np.where(missing, self._no_label, np.where(uneven, self._uneven, codes))
        return codes

    def _of(self, pod_class: PodClass) -> list[_Constraint]:
        found = self._constraints.get(pod_class.index)
        if found is None:
            wishes = pod_class.wishes
            assert wishes is not None
            labelled = np.logical_and.reduce(
                [domains_of(self._session, each.topology_key).of_row != NONE for each in wishes.spread]
            )
            found = self._constraints[pod_class.index] = [
                _Constraint(self._session, self._ledger, pod_class, each, labelled) for each in wishes.spread
            ]
        return found


class _Constraint:
    """One constraint of one class: how many pods each domain has, and the fewest."""

    def __init__(
        self, session: Session, ledger: MarkLedger, pod_class: PodClass, constraint: SpreadConstraint, labelled: Mask
    ) -> None:
        eligible = labelled & _included(session, pod_class, constraint)
        self._count = DomainCount(
            ledger.tally(constraint.selector), domains_of(session, constraint.topology_key), eligible
        )
        # Domains without a node that counts aren't there at all.
        self._present = np.zeros(len(self._count.domains) + 1, dtype=bool)
        self._present[self._count.domains.of_row[eligible]] = True
        self._too_few = int(self._present.sum()) < constraint.min_domains
        itself = constraint.selects_all or constraint.selector in pod_class.marks.staying
        self._allowed = constraint.max_skew - int(itself)  # what a domain may be ahead by before the pod is placed
        self._fewest = 0
        self._looked_at = -1
        self._tally = ledger.tally(constraint.selector)

    def basis(self) -> Hashable:
        self._catch_up()
        return self._fewest, self._count.changes

    def look(self, rows: Rows) -> tuple[Mask, Mask]:
        """For these rows: whether the node lacks the label, and whether its domain is too far ahead."""
        self._catch_up()
        missing = self._count.domains.of_row[rows] == NONE
        return missing, self._count.at(rows) - self._fewest > self._allowed

    def _catch_up(self) -> None:
        if self._looked_at == len(self._tally.log):
            return
        self._looked_at = len(self._tally.log)
        per_domain = self._count.per_domain()
        assert per_domain is not None
        counts = per_domain[self._present]
        self._fewest = 0 if self._too_few or not counts.size else int(counts.min())


def _included(session: Session, pod_class: PodClass, constraint: SpreadConstraint) -> Mask:
    """The nodes that the constraint's policies let count."""
    table, memory = session.snapshot.nodes, session.snapshot.memory
    included: Mask = np.ones(len(table), dtype=bool)

    def own() -> Mask:
        return np.fromiter(map(own_nodes(pod_class), table.nodes), bool, len(table))

    def tolerated() -> Mask:
        return np.fromiter((_is_tolerated(pod_class, node) for node in table.nodes), bool, len(table))

    if constraint.honors_affinity:
        included = included & memory.recall(table.static_version, "own nodes", pod_class.fixed_index, own)
    if constraint.honors_taints:
        included = included & memory.recall(table.static_version, "tolerated", pod_class.fixed_index, tolerated)
    return included


def _is_tolerated(pod_class: PodClass, node: Node) -> bool:
    return all(
        taint.effect == "PreferNoSchedule" or any(tolerates(each, taint) for each in pod_class.tolerations)
        for taint in node.spec.taints
    )
