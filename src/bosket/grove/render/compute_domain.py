"""NVIDIA's ComputeDomains: one per replica of a set for each group of cliques that share a NVLink domain.

A clique says by annotation which group its GPU pods are in; else its scaling group says it, else the set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from bosket.api import quantity
from bosket.api.core import Container, ContainerResourceClaim, PodResourceClaim, PodSpec
from bosket.api.grove import PodCliqueSet
from bosket.api.grove.naming import MNNVL_GROUP_ANNOTATION, SET_REPLICA_LABEL
from bosket.api.keys import NVIDIA_GPU
from bosket.api.ownership import controller_reference
from bosket.api.resource import Resource
from bosket.grove.render.child import component_labels
from bosket.grove.render.template import group_with

COMPUTE_DOMAIN: Final[Resource[dict[str, Any]]] = Resource(
    "resource.nvidia.com", "v1beta1", "ComputeDomain", "computedomains", dict
)
FINALIZER: Final = "grove.io/computedomain-finalizer"
COMPONENT: Final = "pcs-computedomain"
_OPTED_OUT: Final = "none"
_CLAIM: Final = "mnnvl-claim"


def domain_name(set_name: str, replica: int, group: str) -> str:
    """Name of a group's ComputeDomain, and of the template of claims on it."""
    return f"{set_name}-{replica}-{group}"


def domain_group(annotations: Sequence[Mapping[str, str]]) -> str:
    """The group that the first of these maps names; empty if none does, or if it opts out."""
    for each in annotations:
        if MNNVL_GROUP_ANNOTATION in each:
            group = each[MNNVL_GROUP_ANNOTATION]
            return "" if group == _OPTED_OUT else group
    return ""


def uses_gpus(container: Container) -> bool:
    """Whether a container asks for GPUs."""
    amounts = (container.resources.limits.get(NVIDIA_GPU), container.resources.requests.get(NVIDIA_GPU))
    return any(quantity.parse(each) for each in amounts if each is not None)


def with_domain_claim(spec: PodSpec, set_name: str, replica: int, annotations: Sequence[Mapping[str, str]]) -> PodSpec:
    """The pod with a claim on its group's domain, in the containers that use GPUs; as it is where there are none."""
    group = domain_group(annotations)
    if not group or not any(uses_gpus(each) for each in (*spec.containers, *spec.initContainers)):
        return spec
    claim = PodResourceClaim(name=_CLAIM, resourceClaimTemplateName=domain_name(set_name, replica, group))
    return replace(
        spec,
        resourceClaims=(*spec.resourceClaims, claim),
        containers=tuple(map(_claiming, spec.containers)),
        initContainers=tuple(map(_claiming, spec.initContainers)),
    )


def wanted_domains(owner: PodCliqueSet) -> dict[str, dict[str, Any]]:
    """All ComputeDomains that a set should have, by name."""
    groups = sorted(set(_groups(owner)))
    return {
        domain_name(owner.metadata.name, replica, group): _domain(owner, replica, group)
        for replica in range(owner.spec.replicas)
        for group in groups
    }


def _groups(owner: PodCliqueSet) -> Iterator[str]:
    for template in owner.spec.template.cliques:
        spec = template.spec.podSpec
        if not any(uses_gpus(each) for each in (*spec.containers, *spec.initContainers)):
            continue
        config = group_with(owner, template.name)
        levels = (template.annotations, config.annotations if config is not None else {}, owner.metadata.annotations)
        group = domain_group(levels)
        if group:
            yield group


def _domain(owner: PodCliqueSet, replica: int, group: str) -> dict[str, Any]:
    name = domain_name(owner.metadata.name, replica, group)
    reference = controller_reference(owner)
    return {
        "apiVersion": COMPUTE_DOMAIN.api_version,
        "kind": COMPUTE_DOMAIN.kind,
        "metadata": {
            "name": name,
            "namespace": owner.metadata.namespace,
            "labels": {
                **component_labels(owner.metadata.name, COMPONENT, name),
                SET_REPLICA_LABEL: str(replica),
                MNNVL_GROUP_ANNOTATION: group,
            },
            "finalizers": [FINALIZER],
            "ownerReferences": [
                {
                    "apiVersion": reference.apiVersion,
                    "kind": reference.kind,
                    "name": reference.name,
                    "uid": reference.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": name}}},
    }


def _claiming(container: Container) -> Container:
    if not uses_gpus(container):
        return container
    claims = (*container.resources.claims, ContainerResourceClaim(name=_CLAIM))
    return replace(container, resources=replace(container.resources, claims=claims))
