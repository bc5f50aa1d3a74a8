"""VolumeBinding: binds or provisions the volumes of a pod's claims before the pod is bound.

For each open claim the scheduler names a volume, or says that one is provisioned. Written are the two things that
Kubernetes' own scheduler writes: `claimRef` on the volume, or the selected-node annotation on the claim. Volume
controllers and provisioners do the rest; the attempt is postponed meanwhile, without occupying a worker, and is
enqueued when a claim changes. All state is in these objects, so another binder can continue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bosket.api.core import Node, PersistentVolume, PersistentVolumeClaim, Pod
from bosket.api.kai import BindRequest
from bosket.api.object import ObjectKey
from bosket.api.storage import StorageClass
from bosket.kube.errors import Conflict, NotFound, ServerError, TransportError
from bosket.kube.informer import Change
from bosket.kube.volume import (
    SELECTED_NODE_ANNOTATION,
    best_volume,
    can_be_made,
    chosen_volumes,
    claims_of,
    class_of,
    is_bound,
    is_for_one_node,
    is_free,
    is_promised_to,
    reaches,
    waits_for_pod,
)
from bosket.runtime.service import Environment
from bosket.services.binder.plugin import Attempt, BindPlugin, NotYet
from bosket.services.binder.verdict import attempts_left, is_done
from bosket.services.binder.volume_claim import (
    VolumesRefused,
    annotated,
    check_claim,
    check_volume,
    promised_to,
    promised_to_nobody,
    understood,
    was_chosen_here,
)

DEFAULT_TIMEOUT_SECONDS: Final = 120.0
#: After somebody else changed the same object.
_AFTER_CONFLICT_SECONDS: Final = 0.5
#: How often something is taken back that others change at the same time.
_TRIES: Final = 5


class VolumeBinding(BindPlugin):
    """The plugin; pods without claims cost nothing."""

    name = "volumebinding"
    priority = 300

    def __init__(self, env: Environment, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        self._client = env.client
        self._clock = env.clock
        self._timeout = timeout_seconds
        self._claims = env.informers.of(PersistentVolumeClaim)
        self._pods = env.informers.of(Pod)
        self._requests = env.informers.of(BindRequest)
        self._since: dict[str, float] = {}  # request's uid → when its volumes were first asked for
        self._selected: dict[str, set[ObjectKey]] = {}  # request's uid → claims that got the annotation with its node
        self._waiting: dict[ObjectKey, set[ObjectKey]] = {}  # claim → requests

    def attend(self, come_again: Callable[[ObjectKey], None]) -> None:
        def changed(change: Change[PersistentVolumeClaim]) -> None:
            claim = change.new or change.old
            for request in self._waiting.pop(claim.key, ()) if claim is not None else ():
                come_again(request)

        def gone(change: Change[BindRequest]) -> None:
            if change.new is None and change.old is not None:
                self._since.pop(change.old.metadata.uid, None)
                self._selected.pop(change.old.metadata.uid, None)

        self._claims.subscribe(changed)
        self._requests.subscribe(gone)

    async def pre_bind(self, attempt: Attempt) -> None:
        wanted = list(claims_of(attempt.pod)) if attempt.pod.spec.volumes else []
        if not wanted:
            return
        pending: list[PersistentVolumeClaim] = []
        for key, _ in wanted:  # registered before reading, so that no change is missed
            self._waiting.setdefault(key, set()).add(attempt.request.key)
        for key, own in dict(wanted).items():
            claim = await self._read_claim(key)
            check_claim(claim, attempt.pod, own=own)
            if is_bound(claim):
                await self._check_reach(claim, attempt.node)
            else:
                pending.append(claim)
        if not pending:
            self._forget(attempt)
            return
        uid = attempt.request.metadata.uid
        waited = self._clock.monotonic() - self._since.setdefault(uid, self._clock.monotonic())
        try:
            for claim in sorted(pending, key=lambda claim: understood(claim).size):
                await self._see_to(claim, attempt)
        except Conflict as conflict:
            raise NotYet(str(conflict), _AFTER_CONFLICT_SECONDS) from conflict
        if waited >= self._timeout:
            names = ", ".join(sorted(claim.key.name for claim in pending))
            raise VolumesRefused(f"persistentvolumeclaims {names} were not bound within {self._timeout:.0f} s")
        raise NotYet("its volumes are not bound yet", self._timeout - waited)

    async def post_bind(self, attempt: Attempt) -> None:
        self._forget(attempt)

    async def rollback(self, attempt: Attempt) -> None:
        """Removes annotations and references; claims that are bound already stay bound."""
        self._forget(attempt)
        for key in dict(claims_of(attempt.pod)):
            for _ in range(_TRIES):
                try:
                    await self._take_back(key, attempt)
                except (Conflict, ServerError, TransportError) as error:
                    failure = error  # a concurrent writer, or no answer: try again
                    await self._clock.sleep(_AFTER_CONFLICT_SECONDS)
                else:
                    break
            else:
                raise failure

    async def _take_back(self, key: ObjectKey, attempt: Attempt) -> None:
        try:
            claim = await self._client.get(PersistentVolumeClaim, key.name, key.namespace)
        except NotFound:
            return
        if claim.spec.volumeName or self._is_wanted_by_others(key, attempt):
            return
        if claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION) == attempt.node.metadata.name:
            await self._client.modify(claim, annotated(claim, SELECTED_NODE_ANNOTATION, None))
        volume = await self._promised(claim, attempt)
        if volume is not None and volume.status.phase != "Bound" and was_chosen_here(volume):
            await self._client.modify(volume, promised_to_nobody(volume))

    # One claim

    async def _see_to(self, claim: PersistentVolumeClaim, attempt: Attempt) -> None:
        """Writes what an open claim lacks; raises if it can't be bound on this node."""
        storage_class = await self._read_class(class_of(claim))
        if not waits_for_pod(claim, storage_class):
            if claim.spec.volumeName:  # on its way
                return
            raise VolumesRefused(
                f"persistentvolumeclaim {claim.key} is not bound, and its class doesn't wait for a pod"
            )
        assert storage_class is not None
        promised = await self._promised(claim, attempt)
        if promised is not None:
            check_volume(promised, claim, attempt.node)
            return
        if await self._is_being_made(claim, attempt):
            return
        volume = await self._choose(claim, attempt)
        if volume is not None:
            check_volume(volume, claim, attempt.node)
            if not is_free(volume):
                raise VolumesRefused(f"persistentvolume {volume.metadata.name} was given to another claim")
            await self._client.modify(volume, promised_to(volume, claim))
            return
        if not can_be_made(storage_class):
            raise VolumesRefused(f"there is no persistentvolume for persistentvolumeclaim {claim.key} on the node")
        node = attempt.node.metadata.name
        await self._client.modify(claim, annotated(claim, SELECTED_NODE_ANNOTATION, node))
        self._selected.setdefault(attempt.request.metadata.uid, set()).add(claim.key)

    async def _is_being_made(self, claim: PersistentVolumeClaim, attempt: Attempt) -> bool:
        node, selected = attempt.node.metadata.name, claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION)
        if not selected:
            if claim.key in self._selected.get(attempt.request.metadata.uid, ()):
                raise VolumesRefused(f"no volume could be made for persistentvolumeclaim {claim.key} on node {node}")
            return False
        # One that pods on several nodes may use is waited for: where it can be reached shows when it is there.
        if selected != node and is_for_one_node(claim):
            raise VolumesRefused(f"a volume is being made for persistentvolumeclaim {claim.key} on node {selected}")
        return True

    async def _promised(self, claim: PersistentVolumeClaim, attempt: Attempt) -> PersistentVolume | None:
        """The volume that names the claim already."""
        chosen = chosen_volumes(attempt.request)
        if claim.key.name in chosen:
            name = chosen[claim.key.name]
            volume = await self._read_volume(name) if name else None
            return volume if volume is not None and is_promised_to(volume, claim) else None
        volumes = (await self._client.list(PersistentVolume)).items
        return next((each for each in volumes if is_promised_to(each, claim)), None)

    async def _choose(self, claim: PersistentVolumeClaim, attempt: Attempt) -> PersistentVolume | None:
        """What the scheduler chose; a scheduler that says nothing leaves it to us. None: make one."""
        chosen = chosen_volumes(attempt.request)
        if claim.key.name in chosen:
            name = chosen[claim.key.name]
            if not name:
                return None
            volume = await self._read_volume(name)
            if volume is None:
                raise VolumesRefused(f"persistentvolume {name}, chosen for persistentvolumeclaim {claim.key}, is gone")
            return volume
        volumes = (await self._client.list(PersistentVolume)).items
        within_reach = [each for each in volumes if reaches(attempt.node, each)]
        return best_volume(claim, understood(claim), within_reach)

    async def _check_reach(self, claim: PersistentVolumeClaim, node: Node) -> None:
        volume = await self._read_volume(claim.spec.volumeName)
        if volume is None:
            raise VolumesRefused(
                f"persistentvolumeclaim {claim.key} is bound to persistentvolume {claim.spec.volumeName}, which is gone"
            )
        if not reaches(node, volume):
            raise VolumesRefused(
                f"persistentvolume {volume.metadata.name} of persistentvolumeclaim {claim.key} can't be reached "
                f"from node {node.metadata.name}"
            )

    def _is_wanted_by_others(self, claim: ObjectKey, attempt: Attempt) -> bool:
        """Whether another pod that is being bound to the node uses the claim."""
        for request in self._requests.store:
            if request.key == attempt.request.key or is_done(request) or not attempts_left(request):
                continue
            if request.spec.selectedNode != attempt.node.metadata.name or request.key.namespace != claim.namespace:
                continue
            pod = self._pods.store.get(ObjectKey(claim.namespace, request.spec.podName))
            if pod is not None and any(key == claim for key, _ in claims_of(pod)):
                return True
        return False

    # Reading

    async def _read_claim(self, key: ObjectKey) -> PersistentVolumeClaim:
        known = self._claims.store.get(key)
        if known is not None and is_bound(known) and known.metadata.deletionTimestamp is None:
            return known
        try:
            return await self._client.get(PersistentVolumeClaim, key.name, key.namespace)
        except NotFound:
            raise VolumesRefused(f"persistentvolumeclaim {key} was not found") from None

    async def _read_volume(self, name: str) -> PersistentVolume | None:
        try:
            return await self._client.get(PersistentVolume, name)
        except NotFound:
            return None

    async def _read_class(self, name: str) -> StorageClass | None:
        try:
            return await self._client.get(StorageClass, name) if name else None
        except NotFound:
            return None

    def _forget(self, attempt: Attempt) -> None:
        self._since.pop(attempt.request.metadata.uid, None)
        self._selected.pop(attempt.request.metadata.uid, None)
        for key, _ in claims_of(attempt.pod):
            requests = self._waiting.get(key)
            if requests is not None:
                requests.discard(attempt.request.key)
                if not requests:
                    del self._waiting[key]
