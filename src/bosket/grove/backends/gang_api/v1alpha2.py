"""scheduling.k8s.io/v1alpha2: a PodGroup for each pod group, and a Workload with their templates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import msgspec

from bosket.api.core import Pod
from bosket.api.grove import GangPodGroup, PodGang
from bosket.api.object import Condition, KubeObject
from bosket.api.scheduling_k8s.part import PodGroupSchedulingConstraints, TopologyConstraint
from bosket.api.scheduling_k8s.v1alpha2 import (
    PodGroup,
    PodGroupSpec,
    PodGroupTemplate,
    PodGroupTemplateReference,
    Workload,
    WorkloadPodGroupTemplateReference,
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

#: Pods of a group lose their places together.
_TOGETHER = "PodGroup"


class FirstGroupsApi(GangApi):
    """Kubernetes 1.36."""

    kinds = (Workload, PodGroup)
    scheduled_conditions: ClassVar[frozenset[str]] = frozenset({"PodGroupScheduled"})

    def render(self, gang: PodGang, cluster: Surroundings) -> Rendering:
        parts = gang.spec.podgroups
        templates = tuple(_template(gang, cluster, part) for part in parts)
        has_workload = len(templates) <= MOST_TEMPLATES
        groups = (_group(gang, template, has_workload=has_workload) for template in templates)
        objects: tuple[KubeObject, ...] = tuple(groups)
        if has_workload:
            spec = WorkloadSpec(controllerRef=controller_reference_of(cluster.owner), podGroupTemplates=templates)
            metadata = owned_metadata(gang, gang.metadata.name)
            objects = (Workload(metadata=metadata, spec=spec), *objects)
        return Rendering(objects, (*loosened_bonds(gang), *left_out_preferences(gang)))

    def link(self, gang: PodGang, pod: Pod) -> Pod:
        del gang
        return with_group_name(pod)

    def update(self, found: KubeObject, wanted: KubeObject) -> KubeObject | None:
        """Policies can't be changed here at all."""
        if isinstance(found, Workload) and isinstance(wanted, Workload):
            before, after = found.spec.podGroupTemplates, wanted.spec.podGroupTemplates
            same = _rendered_templates(before) == _rendered_templates(after)
        else:
            assert isinstance(found, PodGroup)
            assert isinstance(wanted, PodGroup)
            rendered = _rendered(found.spec, wanted.spec)
            if dropped_level(found, wanted):
                rendered = msgspec.structs.replace(rendered, schedulingConstraints=wanted.spec.schedulingConstraints)
            same = rendered == wanted.spec
        if not same:
            return None
        return msgspec.structs.replace(found, metadata=merged_metadata(found, wanted))

    def conditions(self, owned: Iterable[KubeObject]) -> list[tuple[KubeObject, Condition]]:
        return [(each, said) for each in owned if isinstance(each, PodGroup) for said in each.status.conditions]


def _template(gang: PodGang, cluster: Surroundings, part: GangPodGroup) -> PodGroupTemplate:
    level = narrowest_level(gang, part)
    return PodGroupTemplate(
        name=label_name(part.name),
        schedulingPolicy=policy(part.minReplicas),
        schedulingConstraints=PodGroupSchedulingConstraints(topology=(TopologyConstraint(key=level),))
        if level
        else None,
        disruptionMode=_TOGETHER,
        priorityClassName=priority_class_of(gang, cluster.owner, part),
    )


def _group(gang: PodGang, template: PodGroupTemplate, *, has_workload: bool) -> PodGroup:
    reference = WorkloadPodGroupTemplateReference(workloadName=gang.metadata.name, podGroupTemplateName=template.name)
    spec = PodGroupSpec(
        podGroupTemplateRef=PodGroupTemplateReference(workload=reference) if has_workload else None,
        schedulingPolicy=template.schedulingPolicy,
        schedulingConstraints=template.schedulingConstraints,
        disruptionMode=template.disruptionMode,
        priorityClassName=template.priorityClassName,
    )
    level = template.schedulingConstraints.topology[0].key if template.schedulingConstraints else ""
    return PodGroup(metadata=owned_metadata(gang, template.name, annotations=asked_level(level)), spec=spec)


def _rendered(found: PodGroupSpec, wanted: PodGroupSpec) -> PodGroupSpec:
    """What was found, without what the server filled in where nothing was said."""
    return msgspec.structs.replace(
        found,
        priority=wanted.priority,
        # A server without the feature drops both.
        priorityClassName=(found.priorityClassName or wanted.priorityClassName) if wanted.priorityClassName else "",
        disruptionMode=found.disruptionMode or wanted.disruptionMode,
    )


def _rendered_templates(templates: tuple[PodGroupTemplate, ...]) -> list[object]:
    """Without what a server may drop: nobody reads that from a Workload."""
    return [(each.name, each.schedulingPolicy) for each in templates]
