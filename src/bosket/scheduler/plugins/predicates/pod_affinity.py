"""PodAffinity: required affinity and anti-affinity between pods, including the anti-affinity of pods that are there."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from bosket.scheduler.framework.extension import Exceptions, NodeFilter, ReasonCodes, Rows
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import Mask, NodeRow
from bosket.scheduler.model.pod_affinity import MatchKey, PodSelector, Role
from bosket.scheduler.model.task import ClassIndex, PodClass
from bosket.scheduler.plugins.domain import NO_ROWS, NONE, DomainCount, domains_of
from bosket.scheduler.plugins.match_ledger import MatchCount, MatchLedger

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
OTHERS_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"


class PodAffinity(NodeFilter):
    """Objects to domains that lack required pods, or that have forbidden ones."""

    def __init__(self, session: Session, ledger: MatchLedger) -> None:
        self._session, self._ledger = session, ledger
        objections = (AFFINITY, ANTI_AFFINITY, OTHERS_ANTI_AFFINITY)
        self._numbers = dict(zip(objections, session.reason_book.numbers(objections), strict=True))
        self._nothing: ReasonCodes = np.zeros(len(session.snapshot.nodes), dtype=np.int32)
        self._neighbours: dict[ClassIndex, _Neighbours] = {}

    def concerns(self, pod_class: PodClass) -> bool:
        affinity_terms = pod_class.affinity_terms
        if affinity_terms is not None and (affinity_terms.affinity or affinity_terms.anti_affinity):
            return True
        return any(_repels(self._session, match_key) for match_key in pod_class.match_keys.lasting)

    def global_inputs(self, pod_class: PodClass) -> Hashable:
        return self._of(pod_class).global_inputs()

    def exceptions(self, pod_class: PodClass) -> Exceptions:
        return self._of(pod_class).exceptions()

    def codes(self, pod_class: PodClass, rows: Rows) -> ReasonCodes:
        codes = self._nothing[rows]
        for objection, where in reversed(self._of(pod_class).objections(rows)):  # the first one counts
            codes = np.where(where, self._numbers[objection], codes)
        return codes

    def code(self, pod_class: PodClass, row: NodeRow) -> int:
        objection = self._of(pod_class).objection(row)
        return int(self._numbers[objection]) if objection else 0

    def _of(self, pod_class: PodClass) -> _Neighbours:
        found = self._neighbours.get(pod_class.index)
        if found is None:
            found = self._neighbours[pod_class.index] = _Neighbours(self._session, self._ledger, pod_class)
        return found


class _Neighbours:
    """The pods that matter to one class, counted by domain."""

    def __init__(self, session: Session, ledger: MatchLedger, pod_class: PodClass) -> None:
        def counted(match_key: MatchKey, label: str) -> DomainCount:
            return DomainCount(ledger.match_count(match_key), domains_of(session, label))

        affinity_terms = pod_class.affinity_terms
        self._all: MatchCount | None = None  # pods that the affinity asks for, wherever they are
        self._near: list[DomainCount] = []
        self._away: list[DomainCount] = []
        if affinity_terms is not None:
            self._away = [counted(term.selector, term.topology_key) for term in affinity_terms.anti_affinity]
            wanted = affinity_terms.affinity_selector
            if wanted is not None:
                self._near = [counted(wanted, term.topology_key) for term in affinity_terms.affinity]
                # The first pod of a series may go anywhere: no matching pod exists yet, and it matches its own
                # affinity.
                self._all = ledger.match_count(wanted) if wanted in pod_class.match_keys.lasting else None
        self._repelling = [
            counted(term, term.topology_key)
            for match_key in pod_class.match_keys.lasting
            if isinstance(match_key, PodSelector)
            for term in session.snapshot.terms.get(match_key, ())
            if term.role is Role.ANTI_AFFINITY
        ]
        counts = (*self._near, *self._away, *self._repelling)
        self._spanning = [each for each in counts if not each.domains.each_alone]  # a change reaches several nodes

    def global_inputs(self) -> Hashable:
        return (self._is_first(), *(each.catch_up().flips for each in self._spanning))

    def objections(self, rows: Rows) -> list[tuple[str, Mask]]:
        """What can be said against nodes, and for which of these rows it holds."""
        found: list[tuple[str, Mask]] = []
        if self._near:
            first = self._is_first()
            found += [
                (AFFINITY, each.domains.of_row[rows] == NONE if first else each.at(rows) == 0) for each in self._near
            ]
        found += [(ANTI_AFFINITY, each.at(rows) > 0) for each in self._away if each.match_count.total]
        found += [(OTHERS_ANTI_AFFINITY, each.at(rows) > 0) for each in self._repelling if each.match_count.total]
        return found

    def objection(self, row: NodeRow) -> str:
        """The first that can be said against one node; empty when there is none."""
        if self._near:
            first = self._is_first()
            for each in self._near:
                if each.domains.of_row[row] == NONE if first else not each.here(row):
                    return AFFINITY
        if any(each.here(row) for each in self._away if each.match_count.total):
            return ANTI_AFFINITY
        return OTHERS_ANTI_AFFINITY if any(each.here(row) for each in self._repelling if each.match_count.total) else ""

    def exceptions(self) -> Exceptions:
        if self._near and not self._is_first():
            return Exceptions(min((each.rows() for each in self._near), key=len), refuses_others=True)
        parts = [each.domains.lacking for each in self._near]
        parts += [each.rows() for each in (*self._away, *self._repelling) if each.match_count.total]
        return Exceptions(np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else NO_ROWS)

    def _is_first(self) -> bool:
        """Whether no matching pod exists in any domain, and this pod would match."""
        if self._all is None:
            return False
        return not self._all.total or not any(each.is_anywhere() for each in self._near)


def _repels(session: Session, match_key: MatchKey) -> bool:
    """Whether pods carry an anti-affinity to pods with this match key."""
    terms = session.snapshot.terms.get(match_key, ()) if isinstance(match_key, PodSelector) else ()
    return any(term.role is Role.ANTI_AFFINITY for term in terms)
