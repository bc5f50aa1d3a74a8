"""Pod groups: sub-groups form a tree, and each has the minimum that fits its place in it.

What an existing group may keep though a new one may not have it, and what is only odd, is a warning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bosket.api.kai import PodGroup, SubGroup
from bosket.webhook.verdict import Refusal, Verdict, quoted

_BOTH = "minMember and minSubGroup exclude each other: a minimum counts pods, or sub-groups; keep one"


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
        warnings.append(_too_many("spec.minSubGroup", wanted, children[None]))
    for index, each in enumerate(group.spec.subGroups):
        field = f"spec.subGroups[{index}]"
        if not children[each.name]:
            refusals += _about_leaf(each, field)
            continue
        if each.minMember is not None:
            message = (
                f"sub-group {quoted(each.name)} has sub-groups of its own, so its minMember means nothing: "
                "say with minSubGroup how many of them it needs"
            )
            if is_update:
                warnings.append(message)
            else:
                refusals.append(Refusal(f"{field}.minMember", message))
        if each.minSubGroup is not None and each.minSubGroup > children[each.name]:
            warnings.append(_too_many(f"{field}.minSubGroup", each.minSubGroup, children[each.name]))
    return Verdict(tuple(refusals), tuple(warnings))


def _structure(group: PodGroup) -> Iterator[Refusal]:
    spec = group.spec
    if spec.minMember is not None and spec.minSubGroup is not None:
        yield Refusal("spec.minMember", _BOTH)
    names = {each.name for each in spec.subGroups}
    parents = {each.name: each.parent for each in spec.subGroups}
    for name, times in Counter(each.name for each in spec.subGroups).items():
        if times > 1:
            yield Refusal(
                "spec.subGroups", f"{times} sub-groups are called {quoted(name)}: give each a name of its own"
            )
    for index, each in enumerate(spec.subGroups):
        field = f"spec.subGroups[{index}]"
        if each.minMember is not None and each.minSubGroup is not None:
            yield Refusal(field, f"sub-group {quoted(each.name)}: {_BOTH}")
        if each.parent is None:
            continue
        if each.parent not in names:
            message = f"sub-group {quoted(each.name)} has the parent {quoted(each.parent)}, which is no sub-group here"
            yield Refusal(f"{field}.parent", message)
        elif _is_below_itself(each.name, parents):
            yield Refusal(
                f"{field}.parent", f"sub-group {quoted(each.name)} is its own ancestor: sub-groups form a tree"
            )


def _is_below_itself(name: str, parents: dict[str, str | None]) -> bool:
    seen: set[str] = set()
    at = parents.get(name)
    while at is not None and at != name and at not in seen:
        seen.add(at)
        at = parents.get(at)
    return at == name


def _about_leaf(leaf: SubGroup, field: str) -> Iterator[Refusal]:
    if leaf.minSubGroup is not None:
        message = f"sub-group {quoted(leaf.name)} has no sub-groups, so it can need none: leave minSubGroup out"
        yield Refusal(f"{field}.minSubGroup", message)
    if leaf.minMember is None:
        message = f"sub-group {quoted(leaf.name)} holds pods: say with minMember how many of them it needs at least"
        yield Refusal(f"{field}.minMember", message)


def _too_many(field: str, wanted: int, there: int) -> str:
    return f"{field} is {wanted}, but there are only {there} sub-groups to count: it will never run"
