"""scheduling.k8s.io/v1beta1 and v1alpha3, its twin: a PodGroup for each pod group, and a Workload with templates.

The scheduler reads the PodGroups; what can't be a Workload (more than eight templates, or templates of different
priority) has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final, Literal

import msgspec

from bosket.api.core import Pod
from bosket.api.grove import GangPodGroup, PodGang
from bosket.api.object import Condition, KubeObject
from bosket.api.scheduling_k8s import v1alpha3, v1beta1
from bosket.api.scheduling_k8s.part import PodGroupSchedulingConstraints, TopologyConstraint
from bosket.api.scheduling_k8s.v1beta1 import (
    AllDisruptionMode,
    DisruptionMode,
    PodGroup,
    PodGroupSpec,
    PodGroupTemplate,
    Workload,
    WorkloadReference,
    WorkloadSpec,
)
from bosket.grove.backends.backend import Rendering, Surroundings, merged_metadata, owned_metadata
from bosket.grove.backends.composition import label_name, priority_class_of
from bosket.grove.backends.gang_api.adapter import (
    MOST_TEMPLATES,
    GangApi,
    asked_level,
    controller_reference_of,
    dropped_level,
    left_out_preferences,
    loosened_bonds,
    narrowest_level,
    policy,
    with_group_name,
)

Version = Literal["v1beta1", "v1alpha3"]

#: Pods of a group lose their places together.
TOGETHER: Final = DisruptionMode(all=AllDisruptionMode())


class GroupsApi(GangApi):
    """Kubernetes 1.37, without groups of groups."""

    scheduled_conditions: ClassVar[frozenset[str]] = frozenset({"PodGroupInitiallyScheduled"})

    def __init__(self, version: Version) -> None:
        kinds = v1beta1 if version == "v1beta1" else v1alpha3
        self.workload_kind: type[Workload] = kinds.Workload
        self.group_kind: type[PodGroup] = kinds.PodGroup
        self.kinds = (self.workload_kind, self.group_kind)

    def render(self, gang: PodGang, cluster: Surroundings) -> Rendering:
        templates = tuple(template(gang, cluster, part, narrowest_level(gang, part)) for part in gang.spec.podgroups)
        if not have_workload(templates):
            return Rendering(tuple(self.group(gang, each, workload=False) for each in templates), _left_out(gang))
        spec = WorkloadSpec(controllerRef=controller_reference_of(cluster.owner), podGroupTemplates=templates)
        objects = (self.workload(gang, spec), *(self.group(gang, each) for each in templates))
        return Rendering(objects, _left_out(gang))

    def link(self, gang: PodGang, pod: Pod) -> Pod:
        del gang
        return with_group_name(pod)

    def update(self, found: KubeObject, wanted: KubeObject) -> KubeObject | None:
        """Minimums can be changed; anything else can't."""
        if isinstance(found, Workload) and isinstance(wanted, Workload):
            return self._updated_workload(found, wanted)
        assert isinstance(found, PodGroup)
        assert isinstance(wanted, PodGroup)
        kept = msgspec.structs.replace(found.spec, schedulingPolicy=wanted.spec.schedulingPolicy)
        rendered = _rendered(kept, wanted.spec)
        if dropped_level(found, wanted):
            rendered = msgspec.structs.replace(rendered, schedulingConstraints=wanted.spec.schedulingConstraints)
        if rendered != wanted.spec or not same_sort(found.spec, wanted.spec):
            return None
        return msgspec.structs.replace(found, metadata=merged_metadata(found, wanted), spec=kept)

    def _updated_workload(self, found: Workload, wanted: Workload) -> Workload | None:
        """It only holds templates, and is made anew rather than patched."""
        same = _shapes(found.spec.podGroupTemplates) == _shapes(wanted.spec.podGroupTemplates)
        return msgspec.structs.replace(found, metadata=merged_metadata(found, wanted)) if same else None

    def conditions(self, owned: Iterable[KubeObject]) -> list[tuple[KubeObject, Condition]]:
        return [(each, said) for each in owned if isinstance(each, PodGroup) for said in each.status.conditions]

    # --- objects

    def workload(self, gang: PodGang, spec: WorkloadSpec) -> Workload:
        return self.workload_kind(metadata=owned_metadata(gang, gang.metadata.name), spec=spec)

    def group(
        self, gang: PodGang, made_of: PodGroupTemplate, *, workload: bool = True, parent: str | None = None
    ) -> PodGroup:
        reference = WorkloadReference(workloadName=gang.metadata.name, templateName=made_of.name)
        spec = PodGroupSpec(
            parentCompositePodGroupName=parent,
            workloadRef=reference if workload else None,
            schedulingPolicy=made_of.schedulingPolicy,
            schedulingConstraints=made_of.schedulingConstraints,
            disruptionMode=made_of.disruptionMode,
            priorityClassName=made_of.priorityClassName,
        )
        level = made_of.schedulingConstraints.topology[0].key if made_of.schedulingConstraints else ""
        metadata = owned_metadata(gang, made_of.name, annotations=asked_level(level))
        return self.group_kind(metadata=metadata, spec=spec)


def template(gang: PodGang, cluster: Surroundings, part: GangPodGroup, level: str) -> PodGroupTemplate:
    """What the PodGroup of a pod group looks like, whose pods share a domain of `level`, if that isn't empty."""
    return PodGroupTemplate(
        name=label_name(part.name),
        schedulingPolicy=policy(part.minReplicas),
        schedulingConstraints=PodGroupSchedulingConstraints(topology=(TopologyConstraint(key=level),))
        if level
        else None,
        disruptionMode=TOGETHER,
        priorityClassName=priority_class_of(gang, cluster.owner, part),
    )


def have_workload(templates: tuple[PodGroupTemplate, ...]) -> bool:
    """Whether one Workload may hold all of these."""
    return len(templates) <= MOST_TEMPLATES and len({each.priorityClassName for each in templates}) == 1


def same_sort(found: PodGroupSpec, wanted: PodGroupSpec) -> bool:
    """Whether both are gangs, or neither: that can't be changed."""
    return (found.schedulingPolicy.gang is None) == (wanted.schedulingPolicy.gang is None)


def _rendered(found: PodGroupSpec, wanted: PodGroupSpec) -> PodGroupSpec:
    """What was found, without what the server filled in where nothing was said."""
    return msgspec.structs.replace(
        found,
        priority=wanted.priority,
        preemptionPolicy=wanted.preemptionPolicy,
        priorityClassName=found.priorityClassName if wanted.priorityClassName else "",
    )


def _shapes(templates: tuple[PodGroupTemplate, ...]) -> list[object]:
    """Without what a server may drop: nobody reads that from a Workload."""
    return [(each.name, each.schedulingPolicy) for each in templates]


def _left_out(gang: PodGang) -> tuple[str, ...]:
    return (*loosened_bonds(gang), *left_out_preferences(gang))
