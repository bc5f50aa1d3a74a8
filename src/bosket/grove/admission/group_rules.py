"""Rules of a PodCliqueSet's scaling groups."""

from __future__ import annotations

from collections.abc import Iterator

from bosket.api.field_error import FieldError, invalid_value
from bosket.api.grove import PodCliqueScalingGroupConfig, PodCliqueSet
from bosket.api.name_rules import subdomain_error
from bosket.grove.admission.clique_rules import length_error
from bosket.grove.admission.sharing_rules import group_sharing_errors
from bosket.grove.admission.wording import duplicate_error


def group_errors(owner: PodCliqueSet, path: str) -> Iterator[FieldError]:
    """All that is wrong with the groups, but for what is said of topology."""
    template = owner.spec.template
    groups = template.podCliqueScalingGroups
    for index, group in enumerate(groups):
        at = f"{path}[{index}]"
        if subdomain_error(group.name):
            message = "invalid PodCliqueScalingGroupConfig name, must be a valid DNS subdomain"
            yield invalid_value(f"{at}.name", group.name, message)
        yield from _member_errors(owner, group, at)
        yield from _size_errors(group, at)
        yield from group_sharing_errors(group, template, f"{at}.resourceSharing")
    yield from duplicate_error(f"{path}.name", (group.name for group in groups))
    members = [name for group in groups for name in group.cliqueNames]
    yield from duplicate_error(f"{path}.cliqueNames", members)
    for clique in template.cliques:
        if clique.name in members and clique.spec.autoScalingConfig is not None:
            message = "AutoScalingConfig is not allowed to be defined for PodClique that is part of scaling group"
            yield invalid_value(path, clique.name, message)


def _member_errors(owner: PodCliqueSet, group: PodCliqueScalingGroupConfig, path: str) -> Iterator[FieldError]:
    known = {clique.name for clique in owner.spec.template.cliques}
    unknown = [name for name in dict.fromkeys(group.cliqueNames) if name not in known]
    if unknown:
        yield invalid_value(f"{path}.cliqueNames", ",".join(unknown), "unidentified PodClique names found")
    for index, name in enumerate(group.cliqueNames):
        if problem := length_error(owner.metadata.name, name, group.name):
            yield invalid_value(f"{path}.cliqueNames[{index}].name", name, problem)
            yield invalid_value(f"{path}.name", name, problem)
            yield invalid_value("metadata.name", owner.metadata.name, problem)


def _size_errors(group: PodCliqueScalingGroupConfig, path: str) -> Iterator[FieldError]:
    if group.replicas <= 0:
        yield invalid_value(f"{path}.replicas", group.replicas, "must be greater than 0")
    if group.minAvailable <= 0:
        yield invalid_value(f"{path}.minAvailable", group.minAvailable, "must be greater than 0")
    if group.minAvailable > group.replicas:
        message = "minAvailable must not be greater than replicas"
        yield invalid_value(f"{path}.minAvailable", group.minAvailable, message)
    scaling = group.scaleConfig
    if scaling is not None and scaling.minReplicas is not None and scaling.minReplicas < group.minAvailable:
        message = "scaleConfig.minReplicas must be greater than or equal to minAvailable"
        yield invalid_value(f"{path}.scaleConfig.minReplicas", scaling.minReplicas, message)
