"""CompositePodGroups (v1alpha3): all pod groups of a gang start together, and share a domain where the gang says so.

    CompositePodGroup <gang>                 all of its children, within the gang's level
      CompositePodGroup <group config>       all of its pod groups, within the group's level
        PodGroup <pod group>                 its minimum, within its own level

A gang of one pod group needs none, and one that is too broad for a Workload can't have any: then it is rendered without
one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from bosket.api.grove import PodGang, TopologyConstraintGroupConfig
from bosket.api.object import Condition, KubeObject
from bosket.api.scheduling_k8s.part import TopologyConstraint
from bosket.api.scheduling_k8s.v1alpha3 import CompositePodGroup, CompositePodGroupSpec
from bosket.api.scheduling_k8s.v1beta1 import (
    AllCompositeDisruptionMode,
    CompositeDisruptionMode,
    CompositeGangSchedulingPolicy,
    CompositePodGroupSchedulingConstraints,
    CompositePodGroupSchedulingPolicy,
    CompositePodGroupTemplate,
    PodGroupTemplate,
    WorkloadReference,
    WorkloadSpec,
)
from bosket.grove.backends.backend import Rendering, Surroundings, merged_metadata, owned_metadata
from bosket.grove.backends.composition import label_name, required_level
from bosket.grove.backends.gang_api.adapter import MOST_TEMPLATES, controller_reference_of, left_out_preferences
from bosket.grove.backends.gang_api.groups import GroupsApi, Version, template

_TOGETHER: Final = CompositeDisruptionMode(all=AllCompositeDisruptionMode())


class CompositeGroupsApi(GroupsApi):
    """Kubernetes 1.37 with the gate CompositePodGroup."""

    scheduled_conditions = GroupsApi.scheduled_conditions | {"CompositePodGroupInitiallyScheduled"}

    def __init__(self, version: Version) -> None:
        super().__init__(version)
        self.kinds = (self.workload_kind, CompositePodGroup, self.group_kind)

    def render(self, gang: PodGang, cluster: Surroundings) -> Rendering:
        root = _root(gang, cluster)
        if root is None:
            return super().render(gang, cluster)
        spec = WorkloadSpec(controllerRef=controller_reference_of(cluster.owner), compositePodGroupTemplates=(root,))
        objects = (self.workload(gang, spec), *self._tree(gang, root, parent=None))
        return Rendering(objects, tuple(left_out_preferences(gang)))

    def _tree(self, gang: PodGang, node: CompositePodGroupTemplate, parent: str | None) -> Iterable[KubeObject]:
        yield _composite(gang, node, parent)
        for child in node.compositePodGroupTemplates:
            yield from self._tree(gang, child, node.name)
        for leaf in node.podGroupTemplates:
            yield self.group(gang, leaf, parent=node.name)

    def update(self, found: KubeObject, wanted: KubeObject) -> KubeObject | None:
        if not isinstance(found, CompositePodGroup):
            return super().update(found, wanted)
        assert isinstance(wanted, CompositePodGroup)
        kept = msgspec.structs.replace(
            found.spec,
            schedulingPolicy=wanted.spec.schedulingPolicy,
            priority=wanted.spec.priority,
            preemptionPolicy=wanted.spec.preemptionPolicy,
            priorityClassName=found.spec.priorityClassName if wanted.spec.priorityClassName else "",
        )
        if kept != wanted.spec:
            return None
        spec = msgspec.structs.replace(found.spec, schedulingPolicy=wanted.spec.schedulingPolicy)
        return msgspec.structs.replace(found, metadata=merged_metadata(found, wanted), spec=spec)

    def conditions(self, owned: Iterable[KubeObject]) -> list[tuple[KubeObject, Condition]]:
        objects = list(owned)
        above = [
            (each, said) for each in objects if isinstance(each, CompositePodGroup) for said in each.status.conditions
        ]
        return [*above, *super().conditions(objects)]


def _root(gang: PodGang, cluster: Surroundings) -> CompositePodGroupTemplate | None:
    """The gang as a tree; None where it needs none, or is too broad for one."""
    spec = gang.spec
    leaves = {
        part.name: template(gang, cluster, part, required_level(part.topologyConstraint)) for part in spec.podgroups
    }
    priorities = {each.priorityClassName for each in leaves.values()}
    configs = [each for each in spec.topologyConstraintGroupConfigs if leaves.keys() & set(each.podGroupNames)]
    inside = {name for config in configs for name in config.podGroupNames}
    inner = tuple(_inner(config, leaves, gang) for config in configs)
    outer = tuple(leaf for name, leaf in leaves.items() if name not in inside)
    lists = (inner, outer, *(each.podGroupTemplates for each in inner))
    if len(leaves) < 2 or len(priorities) > 1 or any(len(each) > MOST_TEMPLATES for each in lists):
        return None
    return _node(label_name(gang.metadata.name), required_level(spec.topologyConstraint), outer, inner)


def _inner(
    config: TopologyConstraintGroupConfig, leaves: dict[str, PodGroupTemplate], gang: PodGang
) -> CompositePodGroupTemplate:
    # Configurations are called like other gangs of the set, whose objects must have other names.
    name = label_name(f"{config.name}.{gang.metadata.name}")
    parts = tuple(leaves[each] for each in config.podGroupNames if each in leaves)
    return _node(name, required_level(config.topologyConstraint), parts, ())


def _node(
    name: str, level: str, leaves: tuple[PodGroupTemplate, ...], inner: tuple[CompositePodGroupTemplate, ...]
) -> CompositePodGroupTemplate:
    constraints = CompositePodGroupSchedulingConstraints(topology=(TopologyConstraint(key=level),)) if level else None
    return CompositePodGroupTemplate(
        name=name,
        schedulingPolicy=CompositePodGroupSchedulingPolicy(
            gang=CompositeGangSchedulingPolicy(minGroupCount=len(leaves) + len(inner))
        ),
        schedulingConstraints=constraints,
        disruptionMode=_TOGETHER,
        priorityClassName=leaves[0].priorityClassName if leaves else inner[0].priorityClassName,
        podGroupTemplates=leaves,
        compositePodGroupTemplates=inner,
    )


def _composite(gang: PodGang, made_of: CompositePodGroupTemplate, parent: str | None) -> CompositePodGroup:
    spec = CompositePodGroupSpec(
        parentCompositePodGroupName=parent,
        workloadRef=WorkloadReference(workloadName=gang.metadata.name, templateName=made_of.name),
        schedulingPolicy=made_of.schedulingPolicy,
        schedulingConstraints=made_of.schedulingConstraints,
        disruptionMode=made_of.disruptionMode,
        priorityClassName=made_of.priorityClassName,
    )
    return CompositePodGroup(metadata=owned_metadata(gang, made_of.name), spec=spec)
