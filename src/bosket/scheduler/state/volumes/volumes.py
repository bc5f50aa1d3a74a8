"""Volumes: claims, volumes and storage classes, and what they mean for where a pod can go.

The live state reports objects and asks for the storage of each pod with volumes. A change names the pods that must be
read again. The rules are those of Kubernetes' VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits
filters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from bosket.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from bosket.api.object import ObjectKey
from bosket.api.quantity import InvalidQuantity
from bosket.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from bosket.kube.volume import (
    SELECTED_NODE_ANNOTATION,
    InvalidClaim,
    can_be_made,
    claims_of,
    class_of,
    class_of_volume,
    demand_of,
    is_bound,
    is_for_one_node,
    is_made_for,
    is_promised_to,
    size_of,
    suits,
    waits_for_pod,
)
from bosket.scheduler.model.volume import (
    NO_STORAGE,
    Attachment,
    BeingMade,
    Contest,
    OpenClaim,
    PodStorage,
)
from bosket.scheduler.state.volumes.claim_users import ClaimUsers
from bosket.scheduler.state.volumes.places import Answer, Question, answer, needs_of, same
from bosket.scheduler.state.volumes.promises import NOT_BOUND, Promise, Promises
from bosket.scheduler.state.volumes.storage_driver import StorageDrivers, attachment_of, driver_of

ONE_POD = "ReadWriteOncePod"
#: The number of cached answers; dropping them costs only time.
MOST_ANSWERS = 4000


class Volumes:
    """All claims, volumes and classes, and which pods use which claims."""

    def __init__(self, dirty: set[ObjectKey], report: Callable[[str], None]) -> None:
        """`dirty` collects pods to be read again because a claim or volume changed."""
        self._report, self._dirty = report, dirty
        self.claims: dict[ObjectKey, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.unread: set[ObjectKey] = set()  #: volumes whose size is no amount
        self.classes: dict[str, StorageClass] = {}
        self.drivers = StorageDrivers(self._report)
        self._users = ClaimUsers()
        self._by_volume: dict[str, set[ObjectKey]] = {}  # volume → claims that name it
        self._open: dict[str, set[ObjectKey]] = {}  # class → claims that have no volume yet
        self._of_class: dict[str, set[str]] = {}  # class → volumes
        self._promised: dict[ObjectKey, set[str]] = {}  # claim → volumes that name it
        self._promises = Promises()
        self._answers: dict[Question, tuple[int, Answer]] = {}  # with the version of the class that it is true of
        self._versions: Counter[str] = Counter()  # by class: how often something about it changed

    # Objects in

    def put_claim(self, claim: PersistentVolumeClaim) -> None:
        before = self.claims.get(claim.key)
        self._forget_claim(before)
        self.claims[claim.key] = claim
        if claim.spec.volumeName:
            self._by_volume.setdefault(claim.spec.volumeName, set()).add(claim.key)
        else:
            self._open.setdefault(class_of(claim), set()).add(claim.key)
        if before is None or not _same(before, claim):
            self._dirty.update(self._users.of(claim.key))

    def drop_claim(self, key: ObjectKey) -> None:
        self._forget_claim(self.claims.pop(key, None))
        self._dirty.update(self._users.of(key))

    def put_volume(self, volume: PersistentVolume) -> None:
        name = volume.metadata.name
        self._forget_volume(name)
        try:
            size_of(volume)
        except InvalidQuantity as error:
            self.unread.add(volume.key)
            self._report(f"PersistentVolume {name}: spec.capacity.storage: {error}; no claim is given it")
        self.volumes[name] = volume
        self._of_class.setdefault(class_of_volume(volume), set()).add(name)
        if (reference := volume.spec.claimRef) is not None:
            self._promised.setdefault(ObjectKey(reference.namespace, reference.name), set()).add(name)
        self._touch_users_of(volume)

    def drop_volume(self, name: str) -> None:
        self._forget_volume(name)

    def put_class(self, storage_class: StorageClass) -> None:
        self.classes[storage_class.metadata.name] = storage_class
        self._class_changed(storage_class.metadata.name)

    def drop_class(self, name: str) -> None:
        self.classes.pop(name, None)
        self._class_changed(name)

    def put_csi_node(self, node: CSINode) -> None:
        before = self.drivers.nodes.get(node.metadata.name)
        if before is None or before.spec != node.spec:
            limited = self.drivers.limited
            self.drivers.put_node(node)
            self._limits_changed(limited)

    def drop_csi_node(self, name: str) -> None:
        limited = self.drivers.limited
        self.drivers.drop_node(name)
        self._limits_changed(limited)

    def put_csi_driver(self, driver: CSIDriver) -> None:
        self.drivers.drivers[driver.metadata.name] = driver
        self._driver_changed(driver.metadata.name)

    def drop_csi_driver(self, name: str) -> None:
        self.drivers.drivers.pop(name, None)
        self._driver_changed(name)

    def put_capacity(self, capacity: CSIStorageCapacity) -> None:
        before = self.drivers.capacities.get(capacity.key)
        self.drivers.put_capacity(capacity)
        for name in {capacity.storageClassName, before.storageClassName if before is not None else ""}:
            self._class_changed(name)

    def drop_capacity(self, key: ObjectKey) -> None:
        before = self.drivers.capacities.get(key)
        if before is not None:
            self.drivers.drop_capacity(key)
            self._class_changed(before.storageClassName)

    def forget_pod(self, pod: ObjectKey) -> None:
        self._promise(pod, {})
        self._dirty.update(self._users.put(pod, ()))

    # What pods ask

    def storage_of(self, key: ObjectKey, pod: Pod, node: str = "", chosen: Mapping[str, str] = NOT_BOUND) -> PodStorage:
        """The state of the pod's claims; from now on changes of these make the pod dirty.

        `node`: where the pod is being bound; `chosen`: by claim name, the volumes that it will have there.
        """
        wanted = list(claims_of(pod))
        if not wanted and key not in self._users.pods:  # nearly all pods: they have no volumes with claims
            return NO_STORAGE
        names = tuple(dict.fromkeys(claim for claim, _ in wanted))
        self._dirty.update(self._users.put(key, names))
        if not wanted:
            return NO_STORAGE
        problem = next((text for claim, own in wanted if (text := self._problem_with(claim, pod, own=own))), "")
        claims = [self.claims[name] for name in names if name in self.claims]
        open_ = [each for each in claims if not is_bound(each)]
        promised = {each.key: Promise(node, chosen.get(each.key.name, "")) for each in open_} if node else {}
        self._promise(key, promised)
        exclusive = tuple(claim.key for claim in claims if ONE_POD in claim.spec.accessModes)
        problem = problem or next((text for claim in open_ if (text := self._why_unbound(claim))), "")
        if problem:
            return PodStorage(None, exclusive, problem, attached=self._attached(claims))
        answers = {claim.key: self._answer(claim) for claim in open_}
        needs = needs_of(claims, answers, self.volumes)
        attached = self._attached(claims)
        served = sorted(open_, key=lambda claim: answers[claim.key].offer.size)
        contest = self._contest(served, answers, attached, claims)
        return PodStorage(needs, exclusive, "", contest, tuple(claim.key for claim in served), attached)

    def being_made(self) -> tuple[BeingMade, ...]:
        """Volumes that will be provisioned for pods that are being bound."""
        found = []
        for claim, promise in self._promises.of_claims():
            known = self.claims.get(claim)
            if known is None or promise.volume or SELECTED_NODE_ANNOTATION in known.metadata.annotations:
                continue
            try:
                found.append(BeingMade(class_of(known), promise.node, demand_of(known).size))
            except InvalidClaim:
                continue
        return tuple(sorted(found))

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
        if own and not is_made_for(claim, pod):
            return f"PVC {key} was not created for pod {pod.key} (pod is not owner)"
        return None

    def _why_unbound(self, claim: PersistentVolumeClaim) -> str:
        """Why nothing can be done for a claim that isn't bound; empty when it only waits for its pod's node."""
        name = class_of(claim)
        storage_class = self.classes.get(name)
        if not waits_for_pod(claim, storage_class):
            text = "pod has unbound immediate PersistentVolumeClaims"
            if name and storage_class is None and not claim.spec.volumeName:
                text += f': persistentvolumeclaim "{claim.key.name}": spec.storageClassName: there is no class "{name}"'
            return text
        try:
            demand_of(claim)
        except InvalidClaim as error:
            return f'persistentvolumeclaim "{claim.key.name}": {error}'
        return ""

    def _contest(
        self,
        open_: Sequence[PersistentVolumeClaim],
        answers: Mapping[ObjectKey, Answer],
        attached: Sequence[Attachment],
        claims: Iterable[PersistentVolumeClaim],
    ) -> Contest | None:
        """None for a pod that takes nothing from others: its claims are bound, and can be attached without limit."""
        if not open_ and not attached:
            return None
        shared = {claim.key for claim in claims if self._users.are_several(claim.key)}
        in_common = {each for claim in claims if claim.key in shared for each in self._attached([claim])}
        own = Counter(each.driver for each in attached if each not in in_common)
        return Contest(
            tuple(
                OpenClaim(
                    answers[claim.key].offer,
                    claim.key if claim.key in shared else None,
                    is_for_one_node(claim),
                )
                for claim in open_
            ),
            tuple(sorted(own.items())),
            tuple(each for each in attached if each in in_common),
        )

    def _attached(self, claims: Iterable[PersistentVolumeClaim]) -> tuple[Attachment, ...]:
        """The volumes of drivers with a limit. One that isn't there yet is known by its claim."""
        limited = self.drivers.limits()
        if not limited:
            return ()
        found: dict[Attachment, None] = {}
        for claim in claims:
            volume = self.volumes.get(claim.spec.volumeName) if claim.spec.volumeName else None
            storage_class = self.classes.get(class_of(claim))
            attachment = None
            if volume is not None:
                attachment = attachment_of(volume)
            elif storage_class is not None and can_be_made(storage_class):
                attachment = Attachment(driver_of(storage_class), f"claim {claim.key}")
            if attachment is not None and attachment.driver in limited:
                found[attachment] = None
        return tuple(sorted(found))

    def _answer(self, claim: PersistentVolumeClaim) -> Answer:
        demand = demand_of(claim)
        promise = self._promises.for_claim(claim.key)
        promised = promise.volume
        if not promised:
            names = sorted(self._promised.get(claim.key, ()))
            volumes = (self.volumes[name] for name in names)
            usable = (each.metadata.name for each in volumes if is_promised_to(each, claim) and suits(each, demand))
            promised = next(usable, "")
        selected = "" if promised else claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION, "") or promise.node
        question = Question(demand, promised, selected)
        version = self._versions[demand.storage_class]
        known = self._answers.get(question)
        if known is not None and known[0] == version:
            return known[1]
        found = self._ask(question)
        # an equal offer stays the same object, which keeps pods in their class
        if known is not None and same(known[1], found):
            found = known[1]
        if len(self._answers) > MOST_ANSWERS:
            self._answers.clear()
        self._answers[question] = (version, found)
        return found

    def _ask(self, question: Question) -> Answer:
        name = question.demand.storage_class
        storage_class = self.classes[name]
        volumes = [self.volumes[each] for each in sorted(self._of_class.get(name, ()))]
        return answer(question, volumes, self._promises.taken, storage_class, self.drivers.rooms(storage_class))

    # Keeping order

    def _promise(self, pod: ObjectKey, promised: Mapping[ObjectKey, Promise]) -> None:
        """Notes what the pod, being bound, will have; those who might have had it are looked at again."""
        for claim, volume in self._promises.put(pod, promised):
            self._dirty.update(each for each in self._users.of(claim) if each != pod)
            if volume in self.volumes:
                self._class_changed(class_of_volume(self.volumes[volume]), but=pod)

    def _forget_claim(self, claim: PersistentVolumeClaim | None) -> None:
        if claim is not None:
            self._open.get(class_of(claim), set()).discard(claim.key)
            self._by_volume.get(claim.spec.volumeName, set()).discard(claim.key)

    def _forget_volume(self, name: str) -> None:
        volume = self.volumes.get(name)
        if volume is None:
            return
        self.unread.discard(volume.key)
        self._touch_users_of(volume)
        self._of_class[class_of_volume(volume)].discard(name)
        if (reference := volume.spec.claimRef) is not None:
            self._promised[ObjectKey(reference.namespace, reference.name)].discard(name)
        del self.volumes[name]

    def _touch_users_of(self, volume: PersistentVolume) -> None:
        """Pods whose claim is bound to the volume, or might yet be."""
        self._dirty.update(self._users_of(self._by_volume.get(volume.metadata.name, ())))
        self._class_changed(class_of_volume(volume))

    def _class_changed(self, name: str, *, but: ObjectKey | None = None) -> None:
        self._versions[name] += 1
        self._dirty.update(pod for pod in self._users_of(self._open.get(name, ())) if pod != but)

    def _driver_changed(self, name: str) -> None:
        for each in self.classes.values():
            if driver_of(each) == name:
                self._class_changed(each.metadata.name)

    def _limits_changed(self, limited_before: frozenset[str]) -> None:
        if limited_before != self.drivers.limited:
            self._dirty.update(self._users.pods)

    def _users_of(self, claims: Iterable[ObjectKey]) -> Iterator[ObjectKey]:
        return (pod for claim in claims for pod in self._users.of(claim))


def _same(before: PersistentVolumeClaim, after: PersistentVolumeClaim) -> bool:
    """Whether nothing changed that a pod's storage depends on."""
    left, right = before.metadata, after.metadata
    return (
        before.spec == after.spec
        and before.status.phase == after.status.phase
        and left.annotations == right.annotations
        and left.deletionTimestamp == right.deletionTimestamp
        and left.ownerReferences == right.ownerReferences
        and left.uid == right.uid
    )
