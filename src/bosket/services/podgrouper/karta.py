"""Kartas: objects by which administrators say, without code, how the pods of a kind are grouped.

A Karta describes a kind as a tree of components (where their numbers of replicas are, how their pods are recognised),
and which of these components make a group. Its paths are jq expressions. `karta_choice` finds those for a kind,
`karta_reading` answers questions about a workload by one of them, and `groupers.karta` makes groups of the answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec

from bosket.services.podgrouper.owner import GroupingError, GroupVersionKind, Owner

KARTA: Final = GroupVersionKind("run.ai", "v1alpha1", "Karta")


class Kind(msgspec.Struct, frozen=True):
    """What the root of a workload is."""

    group: str = ""
    version: str = ""
    kind: str = ""


class Scale(msgspec.Struct, frozen=True, rename="camel"):
    """Where numbers of replicas are."""

    replicas_path: str | None = None
    min_replicas_path: str | None = None
    max_replicas_path: str | None = None


class TypeSelector(msgspec.Struct, frozen=True, rename="camel"):
    """What tells a component's pods: a value, or that there is one at all."""

    key_path: str
    value: str | None = None

    @property
    def program(self) -> str:
        """What is asked of a pod."""
        return self.key_path if self.value is None else f"{self.key_path} == {json.dumps(self.value)}"


class InstanceSelector(msgspec.Struct, frozen=True, rename="camel"):
    """Where a pod says which of its component's instances it belongs to."""

    id_path: str


class PodSelector(msgspec.Struct, frozen=True, rename="camel"):
    """How a component's pods are recognised."""

    component_type_selector: TypeSelector | None = None
    component_instance_selector: InstanceSelector | None = None


class PodDefinition(msgspec.Struct, frozen=True, rename="camel"):
    """Where a component's pods are described; only whether they are counts here."""

    pod_template_spec_path: str | None = None
    pod_spec_path: str | None = None
    fragmented_pod_spec_definition: dict[str, Any] | None = None

    @property
    def ways(self) -> int:
        given = (self.pod_template_spec_path, self.pod_spec_path, self.fragmented_pod_spec_definition)
        return sum(each is not None for each in given)


class Component(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a workload: all its workers, its head."""

    name: str = ""
    kind: Kind | None = None
    owner_ref: str | None = None
    spec_definition: PodDefinition | None = None
    scale_definition: Scale | None = None
    status_definition: dict[str, Any] | None = None
    instance_id_path: str | None = None
    pod_selector: PodSelector | None = None

    @property
    def has_pods(self) -> bool:
        return self.spec_definition is not None and self.spec_definition.ways > 0


class Closeness(msgspec.Struct, frozen=True, rename="camel"):
    """How close pods must be, or should."""

    topology_name: str = ""
    preferred_topology_level: str = ""
    required_topology_level: str = ""


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """A component that is a sub-group."""

    component_name: str = ""
    topology: Closeness | None = None


class OneGroup(msgspec.Struct, frozen=True, rename="camel"):
    """All pods of a workload in one group."""

    name: str
    sub_groups: tuple[Part, ...] = ()
    topology: Closeness | None = None


class Member(msgspec.Struct, frozen=True, rename="camel"):
    """A component whose pods make groups, by keys; of the older form."""

    component_name: str
    group_by_key_paths: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()


class Members(msgspec.Struct, frozen=True):
    """Groups of the older form."""

    name: str
    members: tuple[Member, ...] = ()


class GangScheduling(msgspec.Struct, frozen=True, rename="camel"):
    """What makes groups, in one of two forms."""

    pod_group: OneGroup | None = None
    pod_groups: tuple[Members, ...] = ()


class Instructions(msgspec.Struct, frozen=True, rename="camel"):
    """What a Karta is for."""

    gang_scheduling: GangScheduling | None = None


class Structure(msgspec.Struct, frozen=True, rename="camel"):
    """What a workload consists of."""

    root_component: Component
    child_components: tuple[Component, ...] = ()


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    """All of a Karta that grouping asks for."""

    structure_definition: Structure
    optimization_instructions: Instructions = Instructions()


@dataclass(frozen=True)
class Karta:
    """One that was read."""

    source: Owner
    spec: Spec

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def gangs(self) -> GangScheduling | None:
        return self.spec.optimization_instructions.gang_scheduling

    @property
    def root(self) -> Component:
        return self.spec.structure_definition.root_component

    @cached_property
    def components(self) -> Mapping[str, Component]:
        """All of them by name, the root first."""
        return {each.name: each for each in (self.root, *self.spec.structure_definition.child_components)}

    def children(self, name: str) -> list[Component]:
        return [each for each in self.components.values() if each.owner_ref == name]

    def component(self, name: str) -> Component:
        found = self.components.get(name)
        if found is None:
            raise GroupingError(f'Karta {self.name} has no component "{name}"')
        return found
