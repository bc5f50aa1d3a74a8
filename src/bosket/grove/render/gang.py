"""Plans of PodGangs: which gangs a set should have, their parts, and whether all their pods exist.

The base gang of a replica has everything that must run together: cliques in no group, and of each scaling group as many
replicas as its minimum. Each further replica is a gang of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from bosket.api.core import Pod
from bosket.api.grove import (
    GangPodGroup,
    GangTopologyConstraint,
    NamespacedName,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    PodCliqueTemplateSpec,
    PodGang,
    PodGangSpec,
    TopologyConstraintGroupConfig,
)
from bosket.api.grove.naming import (
    GANG_LABEL,
    PREFIX,
    SCHEDULER_BACKEND_LABEL,
    SCHEDULER_NAME_LABEL,
    TOPOLOGY_NAME_ANNOTATION,
    clique_name,
    gang_name,
    replica_name,
)
from bosket.grove.render.child import child_meta, component_labels
from bosket.grove.render.template import GroupOf, groups_of, min_available, standalone_templates, template_named
from bosket.grove.render.topology_levels import Levels, topology_name, translate


@dataclass(frozen=True, slots=True)
class GangPart:
    """A PodClique's part in a gang."""

    clique: str
    minimum: int
    constraint: GangTopologyConstraint | None


@dataclass(frozen=True, slots=True)
class GangPlan:
    """The parts of a gang, apart from its existing pods."""

    name: str
    parts: tuple[GangPart, ...]
    constraint: GangTopologyConstraint | None = None
    group_constraints: tuple[TopologyConstraintGroupConfig, ...] = ()

    @property
    def is_constrained(self) -> bool:
        return (
            self.constraint is not None
            or any(each.topologyConstraint is not None for each in self.group_constraints)
            or any(part.constraint is not None for part in self.parts)
        )


def plan_gangs(owner: PodCliqueSet, groups: Mapping[str, PodCliqueScalingGroup], levels: Levels) -> list[GangPlan]:
    """The gangs that a set should have: base gangs, then scaled ones. `groups` are the scaling groups that exist."""
    replicas = range(owner.spec.replicas)
    plans = [_base_gang(owner, replica, levels) for replica in replicas]
    for replica in replicas:
        plans += _scaled_gangs(owner, replica, groups, levels)
    return plans


def _base_gang(owner: PodCliqueSet, replica: int, levels: Levels) -> GangPlan:
    parts = [
        _part(clique_name(owner.metadata.name, replica, each.name), each, levels)
        for each in standalone_templates(owner)
    ]
    group_constraints = []
    for group in groups_of(owner, replica):
        for index in range(group.config.minAvailable):
            members = _members(owner, group.name, index, group.config.cliqueNames, levels)
            parts += members
            if group.config.topologyConstraint is not None and levels is not None:
                group_constraints.append(
                    TopologyConstraintGroupConfig(
                        name=replica_name(group.name, index),
                        podGroupNames=tuple(each.clique for each in members),
                        topologyConstraint=translate(group.config.topologyConstraint, levels),
                    )
                )
    return GangPlan(
        name=replica_name(owner.metadata.name, replica),
        parts=tuple(parts),
        constraint=translate(owner.spec.template.topologyConstraint, levels),
        group_constraints=tuple(group_constraints),
    )


def plan_named(
    owner: PodCliqueSet, name: str, group_named: Callable[[str], PodCliqueScalingGroup | None], levels: Levels
) -> GangPlan | None:
    """The plan of one gang, made without those of others; None if the set should have no such gang."""
    index = name.removeprefix(f"{owner.metadata.name}-").partition("-")[0]
    if not index.isdecimal() or int(index) >= owner.spec.replicas:
        return None
    replica = int(index)
    if name == replica_name(owner.metadata.name, replica):
        return _base_gang(owner, replica, levels)
    for group in groups_of(owner, replica):
        scaled = name.removeprefix(f"{group.name}-")
        if scaled == name or not scaled.isdecimal():
            continue
        member = int(scaled) + group.config.minAvailable
        if member < _group_size(group, group_named(group.name)):
            return _scaled_gang(owner, replica, group, member, levels)
    return None


def _scaled_gangs(
    owner: PodCliqueSet,
    replica: int,
    groups: Mapping[str, PodCliqueScalingGroup],
    levels: Levels,
) -> Iterable[GangPlan]:
    for group in groups_of(owner, replica):
        for index in range(group.config.minAvailable, _group_size(group, groups.get(group.name))):
            yield _scaled_gang(owner, replica, group, index, levels)


def _group_size(group: GroupOf, found: PodCliqueScalingGroup | None) -> int:
    return found.spec.replicas if found is not None else group.config.replicas


