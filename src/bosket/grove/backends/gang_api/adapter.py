"""What an adapter of one version does, and what several of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from bosket.api import keys
from bosket.api.core import Pod
from bosket.api.core.pod import PodSchedulingGroup
from bosket.api.grove import GangPodGroup, PodCliqueSet, PodGang
from bosket.api.object import Condition, KubeObject
from bosket.api.scheduling_k8s.part import (
    BasicSchedulingPolicy,
    ControllerReference,
    GangSchedulingPolicy,
    PodGroupSchedulingPolicy,
)
from bosket.api.table import resource_of
from bosket.grove.backends.backend import Rendering, Surroundings, with_spec
from bosket.grove.backends.composition import label_name, preferred_level, required_level

#: How many templates a Workload can have.
MOST_TEMPLATES: Final = 8


class GangApi(ABC):
    """One version of the API: a gang as objects, the pods' references to them, and the scheduler's status."""

    kinds: tuple[type[KubeObject], ...]
    #: Conditions of its objects that say whether a group is scheduled.
    scheduled_conditions: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def render(self, gang: PodGang, cluster: Surroundings) -> Rendering:
        """What should exist."""

    @abstractmethod
    def link(self, gang: PodGang, pod: Pod) -> Pod:
        """The pod as a member of its group."""

    @abstractmethod
    def update(self, found: KubeObject, wanted: KubeObject) -> KubeObject | None:
        """`found` as it should be; None where that can't be: most of these fields can't be changed."""

    def conditions(self, owned: Iterable[KubeObject]) -> list[tuple[KubeObject, Condition]]:
        """What the scheduler wrote on each."""
        del owned
        return []


def policy(minimum: int) -> PodGroupSchedulingPolicy:
    """A gang of so many; without a minimum there is nothing to wait for."""
    if minimum < 1:
        return PodGroupSchedulingPolicy(basic=BasicSchedulingPolicy())
    return PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(minCount=minimum))


def controller_reference_of(owner: PodCliqueSet | None) -> ControllerReference | None:
    """The set that a workload is for, as tools show it."""
    if owner is None:
        return None
    resource = resource_of(PodCliqueSet)
    return ControllerReference(apiGroup=resource.group, kind=resource.kind, name=owner.metadata.name)


def asked_level(level: str) -> dict[str, str]:
    """Annotations of a group whose pods must share a domain of `level`."""
    return {keys.ASKED_LEVEL_ANNOTATION: level} if level else {}


def dropped_level(found: KubeObject, wanted: KubeObject) -> str:
    """The level that was asked for when `found` was made, if the server dropped it: it does where the gate is off."""
    level = wanted.metadata.annotations.get(keys.ASKED_LEVEL_ANNOTATION, "")
    spec: Any = getattr(found, "spec", None)
    was_asked = found.metadata.annotations.get(keys.ASKED_LEVEL_ANNOTATION) == level
    return level if level and was_asked and spec.schedulingConstraints is None else ""


def with_group_name(pod: Pod) -> Pod:
    """The pod as a member of the PodGroup that is named like its clique."""
    name = label_name(pod.metadata.labels[keys.GROVE_POD_CLIQUE_LABEL])
    return with_spec(pod, schedulingGroup=PodSchedulingGroup(podGroupName=name))


def narrowest_level(gang: PodGang, group: GangPodGroup) -> str:
    """The level that a group's pods must share: its own, else that of the groups around it, else the gang's."""
    configs = [each for each in gang.spec.topologyConstraintGroupConfigs if group.name in each.podGroupNames]
    around = [required_level(config.topologyConstraint) for config in configs]
    return next(filter(None, (required_level(group.topologyConstraint), *around)), "") or required_level(
        gang.spec.topologyConstraint
    )


def left_out_preferences(gang: PodGang) -> list[str]:
    """This scheduler knows what must be close together, not what should be."""
    spec = gang.spec
    levels = [
        ("the gang", preferred_level(spec.topologyConstraint)),
        *((each.name, preferred_level(each.topologyConstraint)) for each in spec.topologyConstraintGroupConfigs),
        *((each.name, preferred_level(each.topologyConstraint)) for each in spec.podgroups),
    ]
    return [
        f"{name} prefers one domain of {level}; the default scheduler has no preferences"
        for name, level in levels
        if level
    ]


def loosened_bonds(gang: PodGang) -> list[str]:
    """Constraints that hold for each pod group alone, where the API can't express one domain for several groups."""
    spec = gang.spec
    if len(spec.podgroups) < 2:
        return []
    several = [
        (required_level(spec.topologyConstraint), [each.name for each in spec.podgroups]),
        *(
            (required_level(each.topologyConstraint), list(each.podGroupNames))
            for each in spec.topologyConstraintGroupConfigs
        ),
    ]
    return [
        "each of its pod groups is a gang of its own: without CompositePodGroups they can't be bound together",
        *(
            f"each of {', '.join(names)} is kept in one domain of {level}, but not all of them in the same one"
            for level, names in several
            if level and len(names) > 1
        ),
    ]
