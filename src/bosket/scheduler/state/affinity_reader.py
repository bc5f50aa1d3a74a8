"""Reads affinity, anti-affinity and spread constraints of pods: one `AffinityTerms` for all pods with equal ones.

`matchLabelKeys` and `mismatchLabelKeys` become requirements of the selector, as API servers make them since
Kubernetes 1.31; where one has done so already, the same requirement twice changes nothing. A selector that can't be
understood selects no pod.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from itertools import count
from typing import TypeVar
from weakref import WeakValueDictionary

import msgspec

from bosket.api.core import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
    TopologySpreadConstraint,
)
from bosket.api.object import LabelSelector
from bosket.kube.selector import NOTHING, InvalidSelector, Requirement, Selector, label_selector
from bosket.scheduler.model.pod_affinity import AffinityTerm, AffinityTerms, Clause, PodSelector, Role, SpreadConstraint

T = TypeVar("T")


class AffinityReader:
    """Builds affinity terms from specs. Equal terms are one object, kept while some pod has them."""

    def __init__(self) -> None:
        self._numbers = count()
        self._known: WeakValueDictionary[Hashable, AffinityTerms] = WeakValueDictionary()
        self._selectors: WeakValueDictionary[Hashable, PodSelector] = WeakValueDictionary()
        self._terms: WeakValueDictionary[Hashable, AffinityTerm] = WeakValueDictionary()
        self._reader: WeakValueDictionary[Hashable, AffinityTerms] = WeakValueDictionary()

    def read(self, pod: Pod) -> AffinityTerms | None:
        """The pod's affinity terms; None for pods without any, which are nearly all."""
        spec, labels = pod.spec, pod.metadata.labels
        affinity = spec.affinity
        near = affinity is not None and (affinity.podAffinity is not None or affinity.podAntiAffinity is not None)
        if not near and not spec.topologySpreadConstraints:
            return None
        label_values = tuple((key, labels.get(key)) for key in _label_keys(spec))
        source = msgspec.json.encode((affinity if near else None, spec.topologySpreadConstraints))
        key = (pod.metadata.namespace, source, label_values)
        affinity_terms = self._known.get(key)
        if affinity_terms is None:
            made = self._make(affinity or Affinity(), spec.topologySpreadConstraints, pod.metadata.namespace, labels)
            if made is None:
                return None
            affinity_terms = self._known[key] = made
        return affinity_terms

    def _make(
        self,
        affinity: Affinity,
        constraints: Iterable[TopologySpreadConstraint],
        namespace: str,
        labels: Mapping[str, str],
    ) -> AffinityTerms | None:
        near, away = affinity.podAffinity, affinity.podAntiAffinity

        def terms(role: Role, wanted: Iterable[tuple[PodAffinityTerm, int]]) -> tuple[AffinityTerm, ...]:
            return tuple(self._term(role, _clause(each, namespace, labels), each, weight) for each, weight in wanted)

        required = terms(Role.AFFINITY, ((each, 1) for each in _required(near)))
        anti = terms(Role.ANTI_AFFINITY, ((each, 1) for each in _required(away)))
        preferred = terms(Role.PREFERENCE, (*_preferred(near, 1), *_preferred(away, -1)))
        spread = tuple(
            self._spread(each, namespace, labels) for each in constraints if each.whenUnsatisfiable == "DoNotSchedule"
        )
        if not (required or anti or preferred or spread):
            return None
        clauses = tuple(clause for term in required for clause in term.selector.clauses)
        together = self._selector(clauses) if required else None
        affinity_terms = AffinityTerms(next(self._numbers), required, together, anti, preferred, spread)
        return _interned(self._reader, (required, anti, preferred, spread), affinity_terms)

    def _term(self, role: Role, clause: Clause, term: PodAffinityTerm, weight: int) -> AffinityTerm:
        selector = self._selector((clause,))
        key = (role, selector, term.topologyKey, weight)
        return _interned(self._terms, key, AffinityTerm(role, selector, term.topologyKey, weight))

    def _spread(self, each: TopologySpreadConstraint, namespace: str, labels: Mapping[str, str]) -> SpreadConstraint:
        wanted = _with_keys(_readable(each.labelSelector), "in", each.matchLabelKeys, labels)
        clause = Clause(frozenset((namespace,)), NOTHING, wanted if wanted.requirements else NOTHING)
        return SpreadConstraint(
            selector=self._selector((clause,), staying=True),
            selects_all=not wanted.requirements and not wanted.nothing,
            topology_key=each.topologyKey,
            max_skew=each.maxSkew,
            min_domains=1 if each.minDomains is None else each.minDomains,
            honors_affinity=each.nodeAffinityPolicy != "Ignore",
            honors_taints=each.nodeTaintsPolicy == "Honor",
        )

    def _selector(self, clauses: tuple[Clause, ...], *, staying: bool = False) -> PodSelector:
        key = (clauses, staying)
        found = self._selectors.get(key)
        if found is None:
            found = self._selectors[key] = PodSelector(next(self._numbers), clauses, staying)
        return found


def _interned(table: WeakValueDictionary[Hashable, T], signature: Hashable, made: T) -> T:
    found = table.get(signature)
    if found is None:
        found = table[signature] = made
    return found


def _label_keys(spec: PodSpec) -> Iterable[str]:
    """The pod's own labels on which its affinity terms depend."""
    for constraint in spec.topologySpreadConstraints:
        yield from constraint.matchLabelKeys
    affinity = spec.affinity or Affinity()
    for side in (affinity.podAffinity, affinity.podAntiAffinity):
        for term in (*_required(side), *(each for each, _ in _preferred(side, 1))):
            yield from term.matchLabelKeys
            yield from term.mismatchLabelKeys


def _required(side: PodAffinity | PodAntiAffinity | None) -> tuple[PodAffinityTerm, ...]:
    return side.requiredDuringSchedulingIgnoredDuringExecution if side else ()


def _preferred(side: PodAffinity | PodAntiAffinity | None, sign: int) -> list[tuple[PodAffinityTerm, int]]:
    terms = side.preferredDuringSchedulingIgnoredDuringExecution if side else ()
    return [(each.podAffinityTerm, sign * each.weight) for each in terms]


def _clause(term: PodAffinityTerm, namespace: str, labels: Mapping[str, str]) -> Clause:
    wanted = _with_keys(_readable(term.labelSelector), "in", term.matchLabelKeys, labels)
    wanted = _with_keys(wanted, "notin", term.mismatchLabelKeys, labels)
    own = not term.namespaces and term.namespaceSelector is None
    return Clause(frozenset((namespace,) if own else term.namespaces), _readable(term.namespaceSelector), wanted)


def _with_keys(selector: Selector, operator: str, keys: Iterable[str], labels: Mapping[str, str]) -> Selector:
    """The selector restricted to pods with, or without, the same values of these labels; labels that the pod lacks are
    skipped."""
    more = tuple(Requirement(key, operator, (labels[key],)) for key in keys if key in labels)
    return selector if selector.nothing or not more else Selector(tuple(sorted({*selector.requirements, *more})))


def _readable(selector: LabelSelector | None) -> Selector:
    try:
        read = label_selector(selector)
    except InvalidSelector:
        return NOTHING
    return read if read.nothing else Selector(tuple(sorted(set(read.requirements))))
