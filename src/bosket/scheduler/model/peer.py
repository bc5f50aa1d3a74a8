"""What pods ask of their neighbours: affinity and anti-affinity to other pods, and how evenly they are spread.

Made by the live state from pods, once per distinct wish; plugins count by them. Selectors, terms and wishes are
interned there: two that mean the same are the same object, so that they compare and hash by identity.
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
    #: Whether pods that are going don't count: spreading is about those that stay.
    staying: bool

    @property
    def selects_nothing(self) -> bool:
        return any(clause.labels.nothing for clause in self.clauses)

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        return all(clause.matches(namespace, labels, namespace_labels) for clause in self.clauses)


class Role(Enum):
    """What a pod that carries a term wants of the pods that it selects."""

    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti-affinity"
    PREFERENCE = "preference"  #: with a negative weight: a preference to be away from them


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class PeerTerm:
    """One term of a pod's affinity: which pods, and in which domain they count as near."""

    role: Role
    selector: PodSelector
    topology_key: str
    weight: int


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """How uneven the number of selected pods may be between the domains of a node label."""

    selector: PodSelector
    selects_all: bool  #: an empty selector: counts no pod, but the one that is placed
    topology_key: str
    max_skew: int
    min_domains: int
    honors_affinity: bool  #: whether nodes that the pod can't be on by its selector and affinity don't count
    honors_taints: bool


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class PeerWishes:
    """All that a pod asks of its neighbours."""

    number: int
    affinity: tuple[PeerTerm, ...]
    #: what a pod must be to count for the affinity at all: all of its terms at once
    affinity_selector: PodSelector | None
    anti_affinity: tuple[PeerTerm, ...]
    preferences: tuple[PeerTerm, ...]
    spread: tuple[SpreadConstraint, ...]

    @property
    def terms(self) -> tuple[PeerTerm, ...]:
        return self.affinity + self.anti_affinity + self.preferences

    @property
    def selectors(self) -> set[PodSelector]:
        """All that pods are counted by, for this pod's sake."""
        selectors = {term.selector for term in self.terms} | {constraint.selector for constraint in self.spread}
        if self.affinity_selector is not None:
            selectors.add(self.affinity_selector)
        return {each for each in selectors if not each.selects_nothing}


#: Something about a pod that others on its node, or in its domain, are asked about: a selector that it matches, a term
#: that it carries, a port that it takes, a claim that no other pod may use beside it.
Mark = PodSelector | PeerTerm | HostPort | ObjectKey


class Marks(NamedTuple):
    """What a pod leaves on its node for others to count."""

    lasting: tuple[Mark, ...] = ()  #: as long as it is there
    staying: tuple[Mark, ...] = ()  #: until it is told to go


NO_MARKS = Marks()
