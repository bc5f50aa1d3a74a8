"""What is agreed on about gangs: how their groups are called, and whether one has its minimum, for those who only count
pods: the one rule of a PodGroup's tree of sub-groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bosket.api.kai import PodGroupSpec, SubGroup

#: A gang that says nothing is one pod.
_DEFAULT_MINIMUM = 1


def has_minimum(spec: PodGroupSpec, pods: Mapping[str, int]) -> bool:
    """Whether a gang has what it must have, with so many pods by sub-group; those without one are under ""."""
    if not spec.subGroups:
        return sum(pods.values()) >= minimum(spec)
    complete: set[str] = set()
    for subgroup, below in leaves_first(spec.subGroups):
        if below:
            wanted = len(below) if subgroup.minSubGroup is None else subgroup.minSubGroup
            is_complete = len({each.name for each in below} & complete) >= wanted
        else:
            is_complete = pods.get(subgroup.name, 0) >= (subgroup.minMember or 0)
        if is_complete:
            complete.add(subgroup.name)
    roots = [each for each in spec.subGroups if not each.parent]
    wanted = len(roots) if spec.minSubGroup is None else spec.minSubGroup
    return len({each.name for each in roots} & complete) >= wanted


def leaves_first(subgroups: Iterable[SubGroup]) -> list[tuple[SubGroup, list[SubGroup]]]:
    """Every sub-group that a root leads to, with those right below it, which come before it; of those with one name the
    first. What is in a circle of parents, which admission refuses, no root leads to.

    Without recursion: how deep the tree is is up to whoever writes it.
    """
    children: dict[str, list[SubGroup]] = {}
    for each in subgroups:
        children.setdefault(each.parent or "", []).append(each)
    found: dict[str, tuple[SubGroup, list[SubGroup]]] = {}
    ahead = list(reversed(children.get("", [])))
    while ahead:
        subgroup = ahead.pop()
        if subgroup.name not in found:
            below = children.get(subgroup.name, []) if subgroup.name else []
            found[subgroup.name] = subgroup, below
            ahead += reversed(below)
    return list(reversed(found.values()))


def minimum(spec: PodGroupSpec) -> int:
    """How many pods a gang without sub-groups must have."""
    return _DEFAULT_MINIMUM if spec.minMember is None else spec.minMember


def usual_group_name(owner: str, uid: str) -> str:
    """The name of an owner's group; the uid tells it from an earlier object of the same name."""
    return f"pg-{owner}-{uid}"
