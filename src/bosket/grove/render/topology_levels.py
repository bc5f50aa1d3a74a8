"""Topology constraints: which words a set uses, what node labels they mean, and whether all of them mean something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bosket.api.grove import (
    ClusterTopologyBinding,
    GangPackConstraint,
    GangTopologyConstraint,
    PodCliqueSet,
    TopologyConstraint,
    TopologyLevel,
)
from bosket.grove.condition import TOPOLOGY_UNAVAILABLE, Conditions, with_condition, without

#: The levels of the binding that a set names; None where topology-aware scheduling is off.
Levels = Sequence[TopologyLevel] | None


def constraints(owner: PodCliqueSet) -> Iterator[TopologyConstraint]:
    """All constraints of a set: its own, those of scaling groups, those of cliques."""
    template = owner.spec.template
    of_groups = (each.topologyConstraint for each in template.podCliqueScalingGroups)
    of_cliques = (each.topologyConstraint for each in template.cliques)
    for each in (template.topologyConstraint, *of_groups, *of_cliques):
        if each is not None:
            yield each


def topology_name(owner: PodCliqueSet) -> str:
    """The ClusterTopologyBinding that the set's words are explained by; empty if none is named."""
    return next((each.topologyName for each in constraints(owner) if each.topologyName), "")


def domains(owner: PodCliqueSet) -> list[str]:
    """The words that a set uses, each once, in the order of their appearance."""
    used = (domain for each in constraints(owner) for domain in (each.required, each.preferred))
    return list(dict.fromkeys(each for each in used if each))


def translate(constraint: TopologyConstraint | None, levels: Levels) -> GangTopologyConstraint | None:
    """The constraint in node labels; a word that no level has is left out."""
    if constraint is None or levels is None:
        return None
    keys = {level.domain: level.key for level in levels}
    required, preferred = keys.get(constraint.required or ""), keys.get(constraint.preferred or "")
    if required is None and preferred is None:
        return None
    return GangTopologyConstraint(packConstraint=GangPackConstraint(required=required, preferred=preferred))


def with_topology_condition(
    conditions: Conditions, owner: PodCliqueSet, binding: ClusterTopologyBinding | None, *, enabled: bool, now: float
) -> Conditions:
    """The set's conditions with what is to be said of its topology constraints."""
    said = _verdict(owner, binding, enabled=enabled)
    if said is None:
        return without(conditions, TOPOLOGY_UNAVAILABLE)
    status, reason, message = said
    generation = owner.metadata.generation
    return with_condition(
        conditions, TOPOLOGY_UNAVAILABLE, status, reason, message, now=now, observed_generation=generation
    )


def _verdict(
    owner: PodCliqueSet, binding: ClusterTopologyBinding | None, *, enabled: bool
) -> tuple[str, str, str] | None:
    used = domains(owner)
    if not enabled:
        if not used:
            return None
        message = "Topology constraints are defined but Topology Aware Scheduling is disabled"
        return "Unknown", "TopologyAwareSchedulingDisabled", message
    if next(constraints(owner), None) is None:
        return "False", "AllClusterTopologyLevelsAvailable", "No topology constraints defined"
    if not topology_name(owner):
        return "Unknown", "TopologyNameMissing", "PodCliqueSet topology constraints must include topologyName"
    if binding is None:
        return "Unknown", "ClusterTopologyNotFound", "ClusterTopologyBinding resource not found"
    known = {level.domain for level in binding.spec.levels}
    missing = [each for each in used if each not in known]
    if missing:
        return "True", "ClusterTopologyLevelsUnavailable", f"Unavailable topology domains: [{' '.join(missing)}]"
    return "False", "AllClusterTopologyLevelsAvailable", "All topology levels are available"
