"""Rules of the multi-node NVLink annotation: valid values, and immutability."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from bosket.api.field_error import FieldError, forbidden_field, invalid_value
from bosket.api.grove import PodCliqueSet
from bosket.api.grove.naming import MNNVL_GROUP_ANNOTATION
from bosket.api.name_rules import label_error

#: Takes no part; may be said also where nobody does.
OPT_OUT: Final = "none"


def annotation_errors(owner: PodCliqueSet, *, enabled: bool) -> Iterator[FieldError]:
    """What is wrong with the groups that a new set names."""
    for path, given in _places(owner):
        group = given.get(MNNVL_GROUP_ANNOTATION)
        if group is None:
            continue
        if problem := _group_problem(group):
            yield invalid_value(path, group, problem)
        if not enabled and group != OPT_OUT:
            yield invalid_value(
                path,
                group,
                "MNNVL is not enabled in the operator configuration. Either enable MNNVL globally or remove the "
                f"{MNNVL_GROUP_ANNOTATION} annotation",
            )


def annotation_change_errors(old: PodCliqueSet, new: PodCliqueSet) -> Iterator[FieldError]:
    """Which places name another group than before. Cliques and groups are compared by name, wherever they stand."""
    yield from _change("metadata.annotations", old.metadata.annotations, new.metadata.annotations)
    before, after = old.spec.template, new.spec.template
    cliques = {each.name: each.annotations for each in before.cliques}
    for index, clique in enumerate(after.cliques):
        if clique.name in cliques:
            path = f"spec.template.cliques[{index}].annotations"
            yield from _change(path, cliques[clique.name], clique.annotations)
    groups = {each.name: each.annotations for each in before.podCliqueScalingGroups}
    for index, group in enumerate(after.podCliqueScalingGroups):
        if group.name in groups:
            path = f"spec.template.podCliqueScalingGroups[{index}].annotations"
            yield from _change(path, groups[group.name], group.annotations)


def _places(owner: PodCliqueSet) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Where the annotation may stand: its path, and the annotations there."""
    key = MNNVL_GROUP_ANNOTATION
    yield f"metadata.annotations.{key}", owner.metadata.annotations
    template = owner.spec.template
    for index, clique in enumerate(template.cliques):
        yield f"spec.template.cliques[{index}].annotations.{key}", clique.annotations
    for index, group in enumerate(template.podCliqueScalingGroups):
        yield f"spec.template.podCliqueScalingGroups[{index}].annotations.{key}", group.annotations


def _group_problem(group: str) -> str | None:
    if not group:
        return "mnnvl-group value must not be empty"
    problem = None if group == OPT_OUT else label_error(group)
    return f'mnnvl-group value "{group}" is not a valid DNS-1123 label: {problem}' if problem else None


def _change(path: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[FieldError]:
    field = f"{path}.{MNNVL_GROUP_ANNOTATION}"
    before, after = old.get(MNNVL_GROUP_ANNOTATION), new.get(MNNVL_GROUP_ANNOTATION)
    what = f"annotation {MNNVL_GROUP_ANNOTATION}"
    if before == after:
        return
    if before is None:
        yield forbidden_field(field, f"{what} cannot be added after creation")
    elif after is None:
        yield forbidden_field(field, f"{what} cannot be removed after creation")
    else:
        message = f'{what} is immutable and cannot be changed from "{before}" to "{after}"'
        yield invalid_value(field, after, message)
