"""Inter-pod affinity: what pods require of and prefer about the pods near them, and the keys that pods are counted by.

The live state makes them from pods; plugins count pods by match key. Selectors, terms and `AffinityTerms` are interned:
two that are equal are the same object, so that they compare and hash by identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from bosket.api.object import ObjectKey
from bosket.kube.selector import Selector


class HostPort(NamedTuple):
    """A port of the node that a pod takes."""

    port: int
    protocol: str
    address: str  #: empty: all addresses. `ANY_ADDRESS`: whichever, for those who count


ANY_ADDRESS = "*"


class Clause(NamedTuple):
    """Pods by namespace and labels."""

    namespaces: frozenset[str]
    more_namespaces: Selector  #: by their labels
    labels: Selector

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        if namespace not in self.namespaces and not self.more_namespaces.matches(namespace_labels):
            return False
        return self.labels.matches(labels)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class PodSelector:
    """Pods that satisfy every clause."""

    number: int
    clauses: tuple[Clause, ...]
    #: whether pods that are being deleted don't count, as in topology spread constraints
    staying: bool

    @property
    def selects_nothing(self) -> bool:
        return any(clause.labels.nothing for clause in self.clauses)

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        return all(clause.matches(namespace, labels, namespace_labels) for clause in self.clauses)


class Role(Enum):
    """The kind of an affinity term."""

    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti-affinity"
    PREFERENCE = "preference"  #: with a negative weight: a preference to be away from them


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class AffinityTerm:
    """One term of a pod's affinity: the selected pods, and the domain in which they count as near."""

    role: Role
    selector: PodSelector
    topology_key: str
    weight: int


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """The maximum skew of the number of selected pods between the domains of a node label."""

    selector: PodSelector
    selects_all: bool  #: an empty selector: counts no pod, but the one that is placed
    topology_key: str
    max_skew: int
    min_domains: int
    honors_affinity: bool  #: whether nodes that the pod can't be on by its selector and affinity don't count
    honors_taints: bool


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class AffinityTerms:
    """A pod's inter-pod affinity, anti-affinity, preferences and topology spread constraints."""

    number: int
    affinity: tuple[AffinityTerm, ...]
    #: what a pod must be to count for the affinity at all: all of its terms at once
    affinity_selector: PodSelector | None
    anti_affinity: tuple[AffinityTerm, ...]
    preferences: tuple[AffinityTerm, ...]
    spread: tuple[SpreadConstraint, ...]

    @property
    def terms(self) -> tuple[AffinityTerm, ...]:
        return self.affinity + self.anti_affinity + self.preferences

    @property
    def selectors(self) -> set[PodSelector]:
        """All selectors by which other pods are counted for this pod."""
        selectors = {term.selector for term in self.terms} | {constraint.selector for constraint in self.spread}
        if self.affinity_selector is not None:
            selectors.add(self.affinity_selector)
        return {each for each in selectors if not each.selects_nothing}


#: A property that pods are counted by, per node, because filters of other pods ask for it: a selector that the pod
#: matches, an affinity term that it carries, a host port that it takes, a volume claim that it may not share.
MatchKey = PodSelector | AffinityTerm | HostPort | ObjectKey


class MatchKeys(NamedTuple):
    """The match keys by which a pod is counted on its node."""

    lasting: tuple[MatchKey, ...] = ()  #: counted until the pod is gone
    staying: tuple[MatchKey, ...] = ()  #: counted until the pod is being deleted


NO_MATCH_KEYS = MatchKeys()
