"""What is agreed on about gangs: how their groups are called, and whether one has its minimum, for those who only count
pods: the one rule of a PodGroup's tree of sub-groups.
"""

from __future__ import annotations

from collections.abc import Mapping

from bosket.api.kai import PodGroupSpec, SubGroup

#: A gang that says nothing is one pod.
_DEFAULT_MINIMUM = 1


def has_minimum(spec: PodGroupSpec, pods: Mapping[str, int]) -> bool:
    """Whether a gang has what it must have, with so many pods by sub-group; those without one are under ""."""
    if not spec.subGroups:
        return sum(pods.values()) >= minimum(spec)
    children: dict[str, list[SubGroup]] = {}
    for each in spec.subGroups:
        children.setdefault(each.parent or "", []).append(each)
    done: set[str] = set()  # a circle of parents, which admission refuses, has nothing

    def enough(below: list[SubGroup], wanted: int | None) -> bool:
        return sum(map(is_complete, below)) >= (len(below) if wanted is None else wanted)

    def is_complete(subgroup: SubGroup) -> bool:
        if subgroup.name in done:
            return False
        done.add(subgroup.name)
        below = children.get(subgroup.name)
        if below:
            return enough(below, subgroup.minSubGroup)
        return pods.get(subgroup.name, 0) >= (subgroup.minMember or 0)

    return enough(children.get("", []), spec.minSubGroup)


def minimum(spec: PodGroupSpec) -> int:
    """How many pods a gang without sub-groups must have."""
    return _DEFAULT_MINIMUM if spec.minMember is None else spec.minMember


def usual_group_name(owner: str, uid: str) -> str:
    """The name of an owner's group; the uid tells it from an earlier object of the same name."""
    return f"pg-{owner}-{uid}"
