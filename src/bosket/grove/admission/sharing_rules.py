"""Rules of shared resource claims: templates, and sharers at each level of a PodCliqueSet."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from bosket.api.field_error import FieldError, duplicate, invalid_value, required
from bosket.api.grove import PodCliqueScalingGroupConfig, PodCliqueSetTemplateSpec
from bosket.grove.admission.wording import duplicate_error


class Sharing(Protocol):
    """What the levels' ways to share have in common."""

    @property
    def name(self) -> str: ...

    @property
    def namespace(self) -> str: ...


def template_errors(template: PodCliqueSetTemplateSpec, path: str) -> Iterator[FieldError]:
    """The set's own templates of claims."""
    for index, each in enumerate(template.resourceClaimTemplates):
        if not each.name:
            yield required(f"{path}[{index}].name", "template name is required")
        if not each.templateSpec.spec.devices.requests:
            yield required(
                f"{path}[{index}].templateSpec.spec.devices.requests", "at least one device request is required"
            )
    yield from duplicate_error(f"{path}.name", (each.name for each in template.resourceClaimTemplates))


def set_sharing_errors(template: PodCliqueSetTemplateSpec, path: str) -> Iterator[FieldError]:
    """What cliques and groups of a replica share."""
    yield from sharing_errors(template.resourceSharing, template, path)
    cliques = {clique.name for clique in template.cliques}
    groups = {group.name for group in template.podCliqueScalingGroups}
    for index, each in enumerate(template.resourceSharing):
        if each.filter is None:
            continue
        field = f"{path}[{index}].filter"
        if not each.filter.childCliqueNames and not each.filter.childScalingGroupNames:
            yield required(field, "filter must specify at least one childCliqueNames or childScalingGroupNames entry")
        yield from _unknown(each.filter.childCliqueNames, cliques, f"{field}.childCliqueNames")
        yield from _unknown(each.filter.childScalingGroupNames, groups, f"{field}.childScalingGroupNames")


def group_sharing_errors(
    group: PodCliqueScalingGroupConfig, template: PodCliqueSetTemplateSpec, path: str
) -> Iterator[FieldError]:
    """What cliques of a scaling group share."""
    yield from sharing_errors(group.resourceSharing, template, path)
    for index, each in enumerate(group.resourceSharing):
        if each.filter is None:
            continue
        field = f"{path}[{index}].filter"
        if not each.filter.childCliqueNames:
            yield required(field, "filter must specify at least one childCliqueNames entry")
        yield from _unknown(each.filter.childCliqueNames, group.cliqueNames, f"{field}.childCliqueNames")


def sharing_errors(sharings: Sequence[Sharing], template: PodCliqueSetTemplateSpec, path: str) -> Iterator[FieldError]:
    """What is asked of sharing at every level."""
    internal = {each.name for each in template.resourceClaimTemplates}
    seen: set[str] = set()
    for index, each in enumerate(sharings):
        if not each.name:
            yield required(f"{path}[{index}].name", "reference name is required")
        elif each.name in seen:
            yield duplicate(f"{path}[{index}].name", each.name)
        seen.add(each.name)
        if each.namespace and each.name in internal:
            yield invalid_value(
                f"{path}[{index}].namespace",
                each.namespace,
                "namespace must be empty when name matches an internal resourceClaimTemplate",
            )


def _unknown(names: Sequence[str], known: Collection[str], path: str) -> Iterator[FieldError]:
    for index, name in enumerate(names):
        if name not in known:
            yield not_found(f"{path}[{index}]", name)


def not_found(field: str, value: str) -> FieldError:
    """What is named isn't there."""
    return FieldError(field, "FieldValueNotFound", f'Not found: "{value}"')
