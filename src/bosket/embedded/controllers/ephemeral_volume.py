"""The ephemeral volume controller: creates the claims of pods with a claim template; they are deleted with the pod."""

from __future__ import annotations

from bosket.api.core import PersistentVolumeClaim, PersistentVolumeClaimTemplate, Pod
from bosket.api.object import ObjectKey, ObjectMeta
from bosket.api.ownership import controller_reference
from bosket.kube.errors import AlreadyExists, Forbidden, NotFound
from bosket.kube.volume import is_made_for
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment


class EphemeralVolumeController:
    """Makes what is missing; a `Service`."""

    name = "ephemeral-volume-controller"

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._events = environment.events.for_component(self.name)
        self._pods = environment.informers.of(Pod)
        self._claims = environment.informers.of(PersistentVolumeClaim)
        self._controller: Controller[ObjectKey] = Controller(
            self.name, self._reconcile, clock=environment.clock, metrics=environment.metrics
        )
        self._controller.watch(self._pods, lambda pod: (pod.key,) if _templates(pod) else ())
        self._controller.watch(self._claims, _owning_pods)

    async def run(self) -> None:
        """Until cancelled."""
        await self._controller.run()

    async def _reconcile(self, key: ObjectKey) -> None:
        pod = self._pods.store.get(key)
        if pod is None or pod.metadata.deletionTimestamp is not None:
            return
        for volume, template in _templates(pod).items():
            name = f"{key.name}-{volume}"
            found = self._claims.store.get(ObjectKey(key.namespace, name))
            if found is None:
                try:
                    self._claims.store.put(await self._client.create(_claim(pod, template, name)))
                except (AlreadyExists, NotFound, Forbidden):
                    continue  # there already, or the namespace is going away
            elif not is_made_for(found, pod):
                text = f"PVC {key.namespace}/{name} was not created for pod {key} (pod is not owner)"
                self._events.event(pod, "Warning", "FailedBinding", text)


def _templates(pod: Pod) -> dict[str, PersistentVolumeClaimTemplate]:
    """By volume."""
    return {
        volume.name: volume.ephemeral.volumeClaimTemplate
        for volume in pod.spec.volumes
        if volume.ephemeral is not None and volume.ephemeral.volumeClaimTemplate is not None
    }


def _claim(pod: Pod, template: PersistentVolumeClaimTemplate, name: str) -> PersistentVolumeClaim:
    meta = ObjectMeta(
        name=name,
        namespace=pod.metadata.namespace,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        ownerReferences=(controller_reference(pod),),
    )
    return PersistentVolumeClaim(metadata=meta, spec=template.spec)


def _owning_pods(claim: PersistentVolumeClaim) -> list[ObjectKey]:
    owners = claim.metadata.ownerReferences
    return [ObjectKey(claim.metadata.namespace, each.name) for each in owners if each.kind == "Pod"]
