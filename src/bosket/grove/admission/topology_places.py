"""The fields of a PodCliqueSet with topology constraints, and their values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from bosket.api.grove import PodCliqueSet, TopologyConstraint

TEMPLATE: Final = "spec.template"


class Place(NamedTuple):
    """A constraint, its path, and whose it is."""

    path: str
    constraint: TopologyConstraint
    kind: str
    #: of a clique or a group
    name: str = ""

    @property
    def owner(self) -> str:
        return f'{self.kind} "{self.name}"' if self.name else self.kind


def constraints(owner: PodCliqueSet) -> Iterator[Place]:
    """All constraints: the set's, those of cliques, those of groups."""
    own = set_place(owner)
    if own is not None:
        yield own
    yield from clique_places(owner)
    yield from group_places(owner)


def set_place(owner: PodCliqueSet) -> Place | None:
    """The constraint of the set itself."""
    found = owner.spec.template.topologyConstraint
    return Place(f"{TEMPLATE}.topologyConstraint", found, "PodCliqueSet") if found is not None else None


def clique_places(owner: PodCliqueSet) -> Iterator[Place]:
    """Those of its cliques."""
    for index, clique in enumerate(owner.spec.template.cliques):
        if clique.topologyConstraint is not None:
            path = f"{TEMPLATE}.cliques[{index}].topologyConstraint"
            yield Place(path, clique.topologyConstraint, "PodClique", clique.name)


def group_places(owner: PodCliqueSet) -> Iterator[Place]:
    """Those of its scaling groups."""
    for index, group in enumerate(owner.spec.template.podCliqueScalingGroups):
        if group.topologyConstraint is not None:
            path = f"{TEMPLATE}.podCliqueScalingGroups[{index}].topologyConstraint"
            yield Place(path, group.topologyConstraint, "PodCliqueScalingGroup", group.name)
