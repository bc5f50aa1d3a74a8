"""Which PodCliques a PodClique starts after.

Order is kept inside one gang. A PodClique of the base gang waits for all PodCliques of the base gang that were made
from the clique before it; one of a scaled gang only for those of its own replica of the scaling group.
"""

from __future__ import annotations

from bosket.api.grove import PodCliqueScalingGroup, PodCliqueSet, PodCliqueTemplateSpec
from bosket.api.grove.naming import clique_name, group_name
from bosket.grove.render.template import group_with, set_replica_of


def starts_after(owner: PodCliqueSet, replica: int, template: PodCliqueTemplateSpec) -> tuple[str, ...]:
    """Full names of what a PodClique of the base gang waits for."""
    return tuple(name for each in _before(owner, template) for name in _base_names(owner, replica, each))


def member_starts_after(
    owner: PodCliqueSet, group: PodCliqueScalingGroup, group_replica: int, template: PodCliqueTemplateSpec
) -> tuple[str, ...]:
    """The same for a PodClique of a scaling group."""
    if group_replica < group.spec.minAvailable:
        return starts_after(owner, set_replica_of(group), template)
    return tuple(
        clique_name(group.metadata.name, group_replica, each)
        for each in _before(owner, template)
        if each in group.spec.cliqueNames
    )


def _before(owner: PodCliqueSet, template: PodCliqueTemplateSpec) -> tuple[str, ...]:
    """Names of the cliques that come before this one."""
    match owner.spec.template.cliqueStartupType:
        case "CliqueStartupTypeInOrder":
            names = [each.name for each in owner.spec.template.cliques]
            position = names.index(template.name)
            return (names[position - 1],) if position else ()
        case "CliqueStartupTypeExplicit":
            return template.spec.startsAfter
        case _:
            return ()


def _base_names(owner: PodCliqueSet, replica: int, clique: str) -> list[str]:
    """Full names of the PodCliques of the base gang that were made from a clique."""
    config = group_with(owner, clique)
    if config is None:
        return [clique_name(owner.metadata.name, replica, clique)]
    group = group_name(owner.metadata.name, replica, config.name)
    return [clique_name(group, index, clique) for index in range(config.minAvailable)]
