"""The immutable fields of a PodCliqueSet: cliques, their order, and what their gangs depend on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from bosket.api.field_error import FieldError, forbidden_field, invalid_value
from bosket.api.grove import PodCliqueSet

_ORDERED: Final = ("CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit")
_PATH: Final = "spec.template"


def change_errors(old: PodCliqueSet, new: PodCliqueSet) -> Iterator[FieldError]:
    """What may not change so, but for topology and what is said of claims of the whole set."""
    yield from _clique_changes(old, new)
    before, after = old.spec.template, new.spec.template
    yield from _kept(f"{_PATH}.cliqueStartupType", before.cliqueStartupType, after.cliqueStartupType)
    yield from _group_changes(old, new)


def claim_change_errors(old: PodCliqueSet, new: PodCliqueSet) -> Iterator[FieldError]:
    """What the claims of the whole set rest on."""
    before, after = old.spec.template, new.spec.template
    if before.resourceClaimTemplates != after.resourceClaimTemplates:
        # The metadata of a template is shown also where it says nothing, as in Grove's sentence.
        shown = [
            {"name": each.name, "templateSpec": {"metadata": {}, **msgspec.to_builtins(each.templateSpec)}}
            for each in after.resourceClaimTemplates
        ]
        yield invalid_value(f"{_PATH}.resourceClaimTemplates", shown or None, "field is immutable")
    yield from _kept(f"{_PATH}.resourceSharing", before.resourceSharing, after.resourceSharing)


def _clique_changes(old: PodCliqueSet, new: PodCliqueSet) -> Iterator[FieldError]:
    path = f"{_PATH}.cliques"
    before, after = old.spec.template.cliques, new.spec.template.cliques
    if len(before) != len(after):
        yield forbidden_field(path, "not allowed to change clique composition")
    former = {clique.name: (index, clique) for index, clique in enumerate(before)}
    is_ordered = new.spec.template.cliqueStartupType in _ORDERED
    for index, clique in enumerate(after):
        if clique.name not in former:
            message = f"not allowed to change clique composition, new clique name '{clique.name}' is not allowed"
            yield forbidden_field(f"{path}.name", message)
            continue
        former_index, was = former[clique.name]
        if is_ordered and index != former_index:
            # Grove names the same clique twice here, wherever it was; clients know the sentence so.
            yield invalid_value(
                path,
                clique.name,
                "clique order cannot be changed when StartupType is InOrder or Explicit. "
                f"Expected '{was.name}' at position {index}, got '{clique.name}'",
            )
        spec, was_spec = clique.spec, was.spec
        # A set that Grove stored may have no role: it gets one with its first change.
        yield from _kept(f"{path}.spec.roleName", was_spec.roleName or was.name, spec.roleName or clique.name)
        yield from _kept(f"{path}.spec.minAvailable", was_spec.minAvailable, spec.minAvailable)
        yield from _kept(f"{path}.spec.startsAfter", was_spec.startsAfter, spec.startsAfter)
        yield from _kept(
            f"{path}.spec.podSpec.schedulerName", was_spec.podSpec.schedulerName, spec.podSpec.schedulerName
        )
        yield from _kept(f"{path}[{index}].resourceSharing", was.resourceSharing, clique.resourceSharing)


def _group_changes(old: PodCliqueSet, new: PodCliqueSet) -> Iterator[FieldError]:
    path = f"{_PATH}.podCliqueScalingGroups"
    before, after = old.spec.template.podCliqueScalingGroups, new.spec.template.podCliqueScalingGroups
    if len(before) != len(after):
        yield forbidden_field(path, "not allowed to add or remove PodCliqueScalingGroupConfigs")
        return
    former = {group.name: group for group in before}
    for group in after:
        was = former.get(group.name)
        if was is None:
            message = (
                f"not allowed to change scaling group composition, new scaling group name '{group.name}' is not allowed"
            )
            yield forbidden_field(f"{path}.name", message)
            continue
        yield from _kept(f"{path}.cliqueNames", was.cliqueNames, group.cliqueNames)
        yield from _kept(f"{path}.minAvailable", was.minAvailable, group.minAvailable)
        yield from _kept(f"{path}.resourceSharing", was.resourceSharing, group.resourceSharing)


def _kept(field: str, old: Any, new: Any) -> Iterator[FieldError]:
    if old != new:
        yield invalid_value(field, None if new == () else new, "field is immutable")