def _scaled_gang(owner: PodCliqueSet, replica: int, group: GroupOf, index: int, levels: Levels) -> GangPlan:
    constraint = group.config.topologyConstraint or owner.spec.template.topologyConstraint
    return GangPlan(
        name=gang_name(owner.metadata.name, replica, group.name, index, group.config.minAvailable),
        parts=tuple(_members(owner, group.name, index, group.config.cliqueNames, levels)),
        constraint=translate(constraint, levels),
    )


def _members(owner: PodCliqueSet, group: str, replica: int, cliques: Iterable[str], levels: Levels) -> list[GangPart]:
    found = ((each, template_named(owner, each)) for each in cliques)
    return [_part(clique_name(group, replica, name), each, levels) for name, each in found if each is not None]


def _part(name: str, template: PodCliqueTemplateSpec, levels: Levels) -> GangPart:
    return GangPart(name, min_available(template), translate(template.topologyConstraint, levels))


def pod_gang(
    owner: PodCliqueSet,
    plan: GangPlan,
    pods: Mapping[str, Sequence[Pod]],
    existing: PodGang | None,
    *,
    scheduler_name: str,
    backend: str,
) -> PodGang:
    """The PodGang with references to existing pods; `pods`: by PodClique, without terminating ones."""
    labels = {
        **_mirrored(existing.metadata.labels if existing else {}, owner.metadata.labels),
        **component_labels(owner.metadata.name, "podgang"),
        SCHEDULER_NAME_LABEL: scheduler_name,
        SCHEDULER_BACKEND_LABEL: backend,
    }
    annotations = _mirrored(existing.metadata.annotations if existing else {}, owner.metadata.annotations)
    annotations.pop(TOPOLOGY_NAME_ANNOTATION, None)
    if plan.is_constrained:
        annotations[TOPOLOGY_NAME_ANNOTATION] = topology_name(owner)
    spec = PodGangSpec(
        podgroups=tuple(_pod_group(owner, plan, part, pods.get(part.clique, ())) for part in plan.parts),
        topologyConstraint=plan.constraint,
        topologyConstraintGroupConfigs=plan.group_constraints,
        priorityClassName=owner.spec.template.priorityClassName,
        reuseReservationRef=_former_gang(owner, plan, existing),
    )
    meta = child_meta(existing, owner, plan.name, labels, annotations)
    if existing is None:
        return PodGang(metadata=meta, spec=spec)
    return replace(existing, metadata=meta, spec=spec)


def _former_gang(owner: PodCliqueSet, plan: GangPlan, existing: PodGang | None) -> NamespacedName | None:
    """Value of `reuseReservationRef`: the gang itself during a rolling update, otherwise the value another client
    set."""
    itself = NamespacedName(namespace=owner.metadata.namespace, name=plan.name)
    progress = owner.status.updateProgress
    if existing is not None and progress is not None and progress.updateEndedAt is None:
        return itself
    said = existing.spec.reuseReservationRef if existing is not None else None
    return said if said != itself else None


def _pod_group(owner: PodCliqueSet, plan: GangPlan, part: GangPart, pods: Sequence[Pod]) -> GangPodGroup:
    names = sorted(each.metadata.name for each in pods if each.metadata.labels.get(GANG_LABEL) == plan.name)
    return GangPodGroup(
        name=part.clique,
        podReferences=tuple(NamespacedName(namespace=owner.metadata.namespace, name=each) for each in names),
        minReplicas=part.minimum,
        topologyConstraint=part.constraint,
    )


def _mirrored(existing: Mapping[str, str], owner: Mapping[str, str]) -> dict[str, str]:
    """What a gang takes over from its set, beside the operator's own keys that it has already."""
    kept = {key: value for key, value in existing.items() if key.startswith(PREFIX)}
    return {**kept, **{key: value for key, value in owner.items() if not key.startswith(PREFIX)}}


def is_complete(plan: GangPlan, cliques: Mapping[str, PodClique], pods: Mapping[str, Sequence[Pod]]) -> bool:
    """Whether every pod of the gang exists and has the gang's label."""
    for part in plan.parts:
        clique = cliques.get(part.clique)
        if clique is None:
            return False
        there = pods.get(part.clique, ())
        if len(there) < clique.spec.replicas:
            return False
        if any(each.metadata.labels.get(GANG_LABEL) != plan.name for each in there):
            return False
    return True


def differ_in_references_alone(gang: PodGang, other: PodGang) -> bool:
    """Whether two versions of a gang differ in their pod references only."""
    return gang.spec != other.spec and gang.metadata == other.metadata and _bare(gang.spec) == _bare(other.spec)


def _bare(spec: PodGangSpec) -> PodGangSpec:
    return replace(spec, podgroups=tuple(replace(each, podReferences=()) for each in spec.podgroups))
