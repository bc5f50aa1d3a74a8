"""Keeps the resource claims that pods share, for all three controllers."""

from __future__ import annotations

from bosket.api.grove import PodCliqueSet
from bosket.api.object import KubeObject, ObjectKey
from bosket.api.resource_k8s import ResourceClaimSpec, ResourceClaimTemplate
from bosket.grove.operator.cluster import Cluster
from bosket.grove.operator.problem import OperatorError
from bosket.grove.render.claim import Sharing, internal_template
from bosket.kube.errors import AlreadyExists, NotFound


async def keep_claims(cluster: Cluster, owner: PodCliqueSet, sharer: KubeObject, sharing: Sharing) -> None:
    """Creates missing claims, and deletes those of replicas that no longer exist."""
    if not sharing.wanted:
        return
    namespace = owner.metadata.namespace
    for wanted in sharing.wanted:
        if cluster.claims.store.get(ObjectKey(namespace, wanted.name)) is None:
            spec = await _template(cluster, owner, wanted.template)
            try:
                await cluster.create(wanted.made_from(spec, sharer))
            except AlreadyExists:
                continue
    for claim in cluster.part_of(cluster.claims, owner):
        if sharing.is_stale(claim):
            await cluster.delete(claim)


async def _template(cluster: Cluster, owner: PodCliqueSet, key: ObjectKey) -> ResourceClaimSpec:
    spec = internal_template(owner, key)
    if spec is not None:
        return spec
    namespace = key.namespace or owner.metadata.namespace
    try:
        found = await cluster.client.get(ResourceClaimTemplate, key.name, namespace)
    except NotFound:
        raise OperatorError(
            "ERR_SYNC_RESOURCE_CLAIM",
            f"{owner.key} shares claims of ResourceClaimTemplate {namespace}/{key.name}, which doesn't exist",
        ) from None
    return found.spec.spec
