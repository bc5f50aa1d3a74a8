"""What a gang is made of, in the words of others: templates of its pod groups, levels of topology, names. Pure."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from bosket.api.grove import GangPodGroup, GangTopologyConstraint, PodCliqueSet, PodCliqueTemplateSpec, PodGang

_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST_LABEL: Final = 63
_HASH_LENGTH: Final = 8


def template_of(owner: PodCliqueSet | None, group: str) -> PodCliqueTemplateSpec | None:
    """The clique template of a pod group, by its name: `<set>-<i>-<clique>` or `<set>-<i>-<group>-<j>-<clique>`."""
    if owner is None or not group.startswith(f"{owner.metadata.name}-"):
        return None
    index, _, rest = group.removeprefix(f"{owner.metadata.name}-").partition("-")
    if not index.isdecimal():
        return None
    template = owner.spec.template
    cliques = {clique.name: clique for clique in template.cliques}
    grouped = {name for config in template.podCliqueScalingGroups for name in config.cliqueNames}
    if rest in cliques and rest not in grouped:
        return cliques[rest]
    for config in template.podCliqueScalingGroups:
        replica, _, clique = rest.removeprefix(f"{config.name}-").partition("-")
        if rest.startswith(f"{config.name}-") and replica.isdecimal() and clique in config.cliqueNames:
            return cliques.get(clique)
    return None


def priority_class_of(gang: PodGang, owner: PodCliqueSet | None, group: GangPodGroup) -> str:
    """The gang's, else the one that the group's pods name themselves."""
    template = template_of(owner, group.name)
    return gang.spec.priorityClassName or (template.spec.podSpec.priorityClassName if template is not None else "")


def required_level(constraint: GangTopologyConstraint | None) -> str:
    """The node label whose value pods must share; empty where they need not."""
    pack = constraint.packConstraint if constraint is not None else None
    return (pack.required if pack is not None else None) or ""


def preferred_level(constraint: GangTopologyConstraint | None) -> str:
    """The node label whose value pods should share; empty where it doesn't matter."""
    pack = constraint.packConstraint if constraint is not None else None
    return (pack.preferred if pack is not None else None) or ""


def label_name(name: str) -> str:
    """The name itself where it is a DNS label, else one that is, and is nobody else's."""
    if len(name) <= _LONGEST_LABEL and _DNS_LABEL.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{name.replace('.', '-')[: _LONGEST_LABEL - _HASH_LENGTH - 1].rstrip('-')}-{digest}"
