"""How well a gang's topology constraints are met: 1 where all pods that belong together share one domain. Pure.

Of each constraint (of the gang, of groups of pod groups, of pod groups) the narrower level counts: the preferred one,
else the required one. It is worth the part of its pods that are in the domain where most of them are; the score is the
mean. A gang that asks for nothing has nothing to miss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from bosket.api import keys
from bosket.api.core import Pod
from bosket.api.grove import GangTopologyConstraint, PodGang


def placement_score(gang: PodGang, pods: Sequence[Pod], nodes: Mapping[str, Mapping[str, str]]) -> float:
    """The score of pods with a node; `nodes` has the labels of nodes by name."""
    placed = [pod for pod in pods if pod.spec.nodeName]
    shares = [
        share
        for constraint, names in _constraints(gang)
        if (share := _share(constraint, _of_groups(placed, names), nodes)) is not None
    ]
    return round(sum(shares) / len(shares), 4) if shares else 1.0


def _constraints(gang: PodGang) -> Iterable[tuple[GangTopologyConstraint | None, frozenset[str]]]:
    spec = gang.spec
    yield spec.topologyConstraint, frozenset(group.name for group in spec.podgroups)
    for config in spec.topologyConstraintGroupConfigs:
        yield config.topologyConstraint, frozenset(config.podGroupNames)
    for group in spec.podgroups:
        yield group.topologyConstraint, frozenset((group.name,))


def _of_groups(pods: Iterable[Pod], names: frozenset[str]) -> list[Pod]:
    return [pod for pod in pods if pod.metadata.labels.get(keys.GROVE_POD_CLIQUE_LABEL) in names]


def _share(
    constraint: GangTopologyConstraint | None, pods: list[Pod], nodes: Mapping[str, Mapping[str, str]]
) -> float | None:
    """The part of the pods that are in the fullest domain; None where nothing is asked, or nothing placed."""
    pack = constraint.packConstraint if constraint is not None else None
    level = (pack.preferred or pack.required) if pack is not None else None
    if not level or not pods:
        return None
    domains = Counter(domain for pod in pods if (domain := nodes.get(pod.spec.nodeName, {}).get(level)))
    return max(domains.values(), default=0) / len(pods)
