"""DynamicResources: carries out the scheduler's allocations: ResourceClaims get their devices, and the pod as a user.

Every step reads the actual state first, so it can be repeated, by this process or another. A rollback removes the pod's
part only: a claim that other pods use, or that had devices before, keeps them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from msgspec.structs import replace

from bosket.api.core import Pod
from bosket.api.device_claim import claim_name
from bosket.api.kai import ResourceClaimAllocation
from bosket.api.keys import DEVICE_CLAIM_FINALIZER
from bosket.api.object import ObjectKey
from bosket.api.resource_k8s import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from bosket.kube.client import Client
from bosket.kube.errors import Conflict, NotFound
from bosket.services.binder.extended_claim import ExtendedClaims
from bosket.services.binder.plugin import Attempt, BindPlugin, Refused

#: The maximum number of pods that a claim can be reserved for.
MOST_USERS: Final = 256
#: Retries after conflicts with other writers of a claim.
TRIES: Final = 10

Change = Callable[[ResourceClaim], ResourceClaim]


class DynamicResources(BindPlugin):
    """Reserves the pod's claims and writes their allocations down."""

    name = "dynamicresources"
    priority = 200

    def __init__(self, client: Client) -> None:
        self._client = client
        self._extended = ExtendedClaims(client, self._change)
        #: by request: claims that had devices before this pod became a user
        self._found: dict[ObjectKey, set[str]] = {}

    async def pre_bind(self, attempt: Attempt) -> None:
        spec = attempt.request.spec
        self._found.pop(attempt.request.key, None)
        for given in spec.resourceClaimAllocations:
            await self._reserve(attempt, given)
        if spec.extendedResourceClaimAllocation is not None:
            await self._extended.bind(attempt, spec.extendedResourceClaimAllocation)

    async def post_bind(self, attempt: Attempt) -> None:
        self._found.pop(attempt.request.key, None)

    async def rollback(self, attempt: Attempt) -> None:
        spec = attempt.request.spec
        found = self._found.pop(attempt.request.key, set())
        if spec.extendedResourceClaimAllocation is not None:
            await self._extended.discard(attempt.pod)
        for given in spec.resourceClaimAllocations:
            name = await self._claim_name(attempt.pod, given.name)
            if name is not None:
                await self._release(attempt.pod, name, None if name in found else given.allocation)

    async def _reserve(self, attempt: Attempt, given: ResourceClaimAllocation) -> None:
        pod, allocation = attempt.pod, given.allocation
        if allocation is None:
            raise Refused(f'BindRequest {attempt.request.key}: claim "{given.name}" has no allocation')
        name = await self._claim_name(pod, given.name)
        if name is None:
            raise Refused(f'pod {pod.key}: spec.resourceClaims has no "{given.name}" with a ResourceClaim')

        def reserved(claim: ResourceClaim) -> ResourceClaim:
            status = claim.status
            if claim.metadata.deletionTimestamp is not None:
                raise Refused(f"ResourceClaim {claim.key} is being deleted")
            if status.allocation is not None and not same_devices(status.allocation, allocation):
                raise Refused(f"ResourceClaim {claim.key} has got other devices than were decided on")
            if is_user(claim, pod):
                return claim
            if len(status.reservedFor) >= MOST_USERS:
                raise Refused(f"ResourceClaim {claim.key} has {MOST_USERS} users already")
            if status.allocation is not None:
                self._found.setdefault(attempt.request.key, set()).add(name)
            return with_user(claim, pod, status.allocation or allocation)

        await self._change(ObjectKey(pod.metadata.namespace, name), protected)
        await self._change(ObjectKey(pod.metadata.namespace, name), reserved, subresource="status")

    async def _release(self, pod: Pod, name: str, ours: AllocationResult | None) -> None:
        """`ours`: the allocation that goes with the pod's reservation, if nobody else has one."""

        def released(claim: ResourceClaim) -> ResourceClaim:
            users = tuple(each for each in claim.status.reservedFor if each.uid != pod.metadata.uid)
            allocation = claim.status.allocation
            if not users and allocation is not None and ours is not None and same_devices(allocation, ours):
                allocation = None
            return replace(claim, status=replace(claim.status, reservedFor=users, allocation=allocation))

        key = ObjectKey(pod.metadata.namespace, name)
        try:
            await self._change(key, released, subresource="status")
            await self._change(key, unprotected)
        except NotFound:
            return

    async def _claim_name(self, pod: Pod, name: str) -> str | None:
        found = claim_name(pod, name)
        if found is None:  # our watch may be behind the scheduler's
            try:
                found = claim_name(await self._client.get(Pod, pod.metadata.name, pod.metadata.namespace), name)
            except NotFound:
                return None
        return found

    async def _change(self, key: ObjectKey, change: Change, subresource: str | None = None) -> ResourceClaim:
        """Reads, changes and writes, until nobody else wrote in between."""
        return await retried(lambda: self._change_once(key, change, subresource))

    async def _change_once(self, key: ObjectKey, change: Change, subresource: str | None) -> ResourceClaim:
        claim = await self._client.get(ResourceClaim, key.name, key.namespace)
        return await self._client.modify(claim, change(claim), subresource=subresource)


async def retried(write: Callable[[], Awaitable[ResourceClaim]]) -> ResourceClaim:
    """What `write` gives, once it meets no conflict."""
    for _ in range(TRIES - 1):
        try:
            return await write()
        except Conflict:
            continue
    return await write()


def same_devices(left: AllocationResult, right: AllocationResult) -> bool:
    """Whether two allocations assign the same devices; API servers add fields to what was written."""
    first, second = (
        [(each.request, each.driver, each.pool, each.device, each.shareID) for each in allocation.devices.results]
        for allocation in (left, right)
    )
    return first == second


def is_user(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the claim is reserved for the pod, and has devices."""
    reserved = any(each.uid == pod.metadata.uid for each in claim.status.reservedFor)
    return reserved and claim.status.allocation is not None


def with_user(claim: ResourceClaim, pod: Pod, allocation: AllocationResult) -> ResourceClaim:
    """The claim with these devices, and the pod among its users."""
    user = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
    others = tuple(each for each in claim.status.reservedFor if each.uid != pod.metadata.uid)
    return replace(claim, status=replace(claim.status, allocation=allocation, reservedFor=(*others, user)))


def protected(claim: ResourceClaim) -> ResourceClaim:
    """The claim with the finalizer that prevents deletion while it has devices."""
    finalizers = claim.metadata.finalizers
    if DEVICE_CLAIM_FINALIZER in finalizers or claim.metadata.deletionTimestamp is not None:
        return claim
    return replace(claim, metadata=replace(claim.metadata, finalizers=(*finalizers, DEVICE_CLAIM_FINALIZER)))


def unprotected(claim: ResourceClaim) -> ResourceClaim:
    """The claim without the finalizer, once it has no devices."""
    if claim.status.allocation is not None:
        return claim
    finalizers = tuple(each for each in claim.metadata.finalizers if each != DEVICE_CLAIM_FINALIZER)
    return replace(claim, metadata=replace(claim.metadata, finalizers=finalizers))
