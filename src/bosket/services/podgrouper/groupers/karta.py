"""Kinds without a rule of their own: by a Karta where an administrator wrote one, else by default."""

from __future__ import annotations

import msgspec

from bosket.api.kai import SubGroup, TopologyConstraint
from bosket.api.name_rules import subdomain_error
from bosket.services.podgrouper.groupers.default import base_group, default
from bosket.services.podgrouper.karta import KARTA, Closeness, Component, Karta, Member, Members, OneGroup
from bosket.services.podgrouper.karta_choice import candidates, programs_of, runnable
from bosket.services.podgrouper.karta_reading import Reading
from bosket.services.podgrouper.owner import GroupingError
from bosket.services.podgrouper.workload import Grouping, Workload


def by_karta(workload: Workload) -> Grouping:
    """Where two Kartas speak for a kind, neither is followed."""
    asked = [
        Reading(karta, workload.answers_of(programs_of(karta)))
        for karta in candidates(workload.read_all(KARTA), workload.top.gvk)
    ]
    found = [each for each in asked if runnable(each.answers)]
    if len(found) != 1:
        return default(workload)
    (reading,) = found
    _check_limits(reading)
    gangs = reading.karta.gangs
    if gangs is not None and gangs.pod_group is not None:
        return _one_group(workload, reading, gangs.pod_group)
    return _by_members(workload, reading, gangs.pod_groups if gangs is not None else ())


def _check_limits(reading: Reading) -> None:
    """Refuse a Karta with a program that was stopped, whether or not this pod needs its answer."""
    for answer in reading.answers.all:
        if answer.outcome == "exceeded":
            error = GroupingError(f"Karta {reading.karta.name}: {answer.error}")
            error.culprit = reading.karta.source
            raise error


def _one_group(workload: Workload, reading: Reading, wanted: OneGroup) -> Grouping:
    """All pods in one group, with a sub-group for each component that the Karta lists."""
    subgroups, own = [], ""
    for part in wanted.sub_groups:
        component = reading.karta.component(part.component_name)
        pods = reading.pods_below(component)
        if pods == 0:
            raise GroupingError(
                f'Karta {reading.karta.name}: component "{component.name}" says nowhere how many replicas it has'
            )
        subgroups.append(
            SubGroup(name=component.name, minMember=pods, topologyConstraint=_constraint(reading.karta, part.topology))
        )
        if reading.is_below(component):
            own = own or component.name
    group = base_group(
        workload,
        name=f"pg-{workload.top.metadata.uid}-{wanted.name}",
        min_member=0 if subgroups else reading.pods_below(reading.karta.root),
        min_subgroup=len(subgroups) if subgroups else None,
        subgroups=subgroups,
    )
    constraint = _constraint(reading.karta, wanted.topology)
    if constraint is not None:
        spec = msgspec.structs.replace(group.spec, topologyConstraint=constraint)
        group = msgspec.structs.replace(group, spec=spec)
    return Grouping(group, own)


def _constraint(karta: Karta, wanted: Closeness | None) -> TopologyConstraint | None:
    if wanted is None:
        return None
    if not wanted.topology_name or not (wanted.required_topology_level or wanted.preferred_topology_level):
        raise GroupingError(f"Karta {karta.name}: a topology must have a name, and a required or a preferred level")
    return TopologyConstraint(
        topology=wanted.topology_name,
        requiredTopologyLevel=wanted.required_topology_level,
        preferredTopologyLevel=wanted.preferred_topology_level,
    )


def _by_members(workload: Workload, reading: Reading, groups: tuple[Members, ...]) -> Grouping:
    """The older form: groups of components, distinguished by keys of their pods."""
    own = _component_of(workload, reading)
    component, member = _member(workload, reading, own, groups)
    instance = _instance(reading, component) if component is own else None
    keys = [reading.word(path) for path in member.group_by_key_paths]
    name = "-".join(("pg", workload.top.metadata.uid, *keys))
    if keys and subdomain_error(name) is not None:
        raise GroupingError(
            f'Karta {reading.karta.name}: the keys {keys} make "{name}", which is no name of a PodGroup'
        )
    return Grouping(base_group(workload, name=name, min_member=reading.pods_below(component, instance)))


def _component_of(workload: Workload, reading: Reading) -> Component:
    with_pods = [each for each in reading.karta.components.values() if each.has_pods]
    if len(with_pods) == 1:
        return with_pods[0]
    for each in with_pods:
        if reading.is_of(each):
            return each
    raise GroupingError(f"Karta {reading.karta.name}: pod {workload.pod.key} belongs to no component")


def _member(
    workload: Workload, reading: Reading, own: Component, groups: tuple[Members, ...]
) -> tuple[Component, Member]:
    """The component that decides, and what it is a member of: the pod's own one, else the nearest above it."""
    current: Component | None = own
    while current is not None:
        for member in (member for group in groups for member in group.members):
            if member.component_name == current.name and _passes(reading, member):
                return current, member
        current = reading.karta.components.get(current.owner_ref or "")
    raise GroupingError(f"Karta {reading.karta.name}: pod {workload.pod.key} is a member of no group")


def _passes(reading: Reading, member: Member) -> bool:
    return all(reading.of_pod(each) == [True] for each in member.filters)


def _instance(reading: Reading, component: Component) -> str | None:
    selector = component.pod_selector.component_instance_selector if component.pod_selector else None
    return reading.word(selector.id_path) if selector is not None else None
