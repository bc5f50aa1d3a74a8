"""The resource claim controller: makes the claims that pods have templates for, and frees claims whose users are gone.

A claim made from a template is owned by its pod, which learns its name by `status.resourceClaimStatuses`. A claim that
nobody uses any more gives its devices back; one that was made for a pod goes when the pod has ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec.structs import replace

from bosket.api.core import Pod, PodResourceClaim, PodResourceClaimStatus
from bosket.api.keys import DEVICE_CLAIM_FINALIZER, POD_CLAIM_NAME_ANNOTATION
from bosket.api.object import ObjectKey, ObjectMeta
from bosket.api.ownership import BY_CONTROLLER, controller_index, controller_of, controller_reference
from bosket.api.pod_phase import has_ended
from bosket.api.resource_k8s import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate
from bosket.kube.errors import NotFound
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

#: Name of the pod informer's index by the templates that pods name.
_BY_TEMPLATE: Final = "template"


class _Work(NamedTuple):
    """A pod to be given its claims, or a claim to be looked after."""

    kind: type[Pod] | type[ResourceClaim]
    key: ObjectKey


class ResourceClaimController:
    """A `Service`."""

    name = "resourceclaim-controller"

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._events = environment.events.for_component(self.name)
        self._pods = environment.informers.of(Pod)
        self._claims = environment.informers.of(ResourceClaim)
        self._templates = environment.informers.of(ResourceClaimTemplate)
        self._pods.add_index(_BY_TEMPLATE, _templates_of)
        self._claims.add_index(BY_CONTROLLER, controller_index)
        self._controller: Controller[_Work] = Controller(
            self.name, self._reconcile, clock=environment.clock, metrics=environment.metrics
        )
        self._controller.watch(self._pods, self._of_pod)
        self._controller.watch(self._claims, _of_claim)
        self._controller.watch(self._templates, self._of_template)

    async def run(self) -> None:
        """Until cancelled."""
        for informer in (self._pods, self._claims, self._templates):
            await informer.wait_synced()
        await self._controller.run()

    def _of_pod(self, pod: Pod) -> Iterable[_Work]:
        if not pod.spec.resourceClaims and pod.status.extendedResourceClaimStatus is None:
            return
        yield _Work(Pod, pod.key)
        for claim in self._claims.store.by_index(BY_CONTROLLER, pod.metadata.uid):
            yield _Work(ResourceClaim, claim.key)
        for each in pod.spec.resourceClaims:
            if each.resourceClaimName is not None:
                yield _Work(ResourceClaim, ObjectKey(pod.metadata.namespace, each.resourceClaimName))

    def _of_template(self, template: ResourceClaimTemplate) -> Iterable[_Work]:
        return (_Work(Pod, pod.key) for pod in self._pods.store.by_index(_BY_TEMPLATE, str(template.key)))

    async def _reconcile(self, work: _Work) -> None:
        if work.kind is Pod:
            await self._serve(work.key)
        else:
            await self._look_after(work.key)

    # Pods

    async def _serve(self, key: ObjectKey) -> None:
        pod = self._pods.store.get(key)
        if pod is None or pod.metadata.deletionTimestamp is not None or has_ended(pod):
            return
        made = {each.name: each for each in pod.status.resourceClaimStatuses}
        for each in pod.spec.resourceClaims:
            if each.resourceClaimTemplateName is not None and each.name not in made:
                claim = await self._claim_for(pod, each)
                if claim is not None:
                    made[each.name] = PodResourceClaimStatus(name=each.name, resourceClaimName=claim.metadata.name)
        statuses = tuple(made.values())
        if statuses != pod.status.resourceClaimStatuses:
            after = replace(pod, status=replace(pod.status, resourceClaimStatuses=statuses))
            try:
                self._pods.store.put(await self._client.modify(pod, after, subresource="status"))
            except NotFound:
                return

    async def _claim_for(self, pod: Pod, asked: PodResourceClaim) -> ResourceClaim | None:
        """The claim that the pod has, or a new one; None when there is no template yet."""
        for known in self._claims.store.by_index(BY_CONTROLLER, pod.metadata.uid):
            if known.metadata.annotations.get(POD_CLAIM_NAME_ANNOTATION) == asked.name:
                return known
        template_key = ObjectKey(pod.metadata.namespace, asked.resourceClaimTemplateName or "")
        template = self._templates.store.get(template_key)
        if template is None:
            text = f"PodResourceClaim {asked.name}: resource claim template {template_key} was not found"
            self._events.event(pod, "Warning", "FailedResourceClaimCreation", text)
            return None
        pattern = template.spec.metadata
        claim = ResourceClaim(
            metadata=ObjectMeta(
                generateName=f"{pod.metadata.name}-{asked.name}-",
                namespace=pod.metadata.namespace,
                labels=pattern.labels,
                annotations={**pattern.annotations, POD_CLAIM_NAME_ANNOTATION: asked.name},
                ownerReferences=(controller_reference(pod),),
            ),
            spec=template.spec.spec,
        )
        created = await self._client.create(claim)
        self._claims.store.put(created)
        return created

    # Claims

    async def _look_after(self, key: ObjectKey) -> None:
        claim = self._claims.store.get(key)
        if claim is None:
            return
        try:
            claim = await self._free(claim)
            owner = controller_of(claim)
            if owner is not None and owner.kind == "Pod" and claim.metadata.deletionTimestamp is None:
                pod = self._pods.store.get(ObjectKey(key.namespace, owner.name))
                if pod is not None and pod.metadata.uid == owner.uid and _has_ended(pod):
                    await self._client.delete(ResourceClaim, key.name, key.namespace, uid=claim.metadata.uid)
        except NotFound:
            return

    async def _free(self, claim: ResourceClaim) -> ResourceClaim:
        """Without users that are gone; and without devices, when that leaves none."""
        status = claim.status
        users = tuple([each for each in status.reservedFor if await self._is_there(claim, each)])
        unused = not users and (bool(status.reservedFor) or claim.metadata.deletionTimestamp is not None)
        if len(users) < len(status.reservedFor) or (unused and status.allocation is not None):
            allocation = None if unused else status.allocation
            after = replace(claim, status=replace(status, reservedFor=users, allocation=allocation))
            claim = await self._client.modify(claim, after, subresource="status")
            self._claims.store.put(claim)
        if claim.status.allocation is None and not claim.status.reservedFor:
            finalizers = tuple(each for each in claim.metadata.finalizers if each != DEVICE_CLAIM_FINALIZER)
            if finalizers != claim.metadata.finalizers and (unused or claim.metadata.deletionTimestamp is not None):
                after = replace(claim, metadata=replace(claim.metadata, finalizers=finalizers))
                claim = await self._client.modify(claim, after)
        return claim

    async def _is_there(self, claim: ResourceClaim, user: ResourceClaimConsumerReference) -> bool:
        """Whether the pod has not ended. One that we don't see may be too new for us: the server knows."""
        if user.resource != "pods":
            return True
        pod = self._pods.store.get(ObjectKey(claim.metadata.namespace, user.name))
        if pod is None or pod.metadata.uid != user.uid:
            try:
                pod = await self._client.get(Pod, user.name, claim.metadata.namespace)
            except NotFound:
                return False
        return pod.metadata.uid == user.uid and not _has_ended(pod)


def _has_ended(pod: Pod) -> bool:
    """Ended, or deleted before it had a node: nothing of it will ever run."""
    gone = pod.metadata.deletionTimestamp is not None and not pod.spec.nodeName
    return gone or has_ended(pod)


def _of_claim(claim: ResourceClaim) -> Iterable[_Work]:
    yield _Work(ResourceClaim, claim.key)
    owner = controller_of(claim)
    if owner is not None and owner.kind == "Pod":
        yield _Work(Pod, ObjectKey(claim.metadata.namespace, owner.name))


def _templates_of(pod: Pod) -> Iterable[str]:
    for each in pod.spec.resourceClaims:
        if each.resourceClaimTemplateName is not None:
            yield str(ObjectKey(pod.metadata.namespace, each.resourceClaimTemplateName))
