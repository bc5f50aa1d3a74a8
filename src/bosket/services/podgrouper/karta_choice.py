"""Which Kartas say how a kind is grouped: those that name it, can be read, and contradict themselves in nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from bosket.api import keys
from bosket.services.podgrouper.karta import Component, GangScheduling, Karta, Kind, Spec
from bosket.services.podgrouper.owner import GroupVersionKind, Owner
from bosket.services.podgrouper.program import Answers, Programs

_LABELS: Final = (keys.KARTA_GROUP_LABEL, keys.KARTA_VERSION_LABEL, keys.KARTA_KIND_LABEL)


def candidates(kartas: Sequence[Owner], gvk: GroupVersionKind) -> list[Karta]:
    """The Kartas that say how a kind is grouped; those that can't be read, or are wrong in themselves, are left out.

    Whether their programs are programs isn't known yet: `runnable` says so of the answers.
    """
    found = []
    for each in kartas:
        wanted = dict(zip(_LABELS, (gvk.group, gvk.version, gvk.kind), strict=True))
        if each.metadata.deletionTimestamp is not None or not wanted.items() <= dict(each.labels).items():
            continue
        try:
            karta = Karta(each, msgspec.convert(each.content.get("spec", {}), Spec))
        except msgspec.ValidationError:
            continue
        gangs, kind = karta.gangs, karta.root.kind
        says_how = gangs is not None and (gangs.pod_group is not None or gangs.pod_groups)
        if kind == Kind(gvk.group, gvk.version, gvk.kind) and says_how and not any(_mistakes(karta)):
            found.append(karta)
    return found


def programs_of(karta: Karta) -> Programs:
    """All programs that grouping by a Karta may ask for."""
    return Programs(tuple(dict.fromkeys(_about_workload(karta))), tuple(dict.fromkeys(_about_pod(karta))))


def runnable(answers: Answers) -> bool:
    """Whether all programs of a Karta are programs."""
    return all(each.outcome != "invalid" for each in answers.all)


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


def _ends_at_root(karta: Karta, component: Component) -> bool:
    seen: set[str] = set()
    current: Component | None = component
    while current is not None and current.name not in seen:
        seen.add(current.name)
        if current.owner_ref is None:
            return True
        current = karta.components.get(current.owner_ref)
    return current is None


def _about_workload(karta: Karta) -> Iterator[str]:
    for component in karta.components.values():
        if component.scale_definition is not None:
            scale = component.scale_definition
            yield from filter(None, (scale.replicas_path, scale.min_replicas_path, scale.max_replicas_path))
        if component.instance_id_path is not None:
            yield component.instance_id_path


def _about_pod(karta: Karta) -> Iterator[str]:
    for component in karta.components.values():
        selector = component.pod_selector
        if selector is not None and selector.component_type_selector is not None:
            yield selector.component_type_selector.program
        if selector is not None and selector.component_instance_selector is not None:
            yield selector.component_instance_selector.id_path
    gangs = karta.gangs or GangScheduling()
    for member in (member for group in gangs.pod_groups for member in group.members):
        yield from (*member.group_by_key_paths, *member.filters)
