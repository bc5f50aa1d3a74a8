"""Claims, volumes and storage classes: what they mean for where a pod can go.

The live state shows it the objects and asks for the storage of each pod that has volumes. Changes give back the pods
that must be looked at again. The rules are those of Kubernetes' VolumeBinding and VolumeZone filters; how much room a
driver has, and how many volumes a node can attach, is not looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from bosket.api.core import NodeSelector, PersistentVolume, PersistentVolumeClaim, Pod
from bosket.api.object import ObjectKey
from bosket.api.storage import StorageClass
from bosket.scheduler.model.volume import NO_STORAGE, Places, PodStorage, VolumeNeeds
from bosket.scheduler.snapshot.volume_places import WAIT, Demand, demand_of, places_for, zones_of

BIND_COMPLETED_ANNOTATION = "pv.kubernetes.io/bind-completed"
SELECTED_NODE_ANNOTATION = "volume.kubernetes.io/selected-node"
ONE_POD = "ReadWriteOncePod"


class Volumes:
    """All claims, volumes and classes, and which pods use which claims."""

    def __init__(self) -> None:
        self.claims: dict[ObjectKey, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self._users: dict[ObjectKey, dict[ObjectKey, None]] = {}  # claim → pods
        self._claims_of: dict[ObjectKey, tuple[ObjectKey, ...]] = {}  # pod → claims
        self._by_volume: dict[str, set[ObjectKey]] = {}  # volume → claims that name it
        self._open: dict[str, set[ObjectKey]] = {}  # class → claims that have no volume yet
        self._of_class: dict[str, set[str]] = {}  # class → volumes
        self._places: dict[Demand, Places] = {}  # remembered until a volume or the class changes

    # Objects in; each returns the pods that it may matter to

    def put_claim(self, claim: PersistentVolumeClaim) -> Collection[ObjectKey]:
        before = self.claims.get(claim.key)
        self._forget_claim(before)
        self.claims[claim.key] = claim
        if claim.spec.volumeName:
            self._by_volume.setdefault(claim.spec.volumeName, set()).add(claim.key)
        else:
            self._open.setdefault(_class_of(claim), set()).add(claim.key)
        return () if before is not None and _same(before, claim) else self._users.get(claim.key, ())

    def drop_claim(self, key: ObjectKey) -> Collection[ObjectKey]:
        self._forget_claim(self.claims.pop(key, None))
        return self._users.get(key, ())

    def put_volume(self, volume: PersistentVolume) -> Collection[ObjectKey]:
        name = volume.metadata.name
        affected = self._users_of_volume(self.volumes.get(name))
        self._forget_volume(name)
        self.volumes[name] = volume
        self._of_class.setdefault(volume.spec.storageClassName, set()).add(name)
        return affected | self._users_of_volume(volume)

    def drop_volume(self, name: str) -> Collection[ObjectKey]:
        affected = self._users_of_volume(self.volumes.get(name))
        self._forget_volume(name)
        return affected

    def put_class(self, storage_class: StorageClass) -> Collection[ObjectKey]:
        self.classes[storage_class.metadata.name] = storage_class
        return self._class_changed(storage_class.metadata.name)

    def drop_class(self, name: str) -> Collection[ObjectKey]:
        self.classes.pop(name, None)
        return self._class_changed(name)

    def forget_pod(self, pod: ObjectKey) -> None:
        for claim in self._claims_of.pop(pod, ()):
            users = self._users[claim]
            users.pop(pod, None)
            if not users:
                del self._users[claim]

    # What pods ask

    def storage_of(self, key: ObjectKey, pod: Pod) -> PodStorage:
        """The pod's claims as they stand; from now on changes of these name the pod."""
        wanted = list(_claims_of(pod))
        if not wanted:
            return NO_STORAGE
        self.forget_pod(key)
        self._claims_of[key] = tuple(dict.fromkeys(claim for claim, _ in wanted))
        for name in self._claims_of[key]:
            self._users.setdefault(name, {})[key] = None
        problem = next((text for claim, own in wanted if (text := self._problem_with(claim, pod, own=own))), "")
        claims = [self.claims[name] for name in self._claims_of[key] if name in self.claims]
        exclusive = tuple(claim.key for claim in claims if ONE_POD in claim.spec.accessModes)
        if not problem and any(not _is_bound(claim) and not self._waits(claim) for claim in claims):
            problem = "pod has unbound immediate PersistentVolumeClaims"
        if problem:
            return PodStorage(None, exclusive, problem)
        return PodStorage(self._needs(claims), exclusive)

    def _problem_with(self, key: ObjectKey, pod: Pod, *, own: bool) -> str | None:
        """`own`: whether the claim is made for this pod, from a template in its spec."""
        claim = self.claims.get(key)
        if claim is None:
            if own:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{key.name}"'
            return f'persistentvolumeclaim "{key.name}" not found'
        if claim.status.phase == "Lost":
            return (
                f'persistentvolumeclaim "{key.name}" bound to non-existent persistentvolume "{claim.spec.volumeName}"'
            )
        if claim.metadata.deletionTimestamp is not None:
            return f'persistentvolumeclaim "{key.name}" is being deleted'
        if own and all(owner.uid != pod.metadata.uid for owner in claim.metadata.ownerReferences if owner.controller):
            return f"PVC {key} was not created for pod {pod.key} (pod is not owner)"
        return None

    def _waits(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the claim is bound once its pod has a node. One that names its volume is bound before."""
        storage_class = self.classes.get(_class_of(claim))
        return not claim.spec.volumeName and storage_class is not None and storage_class.volumeBindingMode == WAIT

    def _needs(self, claims: Iterable[PersistentVolumeClaim]) -> VolumeNeeds:
        reach: dict[NodeSelector, None] = {}
        zones: dict[tuple[str, frozenset[str]], None] = {}
        places: dict[Places, None] = {}
        lost = False
        for claim in claims:
            if not _is_bound(claim):
                places[self._places_for(claim)] = None
                continue
            volume = self.volumes.get(claim.spec.volumeName)
            if volume is None:
                lost = True
                continue
            affinity = volume.spec.nodeAffinity
            if affinity is not None and affinity.required is not None:
                reach[affinity.required] = None
            zones.update(dict.fromkeys(zones_of(volume)))
        return VolumeNeeds(tuple(reach), tuple(sorted(zones, key=repr)), tuple(places), lost)

    def _places_for(self, claim: PersistentVolumeClaim) -> Places:
        name = _class_of(claim)
        demand = demand_of(claim, name, claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION, ""))
        found = self._places.get(demand)
        if found is None:
            volumes = [self.volumes[each] for each in sorted(self._of_class.get(name, ()))]
            found = self._places[demand] = places_for(demand, volumes, self.classes[name])
        return found

    # Keeping order

    def _forget_claim(self, claim: PersistentVolumeClaim | None) -> None:
        if claim is not None:
            self._open.get(_class_of(claim), set()).discard(claim.key)
            self._by_volume.get(claim.spec.volumeName, set()).discard(claim.key)

    def _forget_volume(self, name: str) -> None:
        volume = self.volumes.pop(name, None)
        if volume is not None:
            self._of_class[volume.spec.storageClassName].discard(name)

    def _users_of_volume(self, volume: PersistentVolume | None) -> set[ObjectKey]:
        """Pods whose claim is bound to the volume, or might yet be."""
        if volume is None:
            return set()
        bound = self._users_of(self._by_volume.get(volume.metadata.name, ()))
        return self._class_changed(volume.spec.storageClassName).union(bound)

    def _class_changed(self, name: str) -> set[ObjectKey]:
        self._places = {demand: places for demand, places in self._places.items() if demand.storage_class != name}
        return set(self._users_of(self._open.get(name, ())))

    def _users_of(self, claims: Iterable[ObjectKey]) -> Iterator[ObjectKey]:
        return (pod for claim in claims for pod in self._users.get(claim, ()))


def _claims_of(pod: Pod) -> Iterator[tuple[ObjectKey, bool]]:
    """The pod's claims, and whether each is made for this pod alone."""
    namespace, name = pod.metadata.namespace, pod.metadata.name
    for volume in pod.spec.volumes:
        if volume.persistentVolumeClaim is not None:
            yield ObjectKey(namespace, volume.persistentVolumeClaim.claimName), False
        elif volume.ephemeral is not None:
            yield ObjectKey(namespace, f"{name}-{volume.name}"), True


def _is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volumeName) and BIND_COMPLETED_ANNOTATION in claim.metadata.annotations


def _class_of(claim: PersistentVolumeClaim) -> str:
    named = claim.metadata.annotations.get("volume.beta.kubernetes.io/storage-class")
    return named if named is not None else claim.spec.storageClassName or ""


def _same(before: PersistentVolumeClaim, after: PersistentVolumeClaim) -> bool:
    """Whether nothing changed that a pod's storage depends on."""
    left, right = before.metadata, after.metadata
    return (
        before.spec == after.spec
        and before.status.phase == after.status.phase
        and left.annotations == right.annotations
        and left.deletionTimestamp == right.deletionTimestamp
        and left.ownerReferences == right.ownerReferences
    )
