"""PodCliques and scaling groups from a set's template, merged with existing ones.

Replicas come from the template only at creation: what was scaled since stays.
"""

from __future__ import annotations

from msgspec.structs import replace

from bosket.api.grove import (
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueScalingGroupSpec,
    PodCliqueSet,
    PodCliqueSpec,
    PodCliqueTemplateSpec,
)
from bosket.api.grove.naming import (
    BASE_GANG_LABEL,
    CLIQUE_FINALIZER,
    COMPONENT_LABEL,
    GANG_LABEL,
    GROUP_FINALIZER,
    GROUP_LABEL,
    GROUP_REPLICA_LABEL,
    MNNVL_GROUP_ANNOTATION,
    NAME_LABEL,
    SET_REPLICA_LABEL,
    TEMPLATE_HASH_LABEL,
    TOPOLOGY_NAME_ANNOTATION,
    clique_name,
    gang_name,
    managed_labels,
    replica_name,
)
from bosket.api.object import KubeObject, ObjectMeta
from bosket.grove.render.child import child_meta, component_labels
from bosket.grove.render.compute_domain import with_domain_claim
from bosket.grove.render.environment import group_variables, with_variables
from bosket.grove.render.start_order import member_starts_after, starts_after
from bosket.grove.render.template import GroupOf, set_replica_of
from bosket.grove.render.template_hash import template_hash


def standalone_clique(
    owner: PodCliqueSet, replica: int, template: PodCliqueTemplateSpec, existing: PodClique | None
) -> PodClique:
    """A PodClique that is in no scaling group."""
    labels = {
        NAME_LABEL: clique_name(owner.metadata.name, replica, template.name),
        COMPONENT_LABEL: "pcs-podclique",
        SET_REPLICA_LABEL: str(replica),
        GANG_LABEL: replica_name(owner.metadata.name, replica),
    }
    annotations = (template.annotations, owner.metadata.annotations)
    pod_spec = with_domain_claim(template.spec.podSpec, owner.metadata.name, replica, annotations)
    spec = replace(template.spec, startsAfter=starts_after(owner, replica, template), podSpec=pod_spec)
    return _clique(_clique_meta(owner, owner, template, labels, existing), spec, existing)


def member_clique(
    owner: PodCliqueSet,
    group: PodCliqueScalingGroup,
    group_replica: int,
    template: PodCliqueTemplateSpec,
    existing: PodClique | None,
) -> PodClique:
    """A PodClique of a scaling group."""
    replica = set_replica_of(group)
    gang = gang_name(owner.metadata.name, replica, group.metadata.name, group_replica, group.spec.minAvailable)
    base = replica_name(owner.metadata.name, replica)
    labels = {
        NAME_LABEL: clique_name(group.metadata.name, group_replica, template.name),
        COMPONENT_LABEL: "pcsg-podclique",
        SET_REPLICA_LABEL: str(replica),
        GROUP_LABEL: group.metadata.name,
        GROUP_REPLICA_LABEL: str(group_replica),
        GANG_LABEL: gang,
    }
    if gang != base:
        labels[BASE_GANG_LABEL] = base
    pod_spec = with_variables(template.spec.podSpec, group_variables(owner, group))
    annotations = (template.annotations, group.metadata.annotations)
    pod_spec = with_domain_claim(pod_spec, owner.metadata.name, replica, annotations)
    after = member_starts_after(owner, group, group_replica, template)
    spec = replace(template.spec, startsAfter=after, podSpec=pod_spec)
    return _clique(_clique_meta(owner, group, template, labels, existing), spec, existing)


def scaling_group(
    owner: PodCliqueSet, replica: int, group: GroupOf, existing: PodCliqueScalingGroup | None
) -> PodCliqueScalingGroup:
    """A PodCliqueScalingGroup of one replica of a set."""
    config = group.config
    labels = {
        **component_labels(owner.metadata.name, "pcs-podcliquescalinggroup", group.name),
        SET_REPLICA_LABEL: str(replica),
    }
    annotations = dict(config.annotations)
    inherited = owner.metadata.annotations.get(MNNVL_GROUP_ANNOTATION)
    if inherited is not None:
        annotations.setdefault(MNNVL_GROUP_ANNOTATION, inherited)
    meta = child_meta(existing, owner, group.name, labels, annotations, finalizer=GROUP_FINALIZER)
    spec = PodCliqueScalingGroupSpec(
        replicas=config.replicas if existing is None else existing.spec.replicas,
        minAvailable=config.minAvailable,
        cliqueNames=config.cliqueNames,
    )
    if existing is None:
        return PodCliqueScalingGroup(metadata=meta, spec=spec)
    return replace(existing, metadata=meta, spec=spec)


def _clique(meta: ObjectMeta, spec: PodCliqueSpec, existing: PodClique | None) -> PodClique:
    if existing is None:
        return PodClique(metadata=meta, spec=spec)
    return replace(existing, metadata=meta, spec=replace(spec, replicas=existing.spec.replicas))


def _clique_meta(
    owner: PodCliqueSet,
    controller: KubeObject,
    template: PodCliqueTemplateSpec,
    labels: dict[str, str],
    existing: PodClique | None,
) -> ObjectMeta:
    """Metadata with the template's own labels and annotations, which never overrule the operator's."""
    hash_ = {TEMPLATE_HASH_LABEL: template_hash(owner, template)}
    labels = {**template.labels, **managed_labels(owner.metadata.name), **hash_, **labels}
    annotations = {key: value for key, value in template.annotations.items() if key != TOPOLOGY_NAME_ANNOTATION}
    return child_meta(existing, controller, labels[NAME_LABEL], labels, annotations, finalizer=CLIQUE_FINALIZER)
