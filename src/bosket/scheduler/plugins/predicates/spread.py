"""TopologySpread: required topology spread constraints: the skew between domains must stay within the maximum.

KAI ignores them. Which nodes and pods count, and what an empty selector means, is as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from bosket.api.core import Node
from bosket.kube.taint import tolerates
from bosket.scheduler.framework.extension import Exceptions, NodeFilter, ReasonCodes, Rows
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import Mask, NodeRow
from bosket.scheduler.model.pod_affinity import SpreadConstraint
from bosket.scheduler.model.task import ClassIndex, PodClass
from bosket.scheduler.plugins.domain import NO_ROWS, NONE, DomainCount, Domains, domains_of
from bosket.scheduler.plugins.match_ledger import MatchLedger
from bosket.scheduler.plugins.predicates.node_selector import own_nodes

UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"


class TopologySpread(NodeFilter):
    """Objects to domains that have too many pods already."""

    def __init__(self, session: Session, ledger: MatchLedger) -> None:
        self._session, self._ledger = session, ledger
        self._uneven, self._no_label = session.reason_book.numbers((UNEVEN, NO_LABEL))
        self._nothing: ReasonCodes = np.zeros(len(session.snapshot.nodes), dtype=np.int32)
        self._constraints: dict[ClassIndex, list[_Constraint]] = {}
        self._grounds: dict[Hashable, _Ground] = {}

    def concerns(self, pod_class: PodClass) -> bool:
        return pod_class.affinity_terms is not None and bool(pod_class.affinity_terms.spread)

    def global_inputs(self, pod_class: PodClass) -> Hashable:
        return tuple(each.global_inputs() for each in self._of(pod_class))

    def codes(self, pod_class: PodClass, rows: Rows) -> ReasonCodes:
        codes = self._nothing[rows]
        for each in reversed(self._of(pod_class)):  # the first constraint that is violated gives the reason
            missing, uneven = each.look(rows)
            codes = np.where(missing, self._no_label, np.where(uneven, self._uneven, codes))
        return codes

    def code(self, pod_class: PodClass, row: NodeRow) -> int:
        for each in self._of(pod_class):
            if each.is_missing(row):
                return int(self._no_label)
            if each.is_uneven(row):
                return int(self._uneven)
        return 0

    def exceptions(self, pod_class: PodClass) -> Exceptions:
        parts = [each.rows() for each in self._of(pod_class)]
        return Exceptions(parts[0] if len(parts) == 1 else np.concatenate(parts))

    def _of(self, pod_class: PodClass) -> list[_Constraint]:
        found = self._constraints.get(pod_class.index)
        if found is None:
            affinity_terms = pod_class.affinity_terms
            assert affinity_terms is not None
            found = self._constraints[pod_class.index] = [
                _Constraint(self._ledger, self._ground(pod_class, each), pod_class, each)
                for each in affinity_terms.spread
            ]
        return found

    def _ground(self, pod_class: PodClass, constraint: SpreadConstraint) -> _Ground:
        assert pod_class.affinity_terms is not None
        labels = tuple(each.topology_key for each in pod_class.affinity_terms.spread)
        policies = constraint.honors_affinity, constraint.honors_taints
        key = (pod_class.fixed_index, labels, constraint.topology_key, policies)
        found = self._grounds.get(key)
        if found is None:
            labelled = np.logical_and.reduce([domains_of(self._session, label).of_row != NONE for label in labels])
            eligible: Mask = labelled & _included(self._session, pod_class, constraint)
            found = self._grounds[key] = _Ground(domains_of(self._session, constraint.topology_key), eligible)
        return found


class _Ground:
    """The nodes and domains that count for a constraint: shared by all classes that differ in their selector only."""

    def __init__(self, domains: Domains, eligible: Mask) -> None:
        self.domains, self.eligible = domains, eligible
        # Domains without a node that counts aren't there at all.
        self.present = np.unique(domains.of_row[eligible])


class _Constraint:
    """One constraint of one class: how many pods each domain has, and the fewest."""

    def __init__(self, ledger: MatchLedger, ground: _Ground, pod_class: PodClass, constraint: SpreadConstraint) -> None:
        self._count = DomainCount(ledger.match_count(constraint.selector), ground.domains, ground.eligible)
        self._present = ground.present
        self._too_few = len(ground.present) < constraint.min_domains
        itself = constraint.selects_all or constraint.selector in pod_class.match_keys.staying
        self._allowed = constraint.max_skew - int(itself)  # what a domain may be ahead by before the pod is placed
        self._fewest = 0
        self._looked_at = -1
        self._match_count = ledger.match_count(constraint.selector)

    def global_inputs(self) -> Hashable:
        self._catch_up()
        return self._fewest, self._count.changes

    def look(self, rows: Rows) -> tuple[Mask, Mask]:
        """For these rows: whether the node lacks the label, and whether its domain is too far ahead."""
        self._catch_up()
        missing = self._count.domains.of_row[rows] == NONE
        return missing, self._count.at(rows) - self._fewest > self._allowed

    def is_missing(self, row: NodeRow) -> bool:
        """Whether a node lacks the label."""
        return bool(self._count.domains.of_row[row] == NONE)

    def is_uneven(self, row: NodeRow) -> bool:
        """Whether a node's domain is too far ahead."""
        self._catch_up()
        return self._count.here(row) - self._fewest > self._allowed

    def rows(self) -> NDArray[np.intp]:
        """All nodes that lack the label, or whose domain is too far ahead."""
        self._catch_up()
        domains, counts = self._count.domains, self._count.per_domain()
        assert counts is not None
        # Only domains with pods are ahead of others, unless the skew itself is nonsense.
        some = counts.indexes() if self._allowed >= 0 else np.arange(len(domains))
        uneven = domains.rows_in(some[counts.at(some) - self._fewest > self._allowed]) if len(some) else NO_ROWS
        return uneven if not len(domains.lacking) else np.concatenate((uneven, domains.lacking))

    def _catch_up(self) -> None:
        if self._looked_at == len(self._match_count.log):
            return
        self._looked_at = len(self._match_count.log)
        per_domain = self._count.per_domain()
        assert per_domain is not None
        # Only domains that are present have pods that count: if there are fewer of these, some have none.
        is_one_empty = self._too_few or len(per_domain) < len(self._present) or not len(self._present)
        self._fewest = 0 if is_one_empty else int(per_domain.at(self._present).min())


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
