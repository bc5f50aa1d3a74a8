"""A simulated storage driver: makes volumes, on paper, for claims of classes that name it, and deletes them again.

A volume made for a node is tied to that node, as one on a local disk would be, unless its claim says that pods on
several nodes use it. The embedded cluster runs it with a
default class of its own; it does its work on any other cluster, too.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from bosket.api.core import (
    CSIPersistentVolumeSource,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)
from bosket.api.object import ObjectKey, ObjectMeta
from bosket.api.storage import StorageClass
from bosket.embedded.controllers.volume import DEFAULT_CLASS_ANNOTATION
from bosket.kube.errors import AlreadyExists, Conflict, NotFound
from bosket.kube.volume import (
    PROVISIONED_BY_ANNOTATION,
    SELECTED_NODE_ANNOTATION,
    WAIT,
    InvalidClaim,
    class_of,
    demand_of,
    is_bound,
    is_for_one_node,
    reference_to,
)
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

DRIVER: Final = "simulated.bosket.dev"
_HOSTNAME: Final = "kubernetes.io/hostname"
_AFTER_CONFLICT_SECONDS: Final = 0.05

#: The class of claims that name none, in the embedded cluster.
DEFAULT_CLASS: Final = StorageClass(
    metadata=ObjectMeta(name="simulated", annotations={DEFAULT_CLASS_ANNOTATION: "true"}),
    provisioner=DRIVER,
    reclaimPolicy="Delete",
    volumeBindingMode=WAIT,
)


class SimulatedStorage:
    """The driver's controller; a `Service`. A key without a namespace is a volume's."""

    name = "simulated-storage"

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._events = environment.events.for_component(self.name)
        self._claims = environment.informers.of(PersistentVolumeClaim)
        self._volumes = environment.informers.of(PersistentVolume)
        self._classes = environment.informers.of(StorageClass)
        self._nodes = environment.informers.of(Node)
        self._controller: Controller[ObjectKey] = Controller(
            self.name, self._reconcile, clock=environment.clock, metrics=environment.metrics
        )
        self._controller.watch(self._claims, lambda claim: (claim.key,))
        self._controller.watch(self._volumes, lambda volume: (volume.key,))
        self._controller.watch(
            self._classes,
            lambda each: [claim.key for claim in self._claims.store if class_of(claim) == each.metadata.name],
        )

    async def run(self) -> None:
        """Until cancelled."""
        await self._nodes.wait_synced()
        await self._controller.run()

    async def _reconcile(self, key: ObjectKey) -> float | None:
        try:
            if key.namespace:
                await self._see_to_claim(key)
            else:
                await self._see_to_volume(key)
        except NotFound:
            return None
        except Conflict:
            return _AFTER_CONFLICT_SECONDS
        return None

    async def _see_to_claim(self, key: ObjectKey) -> None:
        claim = self._claims.store.get(key)
        if claim is None or claim.metadata.deletionTimestamp is not None or is_bound(claim) or claim.spec.volumeName:
            return
        storage_class = self._classes.store.get(ObjectKey("", class_of(claim)))
        if storage_class is None or storage_class.provisioner != DRIVER:
            return
        node = None
        if storage_class.volumeBindingMode == WAIT:
            selected = claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION)
            if not selected:
                return
            node = self._nodes.store.get(ObjectKey("", selected))
            if node is None:
                await self._reject(claim, f'node "{selected}" was not found')
                return
        try:
            volume = _volume(claim, storage_class, node)
        except InvalidClaim as error:
            self._events.event(claim, "Warning", "ProvisioningFailed", str(error))
            return
        try:
            self._volumes.store.put(await self._client.create(volume))
        except AlreadyExists:
            return
        text = f"Successfully provisioned volume {volume.metadata.name}"
        self._events.event(claim, "Normal", "ProvisioningSucceeded", text)

    async def _reject(self, claim: PersistentVolumeClaim, why: str) -> None:
        """Without the annotation the scheduler chooses anew."""
        self._events.event(claim, "Warning", "ProvisioningFailed", why)
        kept = {name: value for name, value in claim.metadata.annotations.items() if name != SELECTED_NODE_ANNOTATION}
        after = replace(claim, metadata=replace(claim.metadata, annotations=kept))
        self._claims.store.put(await self._client.modify(claim, after))

    async def _see_to_volume(self, key: ObjectKey) -> None:
        volume = self._volumes.store.get(key)
        if volume is None or volume.metadata.annotations.get(PROVISIONED_BY_ANNOTATION) != DRIVER:
            return
        if volume.status.phase == "Released" and volume.spec.persistentVolumeReclaimPolicy == "Delete":
            await self._client.delete(PersistentVolume, key.name, uid=volume.metadata.uid)


def _volume(claim: PersistentVolumeClaim, storage_class: StorageClass, node: Node | None) -> PersistentVolume:
    """One name per claim, so that it is made once."""
    demand = demand_of(claim)
    name = f"pvc-{claim.metadata.uid}"
    reach = None
    if node is not None and is_for_one_node(claim):
        hostname = node.metadata.labels.get(_HOSTNAME)
        if hostname is not None:
            only = NodeSelectorRequirement(key=_HOSTNAME, operator="In", values=(hostname,))
            term = NodeSelectorTerm(matchExpressions=(only,))
        else:
            only = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node.metadata.name,))
            term = NodeSelectorTerm(matchFields=(only,))
        reach = VolumeNodeAffinity(required=NodeSelector(nodeSelectorTerms=(term,)))
    return PersistentVolume(
        metadata=ObjectMeta(name=name, annotations={PROVISIONED_BY_ANNOTATION: DRIVER}),
        spec=PersistentVolumeSpec(
            capacity={"storage": claim.spec.resources.requests.get("storage", "0")},
            accessModes=claim.spec.accessModes,
            claimRef=reference_to(claim),
            csi=CSIPersistentVolumeSource(driver=DRIVER, volumeHandle=name),
            nodeAffinity=reach,
            persistentVolumeReclaimPolicy=storage_class.reclaimPolicy or "Delete",
            storageClassName=demand.storage_class,
            volumeMode=demand.volume_mode,
            volumeAttributesClassName=claim.spec.volumeAttributesClassName,
        ),
    )
