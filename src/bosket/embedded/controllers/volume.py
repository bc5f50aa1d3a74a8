"""The volume controller: gives claims their volumes, and says of both how they stand.

A claim that waits for its pod's node is left alone until somebody promises it a volume (`claimRef`): the binder does
that, or whoever made one for it. Volumes of claims that are gone are kept, or left to who made them to delete.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from bosket.api.core import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeStatus,
)
from bosket.api.object import ObjectKey
from bosket.api.storage import StorageClass
from bosket.api.time import format_time
from bosket.kube.errors import Conflict, NotFound
from bosket.kube.volume import (
    BIND_COMPLETED_ANNOTATION,
    BOUND_BY_CONTROLLER_ANNOTATION,
    PROVISIONED_BY_ANNOTATION,
    InvalidClaim,
    best_volume,
    class_of,
    demand_of,
    is_bound,
    is_free,
    is_promised_to,
    reference_to,
    suits,
    waits_for_pod,
)
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

DEFAULT_CLASS_ANNOTATION: Final = "storageclass.kubernetes.io/is-default-class"
#: Name of the index of volumes by the claim that they are for.
_BY_CLAIM: Final = "claim"
_AFTER_CONFLICT_SECONDS: Final = 0.05


class VolumeController:
    """Claims and volumes of the whole cluster; a `Service`. A key without a namespace is a volume's."""

    name = "persistentvolume-binder-controller"

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._clock = environment.clock
        self._events = environment.events.for_component(self.name)
        self._claims = environment.informers.of(PersistentVolumeClaim)
        self._volumes = environment.informers.of(PersistentVolume)
        self._classes = environment.informers.of(StorageClass)
        self._volumes.add_index(_BY_CLAIM, _claim_of)
        self._controller: Controller[ObjectKey] = Controller(
            self.name, self._reconcile, clock=environment.clock, metrics=environment.metrics
        )
        self._controller.watch(self._claims, self._keys_for_claim)
        self._controller.watch(self._volumes, self._keys_for_volume)
        self._controller.watch(self._classes, lambda each: self._open_claims(each.metadata.name))

    async def run(self) -> None:
        """Until cancelled."""
        await self._controller.run()

    def _keys_for_claim(self, claim: PersistentVolumeClaim) -> list[ObjectKey]:
        return [claim.key, *(each.key for each in self._volumes.store.by_index(_BY_CLAIM, str(claim.key)))]

    def _keys_for_volume(self, volume: PersistentVolume) -> list[ObjectKey]:
        reference = volume.spec.claimRef
        if reference is not None:
            return [volume.key, ObjectKey(reference.namespace, reference.name)]
        return [volume.key, *self._open_claims(volume.spec.storageClassName)]

    def _open_claims(self, storage_class: str) -> list[ObjectKey]:
        unset = [each.key for each in self._claims.store if each.spec.storageClassName is None]
        return unset + [
            each.key for each in self._claims.store if class_of(each) == storage_class and not is_bound(each)
        ]

    async def _reconcile(self, key: ObjectKey) -> float | None:
        try:
            if key.namespace:
                claim = self._claims.store.get(key)
                if claim is not None and claim.metadata.deletionTimestamp is None:
                    await self._see_to_claim(claim)
            else:
                volume = self._volumes.store.get(key)
                if volume is not None:
                    await self._see_to_volume(volume)
        except (Conflict, NotFound):
            return _AFTER_CONFLICT_SECONDS  # somebody else was faster: look at what they did
        return None

    # Claims

    async def _see_to_claim(self, claim: PersistentVolumeClaim) -> None:
        if is_bound(claim):
            await self._confirm(claim)
            return
        if claim.spec.storageClassName is None and (default := self._default_class()):
            claim = await self._write(claim, replace(claim, spec=replace(claim.spec, storageClassName=default)))
        try:
            volume = self._volume_for(claim)
        except InvalidClaim as error:
            self._events.event(claim, "Warning", "FailedBinding", str(error))
            return
        if volume is not None:
            await self._bind(claim, volume)
            return
        if waits_for_pod(claim, self._classes.store.get(ObjectKey("", class_of(claim)))):
            text = "waiting for first consumer to be created before binding"
            self._events.event(claim, "Normal", "WaitForFirstConsumer", text)
        elif not class_of(claim):
            text = "no persistent volumes available for this claim and no storage class is set"
            self._events.event(claim, "Normal", "FailedBinding", text)
        if claim.status.phase != "Pending":
            await self._write_claim_status(claim, replace(claim.status, phase="Pending"))

    def _volume_for(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        demand = demand_of(claim)
        if claim.spec.volumeName:
            named = self._volumes.store.get(ObjectKey("", claim.spec.volumeName))
            usable = named is not None and suits(named, demand) and (is_free(named) or is_promised_to(named, claim))
            return named if usable else None
        waits = waits_for_pod(claim, self._classes.store.get(ObjectKey("", class_of(claim))))
        volumes = [each for each in self._volumes.store if not waits or is_promised_to(each, claim)]
        return best_volume(claim, demand, volumes)

    async def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        """First the volume, which then belongs to nobody else, then the claim."""
        reference = volume.spec.claimRef
        if reference is None or not reference.uid:
            annotations = dict(volume.metadata.annotations)
            if reference is None:
                annotations[BOUND_BY_CONTROLLER_ANNOTATION] = "yes"
            meta = replace(volume.metadata, annotations=annotations)
            promised = replace(volume.spec, claimRef=reference_to(claim))
            volume = await self._client.modify(volume, replace(volume, metadata=meta, spec=promised))
            self._volumes.store.put(volume)
        await self._set_volume_phase(volume, "Bound")
        annotations = {**claim.metadata.annotations, BIND_COMPLETED_ANNOTATION: "yes"}
        if not claim.spec.volumeName:
            annotations[BOUND_BY_CONTROLLER_ANNOTATION] = "yes"
        meta = replace(claim.metadata, annotations=annotations)
        spec = replace(claim.spec, volumeName=volume.metadata.name)
        claim = await self._write(claim, replace(claim, metadata=meta, spec=spec))
        await self._confirm(claim)

    async def _confirm(self, claim: PersistentVolumeClaim) -> None:
        """The status of a claim that has its volume, or had it."""
        volume = self._volumes.store.get(ObjectKey("", claim.spec.volumeName))
        if volume is None or not is_promised_to(volume, claim):
            if claim.status.phase != "Lost":
                text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
                self._events.event(claim, "Warning", "ClaimLost", text)
            await self._write_claim_status(claim, replace(claim.status, phase="Lost", accessModes=(), capacity={}))
            return
        spec = volume.spec
        status = replace(claim.status, phase="Bound", accessModes=spec.accessModes, capacity=spec.capacity)
        await self._write_claim_status(claim, status)

    def _default_class(self) -> str:
        """Of several the newest, as in Kubernetes; the first by name of those."""
        defaults = [
            each for each in self._classes.store if each.metadata.annotations.get(DEFAULT_CLASS_ANNOTATION) == "true"
        ]
        newest = max((each.metadata.creationTimestamp or "" for each in defaults), default="")
        names = (each.metadata.name for each in defaults if (each.metadata.creationTimestamp or "") == newest)
        return min(names, default="")

    # Volumes

    async def _see_to_volume(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claimRef
        if reference is None or not reference.uid:
            await self._set_volume_phase(volume, "Available")
            return
        claim = await self._read_claim(ObjectKey(reference.namespace, reference.name))
        if claim is None or claim.metadata.uid != reference.uid:
            await self._release(volume)
        elif claim.spec.volumeName == volume.metadata.name:
            await self._set_volume_phase(volume, "Bound")
        elif claim.spec.volumeName:  # it has another one
            await self._release(volume)

    async def _read_claim(self, key: ObjectKey) -> PersistentVolumeClaim | None:
        known = self._claims.store.get(key)
        if known is not None:
            return known
        try:  # that it isn't here yet is no reason to give its volume away
            return await self._client.get(PersistentVolumeClaim, key.name, key.namespace)
        except NotFound:
            return None

    async def _release(self, volume: PersistentVolume) -> None:
        message = ""
        phase = "Released"
        if volume.spec.persistentVolumeReclaimPolicy == "Delete" and not _was_made(volume):
            phase, message = "Failed", "nobody made this volume, and so nobody can delete it"
        await self._set_volume_phase(volume, phase, message)

    # Writing

    async def _set_volume_phase(self, volume: PersistentVolume, phase: str, message: str = "") -> None:
        if (volume.status.phase, volume.status.message) == (phase, message):
            return
        changed = format_time(self._clock.now())
        status = PersistentVolumeStatus(phase=phase, message=message, lastPhaseTransitionTime=changed)
        written = await self._client.modify(volume, replace(volume, status=status), subresource="status")
        self._volumes.store.put(written)

    async def _write(self, before: PersistentVolumeClaim, after: PersistentVolumeClaim) -> PersistentVolumeClaim:
        written = await self._client.modify(before, after)
        self._claims.store.put(written)
        return written

    async def _write_claim_status(self, claim: PersistentVolumeClaim, status: PersistentVolumeClaimStatus) -> None:
        if claim.status != status:
            written = await self._client.modify(claim, replace(claim, status=status), subresource="status")
            self._claims.store.put(written)


def _claim_of(volume: PersistentVolume) -> tuple[str, ...]:
    reference = volume.spec.claimRef
    return (str(ObjectKey(reference.namespace, reference.name)),) if reference is not None else ()


def _was_made(volume: PersistentVolume) -> bool:
    return PROVISIONED_BY_ANNOTATION in volume.metadata.annotations
