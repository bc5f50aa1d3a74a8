"""Resource claims that the pods of a set share: which there should be, and which a pod uses.

They are shared at three levels (set, scaling group, clique), each by all replicas or one per replica. A claim is made
from a template of the set, or else from a ResourceClaimTemplate object, and never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from bosket.api.core import Container, ContainerResourceClaim, PodResourceClaim, PodSpec
from bosket.api.grove import (
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    PodCliqueSetSharingSpec,
    ResourceSharingSpec,
    ScalingGroupSharingSpec,
)
from bosket.api.grove.naming import (
    CLIQUE_LABEL,
    GROUP_LABEL,
    GROUP_REPLICA_LABEL,
    POD_INDEX_LABEL,
    SET_REPLICA_LABEL,
    replica_claim_name,
    shared_claim_name,
)
from bosket.api.object import KubeObject, ObjectKey
from bosket.api.resource_k8s import ResourceClaim, ResourceClaimSpec
from bosket.grove.render.child import child_meta, component_labels
from bosket.grove.render.template import (
    group_config_named,
    group_config_of,
    group_replica_of,
    set_replica_of,
    template_of,
)

_Sharing = PodCliqueSetSharingSpec | ScalingGroupSharingSpec | ResourceSharingSpec


@dataclass(frozen=True, slots=True)
class WantedClaim:
    """A claim that should exist: its name, labels, and which template it is made from."""

    name: str
    labels: Mapping[str, str]
    template: ObjectKey

    def made_from(self, spec: ResourceClaimSpec, owner: KubeObject) -> ResourceClaim:
        return ResourceClaim(metadata=child_meta(None, owner, self.name, self.labels), spec=spec)


@dataclass(frozen=True, slots=True)
class Sharing:
    """The claims of one owner: those that should exist, and how others of its are recognized."""

    wanted: tuple[WantedClaim, ...]
    #: Labels that all claims of the owner carry.
    labels: Mapping[str, str]
    #: The label that tells claims of single replicas apart.
    index_label: str
    replicas: int

    def is_stale(self, claim: ResourceClaim) -> bool:
        """Whether a claim of a single replica belongs to one that there isn't any more."""
        labels = claim.metadata.labels
        if any(labels.get(key) != value for key, value in self.labels.items()) or self.index_label not in labels:
            return False
        return labels[self.index_label] not in {str(index) for index in range(self.replicas)}


def set_sharing(owner: PodCliqueSet) -> Sharing:
    """Claims that a set's members share."""
    specs = owner.spec.template.resourceSharing
    return _sharing(owner, owner, specs, own_labels={}, index_label=SET_REPLICA_LABEL, replicas=owner.spec.replicas)


def group_sharing(owner: PodCliqueSet, group: PodCliqueScalingGroup) -> Sharing:
    """Claims that a scaling group's members share."""
    config = group_config_of(owner, group)
    specs = config.resourceSharing if config is not None else ()
    labels = {GROUP_LABEL: group.metadata.name}
    return _sharing(
        owner, group, specs, own_labels=labels, index_label=GROUP_REPLICA_LABEL, replicas=group.spec.replicas
    )


def clique_sharing(owner: PodCliqueSet, clique: PodClique) -> Sharing:
    """Claims that a PodClique's pods share."""
    template = template_of(owner, clique)
    specs = template.resourceSharing if template is not None else ()
    labels = {CLIQUE_LABEL: clique.metadata.name}
    return _sharing(owner, clique, specs, own_labels=labels, index_label=POD_INDEX_LABEL, replicas=clique.spec.replicas)


def _sharing(
    owner: PodCliqueSet,
    sharer: KubeObject,
    specs: Sequence[_Sharing],
    *,
    own_labels: Mapping[str, str],
    index_label: str,
    replicas: int,
) -> Sharing:
    labels = {**component_labels(owner.metadata.name, "resource-claim"), **own_labels}
    name = sharer.metadata.name
    wanted = []
    for spec in specs:
        template = ObjectKey(spec.namespace, spec.name)
        if spec.scope == "AllReplicas":
            wanted.append(WantedClaim(shared_claim_name(name, spec.name), labels, template))
        else:
            wanted += [
                WantedClaim(replica_claim_name(name, index, spec.name), {**labels, index_label: str(index)}, template)
                for index in range(replicas)
            ]
    return Sharing(tuple(wanted), labels, index_label, replicas)


def internal_template(owner: PodCliqueSet, template: ObjectKey) -> ResourceClaimSpec | None:
    """What the set's own template of that name says; None where a ResourceClaimTemplate object is meant."""
    if template.namespace:
        return None
    found = (each for each in owner.spec.template.resourceClaimTemplates if each.name == template.name)
    return next((each.templateSpec.spec for each in found), None)


def pod_claims(owner: PodCliqueSet, clique: PodClique, pod_index: int) -> list[str]:
    """Names of the claims that a pod uses, from the widest shared to its own."""
    template = template_of(owner, clique)
    if template is None:
        return []
    replica = set_replica_of(clique)
    group = clique.metadata.labels.get(GROUP_LABEL, "")
    config = group_config_named(owner, replica, group) if group else None
    names = {template.name, config.name} if config is not None else {template.name}
    found = list(_names(owner.metadata.name, _of_set(owner, names), replica))
    if config is not None:
        found += _names(group, _of_group(config.resourceSharing, template.name), group_replica_of(clique))
    found += _names(clique.metadata.name, template.resourceSharing, pod_index)
    return found


def _of_set(owner: PodCliqueSet, names: set[str]) -> Iterator[PodCliqueSetSharingSpec]:
    for spec in owner.spec.template.resourceSharing:
        only = spec.filter
        if only is None or names & {*only.childCliqueNames, *only.childScalingGroupNames}:
            yield spec


def _of_group(specs: Iterable[ScalingGroupSharingSpec], clique: str) -> Iterator[ScalingGroupSharingSpec]:
    for spec in specs:
        if spec.filter is None or clique in spec.filter.childCliqueNames:
            yield spec


def _names(sharer: str, specs: Iterable[_Sharing], index: int) -> Iterator[str]:
    """Shared by all replicas first, then those of this one."""
    specs = tuple(specs)
    yield from (shared_claim_name(sharer, each.name) for each in specs if each.scope == "AllReplicas")
    yield from (replica_claim_name(sharer, index, each.name) for each in specs if each.scope == "PerReplica")


def with_claims(spec: PodSpec, names: Sequence[str]) -> PodSpec:
    """The pod with these claims, in every container."""
    if not names:
        return spec
    claims = tuple(PodResourceClaim(name=each, resourceClaimName=each) for each in names)

    def claiming(container: Container) -> Container:
        own = (*container.resources.claims, *(ContainerResourceClaim(name=each) for each in names))
        return replace(container, resources=replace(container.resources, claims=own))

    return replace(
        spec,
        resourceClaims=(*spec.resourceClaims, *claims),
        containers=tuple(map(claiming, spec.containers)),
        initContainers=tuple(map(claiming, spec.initContainers)),
    )
