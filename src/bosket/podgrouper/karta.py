"""Kartas: objects by which administrators say, without code, how the pods of a kind are grouped.

A Karta describes a kind as a tree of components (where their numbers of replicas are, how their pods are recognised),
and which of these components make a group. Its paths are jq expressions. This module reads and checks Kartas, and
answers questions about a workload by one of them; `groupers.karta` makes groups of the answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import jq
import msgspec

from bosket.podgrouper.owner import GroupingError, GroupVersionKind, Owner

KARTA: Final = GroupVersionKind("run.ai", "v1alpha1", "Karta")
_LABELS: Final = ("run.ai/karta-group", "run.ai/karta-version", "run.ai/karta-kind")


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
    """One that was read and checked."""

    name: str
    spec: Spec

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


def matching(kartas: Sequence[Owner], gvk: GroupVersionKind) -> list[Karta]:
    """The Kartas that say how a kind is grouped; those that can't be read, or are wrong in themselves, are left out."""
    found = []
    for each in kartas:
        wanted = dict(zip(_LABELS, (gvk.group, gvk.version, gvk.kind), strict=True))
        if each.metadata.deletionTimestamp is not None or not wanted.items() <= dict(each.labels).items():
            continue
        try:
            karta = Karta(each.name, msgspec.convert(each.content.get("spec", {}), Spec))
        except msgspec.ValidationError:
            continue
        gangs, kind = karta.gangs, karta.root.kind
        says_how = gangs is not None and (gangs.pod_group is not None or gangs.pod_groups)
        if kind == Kind(gvk.group, gvk.version, gvk.kind) and says_how and not any(_mistakes(karta)):
            found.append(karta)
    return found


def _mistakes(karta: Karta) -> Iterator[str]:
    structure = karta.spec.structure_definition
    if len(karta.components) <= len(structure.child_components):
        yield "two components have one name"
    if structure.root_component.owner_ref is not None or structure.root_component.status_definition is None:
        yield "the root has an owner, or no status definition"
    for component in karta.components.values():
        is_root = component is structure.root_component
        if not component.name or (not is_root and component.owner_ref not in karta.components):
            yield f'component "{component.name}" has no name or no owner'
        if component.spec_definition is not None and component.spec_definition.ways > 1:
            yield f'component "{component.name}" describes its pods in several ways'
        selector = component.pod_selector.component_instance_selector if component.pod_selector else None
        if (component.instance_id_path is None) != (selector is None):
            yield f'component "{component.name}" has instances on one side only'
        if not _ends_at_root(karta, component):
            yield f'component "{component.name}" is its own owner'
    gangs = karta.gangs or GangScheduling()
    for member in (member for group in gangs.pod_groups for member in group.members):
        if member.component_name not in karta.components:
            yield f'member "{member.component_name}" is no component'
    for expression in _expressions(karta, gangs):
        try:
            _compiled(expression)
        except ValueError as error:
            yield str(error)


def _ends_at_root(karta: Karta, component: Component) -> bool:
    seen: set[str] = set()
    current: Component | None = component
    while current is not None and current.name not in seen:
        seen.add(current.name)
        if current.owner_ref is None:
            return True
        current = karta.components.get(current.owner_ref)
    return current is None


def _expressions(karta: Karta, gangs: GangScheduling) -> Iterator[str]:
    for component in karta.components.values():
        if component.scale_definition is not None:
            scale = component.scale_definition
            yield from filter(None, (scale.replicas_path, scale.min_replicas_path, scale.max_replicas_path))
        if component.instance_id_path is not None:
            yield component.instance_id_path
        if component.pod_selector is not None:
            if component.pod_selector.component_type_selector is not None:
                yield component.pod_selector.component_type_selector.key_path
            if component.pod_selector.component_instance_selector is not None:
                yield component.pod_selector.component_instance_selector.id_path
    for member in (member for group in gangs.pod_groups for member in group.members):
        yield from (*member.group_by_key_paths, *member.filters)


@lru_cache(maxsize=256)
def _compiled(expression: str) -> Any:
    return jq.compile(expression)


def evaluate(expression: str, value: Mapping[str, Any]) -> list[Any]:
    """All results of a jq expression."""
    try:
        results: list[Any] = _compiled(expression).input_value(value).all()
    except ValueError as error:
        raise GroupingError(f'"{expression}": {error}') from None
    return results


