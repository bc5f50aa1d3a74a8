"""Reservation reuse: pods of a gang that refers to another would rather run where that one's pods are, or were. Pure.

A gang refers to itself while its set is updated in place: then the places that count are those of pods that are going.
The preference has the form that every scheduler understands: preferred node affinity. A better place wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from bosket.api import keys
from bosket.api.core import Pod
from bosket.api.core.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)
from bosket.api.grove import PodCliqueSet, PodGang
from bosket.api.object import ObjectKey

#: Places of pods of the same clique, and of others in the gang.
_SAME_CLIQUE_WEIGHT: Final = 100
_SAME_GANG_WEIGHT: Final = 10
#: At most so many preferred nodes: more terms cost every scheduler time and prefer nothing.
_MOST_PLACES: Final = 16


def former_gang(gang: PodGang, owner: PodCliqueSet | None) -> ObjectKey | None:
    """The gang whose place this one should take; itself while its set is updated, also before the gang says so."""
    reference = gang.spec.reuseReservationRef
    if reference is not None:
        return ObjectKey(reference.namespace, reference.name)
    progress = owner.status.updateProgress if owner is not None else None
    return gang.key if progress is not None and progress.updateEndedAt is None else None


def prefer_former_places(gang: PodGang, pod: Pod, former: Sequence[Pod]) -> Pod:
    """The pod with a preference for the nodes of `former`, the pods of the gang that its own refers to."""
    clique = pod.metadata.labels.get(keys.GROVE_POD_CLIQUE_LABEL)
    is_update = any(each.metadata.labels.get(keys.GROVE_POD_GANG_LABEL) == gang.metadata.name for each in former)
    weights: dict[str, int] = {}
    for each in former:
        same = each.metadata.labels.get(keys.GROVE_POD_CLIQUE_LABEL) == clique
        if each.spec.nodeName and (not is_update or (same and each.metadata.deletionTimestamp)):
            weight = _SAME_CLIQUE_WEIGHT if same else _SAME_GANG_WEIGHT
            weights[each.spec.nodeName] = max(weight, weights.get(each.spec.nodeName, 0))
    places = sorted(weights, key=lambda node: (-weights[node], node))[:_MOST_PLACES]
    if not places:
        return pod
    affinity = pod.spec.affinity or Affinity()
    on_nodes = affinity.nodeAffinity or NodeAffinity()
    terms = (
        *on_nodes.preferredDuringSchedulingIgnoredDuringExecution,
        *(_preferred_node(node, weights[node]) for node in places),
    )
    on_nodes = msgspec.structs.replace(on_nodes, preferredDuringSchedulingIgnoredDuringExecution=terms)
    affinity = msgspec.structs.replace(affinity, nodeAffinity=on_nodes)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, affinity=affinity))


def _preferred_node(node: str, weight: int) -> PreferredSchedulingTerm:
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
    return PreferredSchedulingTerm(weight=weight, preference=NodeSelectorTerm(matchFields=(field,)))
