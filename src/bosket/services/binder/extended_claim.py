"""ExtendedClaims: the ResourceClaim for a pod's extended resources: created for a bind, deleted on rollback."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from msgspec.structs import replace

from bosket.api.core import Pod, PodExtendedResourceClaimStatus
from bosket.api.kai import ExtendedResourceClaimAllocation
from bosket.api.keys import DEVICE_CLAIM_FINALIZER, EXTENDED_RESOURCE_CLAIM_ANNOTATION
from bosket.api.object import ObjectKey, ObjectMeta, OwnerReference
from bosket.api.resource_k8s import (
    DeviceClaim,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
    ResourceClaimStatus,
)
from bosket.kube.client import Client
from bosket.kube.errors import Conflict, NotFound
from bosket.services.binder.plugin import Attempt, Refused

#: Retries after conflicts with other writers of a pod.
TRIES = 10


class ChangeClaim(Protocol):
    """Reads a claim, changes it and writes it, again where somebody else wrote in between."""

    async def __call__(self, key: ObjectKey, change: ChangeOne, subresource: str | None = None) -> ResourceClaim: ...


class ChangeOne(Protocol):
    """What a claim is to be."""

    def __call__(self, claim: ResourceClaim, /) -> ResourceClaim: ...


class _Told(NamedTuple):
    """A pod that was written, and the version that it had before."""

    before: str
    pod: Pod


class ExtendedClaims:
    """Claims found by their owner, so that an interrupted attempt doesn't create a second claim."""

    def __init__(self, client: Client, change: ChangeClaim) -> None:
        self._client, self._change = client, change

    async def bind(self, attempt: Attempt, given: ExtendedResourceClaimAllocation) -> None:
        """Creates the claim with its devices, and writes its name into the pod's status."""
        pod = attempt.pod
        if given.allocation is None:
            raise Refused(f"BindRequest {attempt.request.key}: spec.extendedResourceClaimAllocation has no allocation")
        claim: ResourceClaim | None = None
        for each in await self._claims_of(pod):
            if claim is None and _serves(each, given):
                claim = each
            else:
                await self._delete(each)  # of an earlier decision
        if claim is None:
            claim = await self._client.create(_claim_for(pod, given))
        user = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
        status = ResourceClaimStatus(allocation=given.allocation, reservedFor=(user,))
        await self._change(claim.key, lambda found: replace(found, status=status), subresource="status")
        named = PodExtendedResourceClaimStatus(
            resourceClaimName=claim.metadata.name, requestMappings=given.containerMappings
        )
        written_pod = await self._tell(pod, named)
        if written_pod is not None:
            # Earlier plugins prepared the version before this write, which differs in this one field only.
            if attempt.pod_version and attempt.pod_version == written_pod.before:
                attempt.pod_version = written_pod.pod.metadata.resourceVersion
            attempt.pod = written_pod.pod

    async def discard(self, pod: Pod) -> None:
        """Rolls back `bind`."""
        await self._tell(pod, None)
        for each in await self._claims_of(pod):
            await self._delete(each)

    async def _claims_of(self, pod: Pod) -> list[ResourceClaim]:
        claims = (await self._client.list(ResourceClaim, pod.metadata.namespace)).items
        return sorted((each for each in claims if _is_for(each, pod)), key=lambda each: each.metadata.name)

    async def _delete(self, claim: ResourceClaim) -> None:
        try:
            await self._change(claim.key, lambda found: replace(found, status=ResourceClaimStatus()), "status")
            await self._change(claim.key, lambda found: replace(found, metadata=replace(found.metadata, finalizers=())))
            await self._client.delete(
                ResourceClaim, claim.metadata.name, claim.metadata.namespace, uid=claim.metadata.uid
            )
        except NotFound:
            return

    async def _tell(self, pod: Pod, status: PodExtendedResourceClaimStatus | None) -> _Told | None:
        """The pod as it is then; None when it is gone."""
        for number in range(TRIES):
            try:
                current = await self._client.get(Pod, pod.metadata.name, pod.metadata.namespace)
                if current.metadata.uid != pod.metadata.uid:
                    return None
                wanted = replace(current, status=replace(current.status, extendedResourceClaimStatus=status))
                written = await self._client.modify(current, wanted, subresource="status")
            except NotFound:
                return None
            except Conflict:
                if number == TRIES - 1:
                    raise
            else:
                return _Told(current.metadata.resourceVersion, written)
        return None


def _is_for(claim: ResourceClaim, pod: Pod) -> bool:
    is_extended = claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) == "true"
    return is_extended and any(
        owner.controller and owner.uid == pod.metadata.uid for owner in claim.metadata.ownerReferences
    )


def _serves(claim: ResourceClaim, given: ExtendedResourceClaimAllocation) -> bool:
    if claim.metadata.deletionTimestamp is not None or claim.spec.devices.requests != given.deviceRequests:
        return False
    allocation = claim.status.allocation
    return allocation is None or (
        given.allocation is not None and allocation.devices.results == given.allocation.devices.results
    )


def _claim_for(pod: Pod, given: ExtendedResourceClaimAllocation) -> ResourceClaim:
    owner = OwnerReference(
        apiVersion="v1",
        kind="Pod",
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        controller=True,
        blockOwnerDeletion=True,
    )
    return ResourceClaim(
        metadata=ObjectMeta(
            generateName=f"{pod.metadata.name}-extended-resources-",
            namespace=pod.metadata.namespace,
            finalizers=(DEVICE_CLAIM_FINALIZER,),
            annotations={EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"},
            ownerReferences=(owner,),
        ),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=given.deviceRequests)),
    )
