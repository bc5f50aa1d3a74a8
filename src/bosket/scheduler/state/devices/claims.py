"""DeviceClaims: ResourceClaims and DeviceClasses, and what a pod's claims mean for where it can go.

The live state reports objects and asks for the devices of each pod with claims, or with an extended resource that a
device class provides. A change returns the pods that must be read again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from itertools import count
from weakref import WeakValueDictionary

import msgspec

from bosket.api.core import Pod, PodSpec
from bosket.api.device_claim import claimed_gpus, is_gpu
from bosket.api.kai import BindRequest
from bosket.api.object import ObjectKey
from bosket.api.resource_k8s import AllocationResult, DeviceClass, ResourceClaim
from bosket.scheduler.model.device import (
    ClaimNeed,
    ClaimRef,
    DeviceId,
    DeviceNeeds,
    ExtendedNeed,
    PodDevices,
    devices_of,
)
from bosket.scheduler.model.inventory import NO_INVENTORY, Inventory, Pools
from bosket.scheduler.model.resource import ResourceAxis
from bosket.scheduler.model.shared import Shared
from bosket.scheduler.model.task import Task
from bosket.scheduler.state.devices.extended_resource import extended_needs, requests_any

#: What was given to a pod, by claim, and for its extended resources.
Promises = tuple[dict[ObjectKey, AllocationResult], AllocationResult | None]
NO_PROMISES: Promises = ({}, None)


class DeviceClaims:
    """Everything known about devices, and which pods use which claims."""

    def __init__(self, axis: ResourceAxis, dirty: set[ObjectKey], report: Callable[[str], None]) -> None:
        """`dirty` collects pods to be read again because another user of their claim came or went."""
        self._axis, self._dirty = axis, dirty
        self.pools = Pools(report)
        self.claims: Shared[ObjectKey, ResourceClaim] = Shared()
        self.classes: Shared[str, DeviceClass] = Shared()
        self._claimants: Shared[ObjectKey, Task] = Shared()
        self.by_resource: dict[str, str] = {}  #: extended resource → device class
        self._users: dict[ObjectKey, dict[ObjectKey, None]] = {}  # claim → pods
        self._keys_of: dict[ObjectKey, tuple[ObjectKey, ...]] = {}  # pod → claims
        self._promised: dict[ObjectKey, Promises] = {}  # by pod
        self._needs: WeakValueDictionary[Hashable, DeviceNeeds] = WeakValueDictionary()
        self._numbers = count()
        self._frozen: Inventory | None = NO_INVENTORY

    # Objects in; each returns the pods that it may matter to

    def put_claim(self, claim: ResourceClaim) -> Collection[ObjectKey]:
        self.claims.put(claim.key, claim)
        self._frozen = None
        return self._users.get(claim.key, ())

    def drop_claim(self, key: ObjectKey) -> Collection[ObjectKey]:
        self.claims.drop(key)
        self._frozen = None
        return self._users.get(key, ())

    def put_class(self, device_class: DeviceClass) -> bool:
        """True when another class may stand in for an extended resource now: any pod may ask for it."""
        self.classes.put(device_class.metadata.name, device_class)
        return self._classes_changed()

    def drop_class(self, name: str) -> bool:
        self.classes.drop(name)
        return self._classes_changed()

    def follow(self, key: ObjectKey, task: Task | None) -> None:
        """Counts a task that came, changed or went."""
        if task is not None and task.devices is not None:
            self._claimants.put(key, task)
            self._frozen = None
        elif key in self._claimants:
            self._claimants.drop(key)
            self.forget_pod(key)
            self._frozen = None

    def forget_pod(self, key: ObjectKey) -> None:
        """The pod is gone or can't be read: it uses no claims."""
        self._promised.pop(key, None)
        self._forget_users(key)

    # What goes out

    def is_unchanged(self) -> bool:
        return self._frozen is not None and self.pools.is_unchanged

    def renew(self) -> set[str]:
        """Rebuilds pools with changed slices; returns the nodes whose devices may have changed."""
        if self.pools.is_unchanged:
            return set()
        self._frozen = None
        return self.pools.renew()

    def freeze(self) -> Inventory:
        if self._frozen is None:
            pools, local = self.pools.freeze()
            claims, classes, claimants = self.claims.freeze(), self.classes.freeze(), self._claimants.freeze()
            self._frozen = Inventory(pools, local, classes, claims, claimants)
        return self._frozen

    # What pods ask

    def concern(self, spec: PodSpec) -> bool:
        """Whether the pod has claims or requests that devices may serve."""
        return bool(spec.resourceClaims) or (bool(self.by_resource) and requests_any(spec, self.by_resource))

    def of(self, key: ObjectKey, pod: Pod, request: BindRequest | None) -> tuple[PodDevices, DeviceNeeds]:
        """The pod's claims as they stand, and what pods like it need; from now on changes of these name the pod.

        `request`: the bind request that is under way for it.
        """
        refs, problem = self._refs(pod)
        own = _extended_claim_of(pod)
        every_ref = refs if own is None else (*refs, ClaimRef("", own, own=True))
        self._follow_claims(key, every_ref)
        promised, extended_allocation = self._promises(key, pod, request, refs)
        known = [(ref, self.claims.get(ref.key, None)) for ref in refs]
        placed = bool(pod.spec.nodeName) or request is not None
        needs = []
        gpus = 0
        devices: set[DeviceId] = set()
        for ref, claim in known:
            if claim is None:
                continue
            allocation = claim.status.allocation or promised.get(ref.key)
            # A claim that no other pod names equals one that was made for this pod: its identity makes no
            # difference to where the pod can go, and pods that differ in nothing else are of one class.
            is_its_own = (ref.own or self._is_alone_with(pod, claim)) and (placed or allocation is None)
            needs.append(ClaimNeed(ref.name, None if is_its_own else ref.key, claim.spec))
            claimed = claimed_gpus(claim)
            if claimed:
                gpus += claimed
                devices.update(each for each in devices_of(allocation) if is_gpu(each.driver))
        extended: tuple[ExtendedNeed, ...] = ()
        if requests_any(pod.spec, self.by_resource):
            extended = extended_needs(pod.spec, self.by_resource, self._axis)
        held = PodDevices(
            every_ref,
            problem,
            tuple(sorted(promised.items(), key=lambda each: each[0])) if promised else (),
            extended_allocation,
            gpus,
            tuple(sorted(devices)[:gpus]) if devices else (),
        )
        return held, self._intern(tuple(needs), extended, gpus)

    def _is_alone_with(self, pod: Pod, claim: ResourceClaim) -> bool:
        """Whether nobody else uses the claim, pods among them that aren't known here."""
        if len(self._users[claim.key]) > 1:
            return False
        reserved = claim.status.reservedFor
        return not reserved or all(each.uid == pod.metadata.uid for each in reserved)

    def _promises(self, key: ObjectKey, pod: Pod, request: BindRequest | None, refs: Iterable[ClaimRef]) -> Promises:
        """What was given to the pod and isn't in the status of its claims: by claim, and for extended resources.

        A bind request may be seen to go before the claims that were written for it are seen to change: what it
        promised to a pod that has its node is kept until then.
        """
        promised, extended = self._promised.pop(key, NO_PROMISES)
        if request is not None:
            promised = dict(_promised(request, refs))
            given = request.spec.extendedResourceClaimAllocation
            extended = given.allocation if given is not None else None
        elif not pod.spec.nodeName:
            promised, extended = NO_PROMISES
        if promised:
            promised = {claim: allocation for claim, allocation in promised.items() if not self._is_allocated(claim)}
        own = _extended_claim_of(pod)
        if own is not None and self._is_allocated(own):
            extended = None
        if promised or extended is not None:
            self._promised[key] = promised, extended
        return promised, extended

    def _is_allocated(self, key: ObjectKey) -> bool:
        claim = self.claims.get(key, None)
        return claim is not None and claim.status.allocation is not None

    def _refs(self, pod: Pod) -> tuple[tuple[ClaimRef, ...], str]:
        made = {each.name: each.resourceClaimName for each in pod.status.resourceClaimStatuses}
        namespace = pod.metadata.namespace
        refs, problem = [], ""
        for index, each in enumerate(pod.spec.resourceClaims):
            own = each.resourceClaimName is None
            name = made.get(each.name) if own else each.resourceClaimName
            if own and each.name in made and not name:
                continue  # the template wants no claim for this pod
            if not name:
                template = each.resourceClaimTemplateName
                what = (
                    f"waits for a ResourceClaim to be made from template {namespace}/{template}"
                    if template
                    else "names neither a claim nor a template"
                )
                problem = problem or f"spec.resourceClaims[{index}] ({each.name}) {what}"
                continue
            key = ObjectKey(namespace, name)
            refs.append(ClaimRef(each.name, key, own))
            problem = problem or self._problem_with(key, pod, own=own)
        return tuple(refs), problem

    def _problem_with(self, key: ObjectKey, pod: Pod, *, own: bool) -> str:
        claim = self.claims.get(key, None)
        if claim is None:
            return f"ResourceClaim {key} was not found"
        if claim.metadata.deletionTimestamp is not None:
            return f"ResourceClaim {key} is being deleted"
        owners = [owner for owner in claim.metadata.ownerReferences if owner.controller]
        if own and owners and all(owner.uid != pod.metadata.uid for owner in owners):
            return f"ResourceClaim {key} was not made for pod {pod.key}: the pod is not its owner"
        return ""

    def _follow_claims(self, pod: ObjectKey, refs: Iterable[ClaimRef]) -> None:
        claims = tuple(dict.fromkeys(ref.key for ref in refs))
        if claims == self._keys_of.get(pod):
            return
        self._forget_users(pod)
        self._keys_of[pod] = claims
        for claim in claims:
            users = self._users.setdefault(claim, {})
            if len(users) == 1:
                self._dirty.update(users)  # which isn't alone with it any more
            users[pod] = None

    def _forget_users(self, pod: ObjectKey) -> None:
        for claim in self._keys_of.pop(pod, ()):
            users = self._users[claim]
            users.pop(pod, None)
            if len(users) == 1:
                self._dirty.update(users)  # which is alone with it now
            if not users:
                del self._users[claim]

    def _classes_changed(self) -> bool:
        self._frozen = None
        by_resource: dict[str, str] = {}
        # Of several classes for one resource the newest counts; by name, of those of one age.
        classes = sorted(
            self.classes.freeze().values(),
            key=lambda each: (each.metadata.creationTimestamp or "", each.metadata.name),
        )
        for each in classes:
            by_resource[f"deviceclass.resource.kubernetes.io/{each.metadata.name}"] = each.metadata.name
            if each.spec.extendedResourceName:
                by_resource[each.spec.extendedResourceName] = each.metadata.name
        changed = by_resource != self.by_resource
        self.by_resource = by_resource
        return changed

    def _intern(self, claims: tuple[ClaimNeed, ...], extended: tuple[ExtendedNeed, ...], gpus: int) -> DeviceNeeds:
        signature = (
            tuple([(each.name, each.key, b"" if each.key else msgspec.json.encode(each.spec)) for each in claims]),
            msgspec.json.encode(extended) if extended else b"",
            gpus,
        )
        found = self._needs.get(signature)
        # The claim that a key names may have got another spec: deleted, and made again.
        if found is None or any(then.spec != now.spec for then, now in zip(found.claims, claims, strict=True)):
            found = self._needs[signature] = DeviceNeeds(next(self._numbers), claims, extended, gpus)
        return found


def _promised(request: BindRequest, refs: Iterable[ClaimRef]) -> Iterator[tuple[ObjectKey, AllocationResult]]:
    keys = {ref.name: ref.key for ref in refs}
    for each in request.spec.resourceClaimAllocations:
        if each.allocation is not None and each.name in keys:
            yield keys[each.name], each.allocation


def _extended_claim_of(pod: Pod) -> ObjectKey | None:
    """The claim that was made for the pod's extended resources."""
    status = pod.status.extendedResourceClaimStatus
    return ObjectKey(pod.metadata.namespace, status.resourceClaimName) if status is not None else None
