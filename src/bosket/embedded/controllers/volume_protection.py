"""Protects what is in use: a claim goes when no pod on a node uses it any more, a volume when it has no claim."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from bosket.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from bosket.api.object import ObjectKey, ObjectMeta
from bosket.api.pod_phase import has_ended
from bosket.kube.errors import Conflict, NotFound
from bosket.kube.volume import claims_of
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

CLAIM_FINALIZER: Final = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER: Final = "kubernetes.io/pv-protection"
_BY_CLAIM: Final = "volume claim"
_AFTER_CONFLICT_SECONDS: Final = 0.05


class VolumeProtection:
    """Keeps the finalizers of claims and volumes; a `Service`. A key without a namespace is a volume's."""

    name = "volume-protection-controller"

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._claims = environment.informers.of(PersistentVolumeClaim)
        self._volumes = environment.informers.of(PersistentVolume)
        self._pods = environment.informers.of(Pod)
        self._pods.add_index(_BY_CLAIM, _claims_in_use)
        self._controller: Controller[ObjectKey] = Controller(
            self.name, self._reconcile, clock=environment.clock, metrics=environment.metrics
        )
        self._controller.watch(self._claims, lambda claim: (claim.key,))
        self._controller.watch(self._volumes, lambda volume: (volume.key,))
        self._controller.watch(self._pods, lambda pod: [key for key, _ in claims_of(pod)] if pod.spec.volumes else ())

    async def run(self) -> None:
        """Until cancelled."""
        await self._controller.run()

    async def _reconcile(self, key: ObjectKey) -> float | None:
        try:
            if key.namespace:
                claim = self._claims.store.get(key)
                if claim is not None:
                    in_use = bool(self._pods.store.by_index(_BY_CLAIM, str(key)))
                    after = replace(claim, metadata=_protected(claim.metadata, CLAIM_FINALIZER, in_use=in_use))
                    self._claims.store.put(await self._client.modify(claim, after))
                return None
            volume = self._volumes.store.get(key)
            if volume is not None:
                in_use = volume.status.phase == "Bound"
                guarded = replace(volume, metadata=_protected(volume.metadata, VOLUME_FINALIZER, in_use=in_use))
                self._volumes.store.put(await self._client.modify(volume, guarded))
        except NotFound:
            return None
        except Conflict:
            return _AFTER_CONFLICT_SECONDS
        return None


def _protected(meta: ObjectMeta, finalizer: str, *, in_use: bool) -> ObjectMeta:
    if meta.deletionTimestamp is None:
        return meta if finalizer in meta.finalizers else replace(meta, finalizers=(*meta.finalizers, finalizer))
    if in_use or finalizer not in meta.finalizers:
        return meta
    return replace(meta, finalizers=tuple(each for each in meta.finalizers if each != finalizer))


def _claims_in_use(pod: Pod) -> Iterable[str]:
    """A pod that waits for a node, or has ended, needs nothing."""
    if not pod.spec.volumes or not pod.spec.nodeName or has_ended(pod):
        return ()
    return [str(key) for key, _ in claims_of(pod)]
