"""Grove: the pods of a PodCliqueSet are grouped by PodGang, which says itself what its parts are."""

from __future__ import annotations

import dataclasses
from typing import Final, cast

import msgspec

from bosket.api import keys
from bosket.api.kai import PodGroupSpec, SubGroup, TopologyConstraint
from bosket.api.object import ObjectMeta
from bosket.api.time import format_duration, parse_duration
from bosket.services.podgrouper.field import Part
from bosket.services.podgrouper.groupers.default import PREEMPTIBILITIES, Preemptibility, base_group
from bosket.services.podgrouper.owner import GroupingError, GroupVersionKind
from bosket.services.podgrouper.workload import Grouping, Workload

_POD_GANG: Final = GroupVersionKind("scheduler.grove.io", "v1alpha1", "PodGang")
_POD_GANG_LABEL: Final = "grove.io/podgang"
_PACK: Final = ("topologyConstraint", "packConstraint")


def pod_clique_set(workload: Workload) -> Grouping:
    """One group per PodGang; what the set's labels and annotations say comes after what the gang's do."""
    name = workload.pod.metadata.labels.get(_POD_GANG_LABEL)
    if name is None:
        raise GroupingError(f"pod {workload.pod.key} has no label {_POD_GANG_LABEL}; it names the pod's PodGang")
    gang = workload.read(_POD_GANG, name)
    content = Part(gang)
    topology = gang.annotations.get(keys.GROVE_TOPOLOGY_ANNOTATION, gang.annotations.get(keys.TOPOLOGY_ANNOTATION, ""))
    parents, parent_of = _parents(content, topology)
    children, own = _children(workload, content, topology, parent_of)
    group = base_group(
        dataclasses.replace(workload, top=gang),
        min_member=sum(each.minMember or 0 for each in children),
        subgroups=(*parents, *children),
    )
    labels = {**workload.top.labels, **group.metadata.labels}
    annotations = {**workload.top.annotations, **group.metadata.annotations}
    metadata = msgspec.structs.replace(group.metadata, labels=labels, annotations=annotations)
    spec = msgspec.structs.replace(
        _rederived(workload, content, group.spec, metadata),
        topologyConstraint=_closeness(content, group.spec.topologyConstraint, topology, annotations),
    )
    return Grouping(msgspec.structs.replace(group, metadata=metadata, spec=spec), own)


def _rederived(workload: Workload, gang: Part, spec: PodGroupSpec, metadata: ObjectMeta) -> PodGroupSpec:
    """What follows from labels and annotations, now that those of gang and set are one."""
    labels = metadata.labels
    priority = gang.text("spec", "priorityClassName")
    priority = labels.get(keys.PRIORITY_CLASS_LABEL, spec.priorityClassName if priority is None else priority)
    preemptibility = labels.get(keys.PREEMPTIBILITY_LABEL, spec.preemptibility)
    if preemptibility not in PREEMPTIBILITIES:
        raise GroupingError(
            f'{workload.top}: label {keys.PREEMPTIBILITY_LABEL} is "{preemptibility}"; '
            "it must be preemptible or non-preemptible"
        )
    return msgspec.structs.replace(
        spec,
        priorityClassName=priority,
        preemptibility=cast(Preemptibility, preemptibility),
        preemptionDelay=_delay(metadata.annotations) or spec.preemptionDelay,
    )


def _delay(annotations: dict[str, str]) -> str | None:
    try:
        seconds = parse_duration(annotations.get(keys.PREEMPTION_DELAY_ANNOTATION, ""))
    except ValueError:
        return None
    return format_duration(seconds) if seconds >= 0 else None


def _closeness(
    gang: Part, of_annotations: TopologyConstraint | None, topology: str, annotations: dict[str, str]
) -> TopologyConstraint | None:
    """The gang's own constraint, else its annotations; what is still open is filled by the set's annotations."""
    given = _constraint(gang, topology, "spec") or of_annotations or TopologyConstraint()
    found = TopologyConstraint(
        topology=given.topology or annotations.get(keys.TOPOLOGY_ANNOTATION, ""),
        requiredTopologyLevel=given.requiredTopologyLevel or annotations.get(keys.TOPOLOGY_REQUIRED_ANNOTATION, ""),
        preferredTopologyLevel=given.preferredTopologyLevel or annotations.get(keys.TOPOLOGY_PREFERRED_ANNOTATION, ""),
    )
    return found if found != TopologyConstraint() else None


def _constraint(part: Part, topology: str, *path: str) -> TopologyConstraint | None:
    preferred, required = part.text(*path, *_PACK, "preferred"), part.text(*path, *_PACK, "required")
    if preferred is None and required is None:
        return None
    if not topology:
        raise part.error(
            f"is given, but no annotation {keys.GROVE_TOPOLOGY_ANNOTATION} says in which topology", *path, *_PACK
        )
    return TopologyConstraint(
        topology=topology, requiredTopologyLevel=required or "", preferredTopologyLevel=preferred or ""
    )


def _parents(gang: Part, topology: str) -> tuple[list[SubGroup], dict[str, str]]:
    """Sub-groups of sub-groups that are kept together, and who is in them."""
    parents: list[SubGroup] = []
    parent_of: dict[str, str] = {}
    for config in gang.parts("spec", "topologyConstraintGroupConfigs") or ():
        name = _name(config)
        members = config.texts("podGroupNames")
        if not members:
            continue
        parent_of |= dict.fromkeys(members, name)
        parents.append(SubGroup(name=name, minSubGroup=len(members), topologyConstraint=_constraint(config, topology)))
    return parents, parent_of


def _children(workload: Workload, gang: Part, topology: str, parent_of: dict[str, str]) -> tuple[list[SubGroup], str]:
    """The sub-groups of pods, and the one that lists this pod."""
    children, own = [], ""
    for part in gang.parts("spec", "podgroups") or ():
        name = _name(part)
        minimum = part.count("minReplicas")
        if not minimum:
            raise part.error("must be at least 1", "minReplicas")
        if workload.pod.metadata.name in _pods(workload, part) and not own:
            own = name
        children.append(
            SubGroup(
                name=name,
                minMember=minimum,
                parent=parent_of.get(name),
                topologyConstraint=_constraint(part, topology),
            )
        )
    return children, own


def _name(part: Part) -> str:
    name = part.text("name")
    if name is None:
        raise part.error("is missing", "name")
    return name


def _pods(workload: Workload, part: Part) -> list[str]:
    references = part.parts("podReferences")
    if references is None:
        raise part.error("is missing", "podReferences")
    names = []
    for reference in references:
        namespace, name = reference.text("namespace"), reference.text("name")
        if namespace is None or name is None:
            raise reference.error("must have a namespace and a name")
        if namespace != workload.pod.metadata.namespace:
            raise reference.error(f"is {namespace}; a PodGang has pods of its own namespace only", "namespace")
        names.append(name)
    return names
