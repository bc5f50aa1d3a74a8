"""Validation of pod groups: sub-groups form a tree, and each has a valid minimum.

What an existing group may keep although a new one may not have it, and what is merely odd, is a warning. The sentences
are KAI's, because tools look for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bosket.api.kai import PodGroup, SubGroup
from bosket.runtime.webhook.verdict import Refusal, Verdict, quoted

_BOTH = "minMember and minSubGroup are mutually exclusive"


def check(group: PodGroup, *, is_update: bool) -> Verdict:
    """Refuses what can't be a tree at once; minimums are looked at only in a tree."""
    if group.metadata.deletionTimestamp is not None:
        return Verdict()  # it is on its way out: only finalizers change
    structure = tuple(_structure(group))
    if structure:
        return Verdict(structure)
    refusals: list[Refusal] = []
    warnings: list[str] = []
    children = Counter(each.parent for each in group.spec.subGroups)
    if (wanted := group.spec.minSubGroup) is not None and wanted > children[None]:
        warnings.append(_too_many(wanted, children[None]))
    for index, each in enumerate(group.spec.subGroups):
        field = f"spec.subGroups[{index}]"
        if not children[each.name]:
            refusals += _about_leaf(each, field)
            continue
        if each.minMember is not None:
            message = (
                f"subgroup {quoted(each.name)}: minMember cannot be set on a mid-level SubGroup (has child SubGroups); "
                "use minSubGroup instead"
            )
            if is_update:
                warnings.append(message)
            else:
                refusals.append(Refusal(f"{field}.minMember", message))
        if each.minSubGroup is not None and each.minSubGroup > children[each.name]:
            warnings.append(f"subgroup {quoted(each.name)}: {_too_many(each.minSubGroup, children[each.name])}")
    return Verdict(tuple(refusals), tuple(warnings))


def _structure(group: PodGroup) -> Iterator[Refusal]:
    spec = group.spec
    if spec.minMember is not None and spec.minSubGroup is not None:
        message = (
            f"{_BOTH}: set minMember ({spec.minMember}) to schedule a fixed number of pods, or set minSubGroup to "
            "require a minimum number of child SubGroups, but not both"
        )
        yield Refusal("spec.minMember", message)
    names = {each.name for each in spec.subGroups}
    parents = {each.name: each.parent for each in spec.subGroups}
    for name, times in Counter(each.name for each in spec.subGroups).items():
        if times > 1:
            yield Refusal("spec.subGroups", f"duplicate subgroup name {name}")
    for index, each in enumerate(spec.subGroups):
        field = f"spec.subGroups[{index}]"
        if each.minMember is not None and each.minSubGroup is not None:
            yield Refusal(field, f"subgroup {quoted(each.name)}: {_BOTH}")
        if each.parent is None:
            continue
        if each.parent not in names:
            yield Refusal(f"{field}.parent", f"parent {each.parent} of {each.name} was not found")
        elif _is_below_itself(each.name, parents):
            message = f"cycle detected in subgroups: {quoted(each.name)} is its own ancestor"
            yield Refusal(f"{field}.parent", message)


def _is_below_itself(name: str, parents: dict[str, str | None]) -> bool:
    seen: set[str] = set()
    at = parents.get(name)
    while at is not None and at != name and at not in seen:
        seen.add(at)
        at = parents.get(at)
    return at == name


def _about_leaf(leaf: SubGroup, field: str) -> Iterator[Refusal]:
    if leaf.minSubGroup is not None:
        message = f"subgroup {quoted(leaf.name)}: minSubGroup cannot be set on a leaf SubGroup (no child SubGroups)"
        yield Refusal(f"{field}.minSubGroup", message)
    if leaf.minMember is None:
        yield Refusal(f"{field}.minMember", f"subgroup {leaf.name}: minMember is required")


def _too_many(wanted: int, there: int) -> str:
    return f"minSubGroup ({wanted}) exceeds the number of direct child SubGroups ({there})"
