"""What a PodCliqueSet's template says: which cliques are in which groups, what waits for what, who is expected.

Pure questions about the set's own spec, asked by everything else here. Cliques are found by their names as a whole:
Grove finds them by how a PodClique's name ends, and so may take another clique's template.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bosket.api.grove import (
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueScalingGroupConfig,
    PodCliqueSet,
    PodCliqueTemplateSpec,
)
from bosket.api.grove.naming import (
    GROUP_LABEL,
    GROUP_REPLICA_LABEL,
    PART_OF_LABEL,
    SET_REPLICA_LABEL,
    clique_name,
    group_name,
)
from bosket.api.object import KubeObject


class GroupOf(NamedTuple):
    """A scaling group of one replica of a set: its full name, and what the template says of it."""

    name: str
    config: PodCliqueScalingGroupConfig


def is_terminating(obj: KubeObject) -> bool:
    """Whether an object was asked to end."""
    return obj.metadata.deletionTimestamp is not None


def set_name_of(child: KubeObject) -> str:
    """Name of the set that an object was made for; empty for others' objects."""
    return child.metadata.labels.get(PART_OF_LABEL, "")


def set_replica_of(child: KubeObject) -> int:
    """Which replica of its set an object belongs to; -1 if it doesn't say."""
    return index_label(child, SET_REPLICA_LABEL)


def index_label(child: KubeObject, label: str) -> int:
    """The number in a label; -1 if there is none."""
    text = child.metadata.labels.get(label, "")
    return int(text) if text.isascii() and text.isdecimal() else -1


def template_named(owner: PodCliqueSet, name: str) -> PodCliqueTemplateSpec | None:
    """The clique of this name, if the template has it."""
    return next((each for each in owner.spec.template.cliques if each.name == name), None)


def group_with(owner: PodCliqueSet, clique: str) -> PodCliqueScalingGroupConfig | None:
    """The scaling group that a clique is part of, if it is."""
    groups = owner.spec.template.podCliqueScalingGroups
    return next((each for each in groups if clique in each.cliqueNames), None)


def standalone_templates(owner: PodCliqueSet) -> list[PodCliqueTemplateSpec]:
    """Cliques that are in no scaling group, in the template's order."""
    return [each for each in owner.spec.template.cliques if group_with(owner, each.name) is None]


def standalone_names(owner: PodCliqueSet, replica: int) -> list[str]:
    """Full names of a replica's PodCliques that are in no scaling group."""
    return [clique_name(owner.metadata.name, replica, each.name) for each in standalone_templates(owner)]


def groups_of(owner: PodCliqueSet, replica: int) -> Iterator[GroupOf]:
    """The scaling groups of one replica."""
    for config in owner.spec.template.podCliqueScalingGroups:
        yield GroupOf(group_name(owner.metadata.name, replica, config.name), config)


def group_config_of(owner: PodCliqueSet, group: PodCliqueScalingGroup) -> PodCliqueScalingGroupConfig | None:
    """What the template says of a scaling group."""
    return group_config_named(owner, set_replica_of(group), group.metadata.name)


def group_config_named(owner: PodCliqueSet, replica: int, name: str) -> PodCliqueScalingGroupConfig | None:
    """What the template says of a scaling group with this full name."""
    return next((each.config for each in groups_of(owner, replica) if each.name == name), None)


def template_of(owner: PodCliqueSet, clique: PodClique) -> PodCliqueTemplateSpec | None:
    """The template that a PodClique was made from."""
    return template_called(owner, clique, clique.metadata.name)


def template_called(owner: PodCliqueSet, sibling: PodClique, name: str) -> PodCliqueTemplateSpec | None:
    """The template of a PodClique of this full name, in the same replica of the set as `sibling`."""
    replica = set_replica_of(sibling)
    for each in standalone_templates(owner):
        if clique_name(owner.metadata.name, replica, each.name) == name:
            return each
    for group in groups_of(owner, replica):
        for member in group.config.cliqueNames:
            suffix = f"-{member}"
            index = name.removeprefix(f"{group.name}-").removesuffix(suffix)
            if index.isdecimal() and clique_name(group.name, int(index), member) == name:
                return template_named(owner, member)
    return None


def is_in_group(clique: PodClique) -> bool:
    """Whether a PodClique is part of a scaling group."""
    return GROUP_LABEL in clique.metadata.labels


def group_replica_of(clique: PodClique) -> int:
    """Which replica of its scaling group a PodClique belongs to; -1 if it is in none."""
    return index_label(clique, GROUP_REPLICA_LABEL)


def member_names(group: PodCliqueScalingGroup, replica: int) -> list[str]:
    """Full names of the PodCliques of one replica of a scaling group."""
    return [clique_name(group.metadata.name, replica, each) for each in group.spec.cliqueNames]


def is_on_delete(owner: PodCliqueSet) -> bool:
    """Whether changes of the template reach pods only when somebody deletes them."""
    strategy = owner.spec.updateStrategy
    return strategy is not None and strategy.type == "OnDelete"


def min_available(template: PodCliqueTemplateSpec) -> int:
    """How many pods of a clique the gang needs; the webhook has filled it in."""
    found = template.spec.minAvailable
    return template.spec.replicas if found is None else found


def clique_minimum(clique: PodClique) -> int:
    """How many pods of a PodClique its gang needs."""
    found = clique.spec.minAvailable
    return clique.spec.replicas if found is None else found


def scheduler_of(owner: PodCliqueSet) -> str:
    """The scheduler that a set's cliques name, or nothing: admission sees to it that all name the same."""
    named = (each.spec.podSpec.schedulerName for each in owner.spec.template.cliques)
    return next((each for each in named if each), "")
