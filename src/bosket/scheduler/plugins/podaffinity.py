"""Plugin podaffinity: scores of preferred inter-pod affinity and anti-affinity, of the pod and of pods that are there.

The score of a node is the sum of the weights of all terms that other pods in its domains satisfy, or carry and this pod
satisfies, as Kubernetes' InterPodAffinity before normalisation. Pods whose required affinity this pod satisfies count
with the argument `hardPodAffinityWeight`: 1 by default as in Kubernetes; KAI has 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.configuration.configuration import ConfigurationError
from bosket.scheduler.framework.extension import NodeScorer, Rows, Scores
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.pod_affinity import AffinityTerm, PodSelector, Role
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.plugins.domain import NO_ROWS, DomainCount, domains_of
from bosket.scheduler.plugins.match_ledger import MatchLedger
from bosket.scheduler.plugins.score import POD_AFFINITY


class PodAffinityScore:
    """Scores nodes by their neighbours, where any pod has a preference."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        weight = arguments.get("hardPodAffinityWeight", "1")
        if not weight.isdecimal() or int(weight) > 100:
            raise ConfigurationError(f"plugin podaffinity: hardPodAffinityWeight is {weight!r}, it must be 0 to 100")
        self._hard_weight = int(weight)

    def open(self, session: Session) -> None:
        if session.snapshot.has_match_keys:
            session.extensions.node_scores.add(_Neighbourhood(session, self._hard_weight))


class _Neighbourhood(NodeScorer):
    def __init__(self, session: Session, hard_weight: int) -> None:
        self._session = session
        self._ledger = MatchLedger(session)
        self._hard_weight = hard_weight
        self._weighed: dict[int, list[tuple[int, DomainCount]]] = {}
        self._nothing = np.zeros(len(session.snapshot.nodes))

    def concerns(self, pod_class: PodClass) -> bool:
        return bool(self._of(pod_class))

    def exceptions(self, pod_class: PodClass) -> NDArray[np.intp]:
        parts = [count.rows() for _, count in self._of(pod_class)]
        return np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else NO_ROWS

    def global_inputs(self, pod_class: PodClass) -> Hashable:
        return tuple(count.catch_up().changes for _, count in self._of(pod_class))

    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        total = self._nothing[rows]
        for weight, count in self._of(pod_class):
            total = total + weight * count.at(rows)
        return POD_AFFINITY * total

    def score(self, pod_class: PodClass, row: NodeRow) -> float:
        return POD_AFFINITY * sum(weight * count.here(row) for weight, count in self._of(pod_class))

    def _of(self, pod_class: PodClass) -> list[tuple[int, DomainCount]]:
        """Pods that count for this class, by domain, with the weight of each."""
        found = self._weighed.get(pod_class.index)
        if found is None:
            own = pod_class.affinity_terms.preferences if pod_class.affinity_terms is not None else ()
            found = [(term.weight, self._count(term.selector, term)) for term in own]
            for match_key in pod_class.match_keys.lasting:
                terms = self._session.snapshot.terms
                for term in terms.get(match_key, ()) if isinstance(match_key, PodSelector) else ():
                    weight = self._weight(term)
                    if weight:
                        found.append((weight, self._count(term, term)))
            self._weighed[pod_class.index] = found
        return found

    def _count(self, match_key: PodSelector | AffinityTerm, term: AffinityTerm) -> DomainCount:
        return DomainCount(self._ledger.match_count(match_key), domains_of(self._session, term.topology_key))

    def _weight(self, term: AffinityTerm) -> int:
        """What a pod that carries the term adds to the domain it is in, for pods that satisfy it."""
        match term.role:
            case Role.PREFERENCE:
                return term.weight
            case Role.AFFINITY:
                return self._hard_weight
            case Role.ANTI_AFFINITY:
                return 0