@dataclass(frozen=True)
class Reading:
    """A workload and one of its pods, as a Karta sees them."""

    karta: Karta
    workload: Mapping[str, Any]
    pod: Mapping[str, Any]

    def is_of(self, component: Component) -> bool:
        """Whether the pod is one of the component's own."""
        selector = component.pod_selector.component_type_selector if component.pod_selector else None
        if selector is None:
            return False
        expression = (
            selector.key_path if selector.value is None else f"{selector.key_path} == {json.dumps(selector.value)}"
        )
        results = evaluate(expression, self.pod)
        return (
            any(each is not None for each in results)
            if selector.value is None
            else any(each is True for each in results)
        )

    def is_below(self, component: Component) -> bool:
        """Whether the pod is one of the component's, or of a component that it owns."""
        return self.is_of(component) or any(self.is_below(child) for child in self.karta.children(component.name))

    def word(self, expression: str) -> str:
        """The one value that a path leads to, in the pod."""
        results = evaluate(expression, self.pod)
        if len(results) != 1 or results[0] in (None, ""):
            raise GroupingError(f'Karta {self.karta.name}: "{expression}" gives {results}, one value is expected')
        value = results[0]
        return value if isinstance(value, str) else json.dumps(value)

    def instances(self, component: Component) -> list[str]:
        """The names of a component's instances; one without a name where it has no such thing."""
        if component.instance_id_path is None:
            return [""]
        found = evaluate(component.instance_id_path, self.workload)
        if not all(isinstance(each, str) and each for each in found):
            raise GroupingError(f'Karta {self.karta.name}: "{component.instance_id_path}" gives {found}, not names')
        return found

    def pods_below(self, component: Component, instance: str | None = None) -> int:
        """How many pods a component has, with those of all that it owns: the least that it says it may have."""
        if any(each.scale_definition is not None for each in self.karta.components.values()):
            return self._by_scale(component, instance)
        return self._by_leaves(component, instance)

    def _by_scale(self, component: Component, instance: str | None) -> int:
        scales = self._scales(component)
        if instance is None:
            own = sum(scales.values())
        elif instance in scales:
            own = scales[instance]
        else:
            raise self._unknown(component, instance)
        below = sum(self._by_scale(child, None) for child in self.karta.children(component.name))
        # Who says nothing about numbers leaves them to those above or below.
        return own * below if own and below else own or below

    def _by_leaves(self, component: Component, instance: str | None) -> int:
        if not component.has_pods:
            return sum(self._by_leaves(child, None) for child in self.karta.children(component.name))
        if component.instance_id_path is None:
            return 1
        instances = self.instances(component)
        if instance is None:
            return len(instances)
        if instance not in instances:
            raise self._unknown(component, instance)
        return 1

    def _scales(self, component: Component) -> dict[str, int]:
        """The least number of replicas of each instance."""
        scale = component.scale_definition
        if scale is None:
            return {}
        paths = (scale.min_replicas_path, scale.replicas_path, scale.max_replicas_path)
        least, wanted, most = ([] if path is None else self._numbers(path) for path in paths)
        count, instances = max(len(least), len(wanted), len(most)), self.instances(component)
        if count != len(instances):
            raise GroupingError(
                f'Karta {self.karta.name}: component "{component.name}" has {len(instances)} instances, '
                f"but {count} numbers of replicas"
            )
        return {
            instance: _positive(least, index) or _positive(wanted, index) for index, instance in enumerate(instances)
        }

    def _numbers(self, path: str) -> list[int | None]:
        found = evaluate(path, self.workload)
        if not all(each is None or (isinstance(each, int) and not isinstance(each, bool)) for each in found):
            raise GroupingError(f'Karta {self.karta.name}: "{path}" gives {found}, not whole numbers')
        return found

    def _unknown(self, component: Component, instance: str) -> GroupingError:
        return GroupingError(
            f'Karta {self.karta.name}: the pod belongs to "{instance}", '
            f'and component "{component.name}" has no such instance'
        )


def _positive(numbers: Sequence[int | None], index: int) -> int:
    return max(0, numbers[index] or 0) if index < len(numbers) else 0
