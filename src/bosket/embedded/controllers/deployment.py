"""The Deployment controller: one ReplicaSet per template, and a rollout from the old ones to the new.

Each reconciliation takes one step (`deployment_scale` says which); the sets' pods coming and going bring the next.
Revisions are numbered on the sets, so that `kubectl rollout history` and `undo` work. Sets are found by their
controller's UID; orphans that the deployment selects are taken in when it is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from bosket.api.apps import Deployment, DeploymentStatus, ReplicaSet, ReplicaSetSpec
from bosket.api.condition import find_condition
from bosket.api.core import Pod, PodTemplateSpec
from bosket.api.object import LabelSelector, ObjectKey, ObjectMeta
from bosket.api.ownership import (
    BY_CONTROLLER,
    controller_index,
    controller_of,
    controller_reference,
)
from bosket.api.pod_phase import has_ended
from bosket.api.quantity import integer_or_none
from bosket.embedded.controllers import deployment_scale as scale
from bosket.embedded.controllers.adoption import take_in
from bosket.embedded.controllers.deployment_scale import DESIRED, MAXIMUM, Resize, replicas_of
from bosket.embedded.controllers.deployment_status import (
    PROGRESSING,
    is_complete,
    progress_note,
    rollout_status,
    seconds_until_deadline,
    with_condition,
)
from bosket.embedded.controllers.revision_history import hash_of
from bosket.kube.errors import AlreadyExists, Conflict, NotFound
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

_HASH: Final = "pod-template-hash"
_REVISION: Final = "deployment.kubernetes.io/revision"
#: Annotations of a deployment that say nothing about its sets.
_OWN_ANNOTATIONS: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration", _REVISION, DESIRED, MAXIMUM})
_DEFAULT_HISTORY: Final = 10


class DeploymentController:
    """Rolls out every Deployment; a `Service`."""

    name = "deployment-controller"

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._clock = environment.clock
        self._events = environment.events.for_component(self.name)
        self._deployments = environment.informers.of(Deployment)
        self._sets = environment.informers.of(ReplicaSet)
        self._pods = environment.informers.of(Pod)
        self._sets.add_index(BY_CONTROLLER, controller_index)
        self._pods.add_index(BY_CONTROLLER, controller_index)
        self._controller: Controller[ObjectKey] = Controller(
            self.name, self._reconcile, workers=4, clock=self._clock, metrics=environment.metrics
        )
        self._controller.watch(self._deployments, lambda each: (each.key,))
        self._controller.watch(self._sets, _deployment_of)
        # Only the end of a pod matters beyond what its set reports: a Recreate waits for it.
        self._pods.subscribe(lambda change: self._pod_gone(change.old) if change.new is None and change.old else None)

    async def run(self) -> None:
        """Until cancelled."""
        await self._controller.run()

    def _pod_gone(self, pod: Pod) -> None:
        owner = controller_of(pod)
        if owner is not None and owner.kind == "ReplicaSet":
            owning_set = self._sets.store.get(ObjectKey(pod.metadata.namespace, owner.name))
            for key in _deployment_of(owning_set) if owning_set is not None else ():
                self._controller.queue.add(key)

    async def _reconcile(self, key: ObjectKey) -> float | None:
        deployment = self._deployments.store.get(key)
        if deployment is None or deployment.metadata.deletionTimestamp is not None:
            return None
        try:
            status = await self._step(deployment)
            present = self._deployments.store.get(key) or deployment
            after = replace(present, status=status)
            self._deployments.store.put(await self._client.modify(present, after, subresource="status"))
        except NotFound:
            return None  # it went away meanwhile, or its namespace
        return seconds_until_deadline(deployment, status, self._clock.now())

    async def _step(self, deployment: Deployment) -> DeploymentStatus:
        """Do what comes next, and say how things are."""
        await take_in(self._client, self._sets, deployment, deployment.spec.selector)
        sets = self._sets.store.by_index(BY_CONTROLLER, deployment.metadata.uid)
        sets.sort(key=lambda each: (each.metadata.creationTimestamp or "", each.metadata.name))
        new = next((each for each in sets if _same_template(each, deployment)), None)
        old = [each for each in sets if each is not new]
        deployment = self._noting_pause(deployment)
        if deployment.spec.paused or scale.was_resized(deployment, sets):
            await self._resize_all(deployment, scale.resize(deployment, new, old))
            return self._status(deployment, new, old)
        # A Recreate has no new set while old pods are there.
        if scale.is_rolling(deployment) or not await self._end_old(deployment, old):
            deployment, new = await self._bring_new(deployment, new, old)
            grown = await self._grow_new(deployment, new, old)
            if not grown and scale.is_rolling(deployment):
                await self._resize_all(deployment, scale.shrink_old(deployment, new, old))
        status = self._status(deployment, new, old)
        if is_complete(deployment, status):
            await self._forget_history(deployment, old)
        return status

    def _status(self, deployment: Deployment, new: ReplicaSet | None, old: list[ReplicaSet]) -> DeploymentStatus:
        """From the sets as they are by now."""
        present = {
            each.metadata.uid: each for each in self._sets.store.by_index(BY_CONTROLLER, deployment.metadata.uid)
        }
        newest = present.pop(new.metadata.uid, new) if new is not None else None
        before = [present[each.metadata.uid] for each in old if each.metadata.uid in present]
        return rollout_status(deployment, newest, before, self._clock.now())

    def _noting_pause(self, deployment: Deployment) -> Deployment:
        known = find_condition(deployment.status.conditions, PROGRESSING)
        was_paused = known is not None and known.reason == "DeploymentPaused"
        note = None
        if deployment.spec.paused and not was_paused:
            note = progress_note(deployment, "DeploymentPaused", "Deployment is paused", status="Unknown")
        elif was_paused and not deployment.spec.paused:
            note = progress_note(deployment, "DeploymentResumed", "Deployment is resumed", status="Unknown")
        if note is None:
            return deployment
        return replace(deployment, status=with_condition(deployment.status, note, self._clock.now()))

    # --- the new set

    async def _bring_new(
        self, deployment: Deployment, new: ReplicaSet | None, old: list[ReplicaSet]
    ) -> tuple[Deployment, ReplicaSet]:
        """The set of the present template, made if need be, with the highest revision of all."""
        last = max((_revision(each) for each in old), default=0)
        if new is None:
            new = await self._create_set(deployment, old, last + 1)
            note = progress_note(deployment, "NewReplicaSetCreated", f'Created new replica set "{new.metadata.name}"')
        else:
            revision = _revision(new) if _revision(new) > last else last + 1
            new = await self._write_set(
                new, _annotations(deployment, new, revision), minimum=deployment.spec.minReadySeconds
            )
            known = find_condition(deployment.status.conditions, PROGRESSING)
            note = None
            if known is None:
                note = progress_note(deployment, "FoundNewReplicaSet", f'Found new replica set "{new.metadata.name}"')
        if note is not None:
            deployment = replace(deployment, status=with_condition(deployment.status, note, self._clock.now()))
        revision_note = str(_revision(new))
        if deployment.metadata.annotations.get(_REVISION) != revision_note:
            await self._write_revision(deployment, revision_note)
        return deployment, new

    async def _create_set(self, deployment: Deployment, old: list[ReplicaSet], revision: int) -> ReplicaSet:
        wanted = _new_set(deployment, revision, scale.size_of_new(deployment, old, 0))
        try:
            created = await self._client.create(wanted, deployment.metadata.namespace)
        except AlreadyExists:
            await self._resolve_collision(deployment, wanted)
            raise
        self._sets.store.put(created)
        size = replicas_of(created)
        if size > 0:
            self._report_size(deployment, created, 0, size)
        return created

    async def _resolve_collision(self, deployment: Deployment, wanted: ReplicaSet) -> None:
        """Another template has the same hash: count the collision, which gives the next attempt another name."""
        taken = await self._client.get(ReplicaSet, wanted.metadata.name, deployment.metadata.namespace)
        owner = controller_of(taken)
        if owner is not None and owner.uid == deployment.metadata.uid and _same_template(taken, deployment):
            self._sets.store.put(taken)
            return
        count = (deployment.status.collisionCount or 0) + 1
        patch = {"status": {"collisionCount": count}}
        name, namespace = deployment.key.name, deployment.key.namespace
        written = await self._client.patch(Deployment, name, patch, namespace=namespace, subresource="status")
        self._deployments.store.put(written)

    async def _grow_new(self, deployment: Deployment, new: ReplicaSet, old: list[ReplicaSet]) -> bool:
        size = scale.size_of_new(deployment, old, replicas_of(new))
        return await self._resize_all(deployment, [Resize(new, size)])

    # --- the old sets

    async def _end_old(self, deployment: Deployment, old: list[ReplicaSet]) -> bool:
        """For a Recreate: take old pods away; true while there are any."""
        shrunk = await self._resize_all(deployment, [Resize(each, 0) for each in old])
        return shrunk or any(
            not has_ended(pod) for each in old for pod in self._pods.store.by_index(BY_CONTROLLER, each.metadata.uid)
        )

    async def _forget_history(self, deployment: Deployment, old: list[ReplicaSet]) -> None:
        limit = deployment.spec.revisionHistoryLimit
        empty = [
            each
            for each in old
            if replicas_of(each) == each.status.replicas == 0
            and each.status.observedGeneration >= each.metadata.generation
            and each.metadata.deletionTimestamp is None
        ]
        empty.sort(key=_revision)
        surplus = len(empty) - (_DEFAULT_HISTORY if limit is None else limit)
        for each in empty[: max(0, surplus)]:
            try:
                await self._client.delete(
                    ReplicaSet,
                    each.metadata.name,
                    each.metadata.namespace,
                    uid=each.metadata.uid,
                    propagation="Background",
                )
            except (NotFound, Conflict):
                continue

    # --- writing

    async def _resize_all(self, deployment: Deployment, resizes: list[Resize]) -> bool:
        """Give the sets their sizes; whether any size changed."""
        changed = False
        for each, size in resizes:
            before = replicas_of(each)
            await self._write_set(each, {**each.metadata.annotations, **_sizes(deployment)}, size=size)
            if before != size:
                changed = True
                self._report_size(deployment, each, before, size)
        return changed

    async def _write_set(
        self, before: ReplicaSet, annotations: dict[str, str], *, size: int | None = None, minimum: int | None = None
    ) -> ReplicaSet:
        spec = before.spec
        if size is not None:
            spec = replace(spec, replicas=size)
        if minimum is not None:
            spec = replace(spec, minReadySeconds=minimum)
        after = replace(before, metadata=replace(before.metadata, annotations=annotations), spec=spec)
        written = await self._client.modify(before, after)
        self._sets.store.put(written)
        return written

    async def _write_revision(self, deployment: Deployment, revision: str) -> None:
        patch = {"metadata": {"annotations": {_REVISION: revision}}}
        name, namespace = deployment.key.name, deployment.key.namespace
        self._deployments.store.put(await self._client.patch(Deployment, name, patch, namespace=namespace))

    def _report_size(self, deployment: Deployment, each: ReplicaSet, before: int, size: int) -> None:
        direction = "up" if size > before else "down"
        message = f"Scaled {direction} replica set {each.metadata.name} from {before} to {size}"
        self._events.event(deployment, "Normal", "ScalingReplicaSet", message)


def _deployment_of(each: ReplicaSet) -> Iterable[ObjectKey]:
    owner = controller_of(each)
    if owner is None or owner.kind != "Deployment":
        return ()
    return (ObjectKey(each.metadata.namespace, owner.name),)


def _same_template(each: ReplicaSet, deployment: Deployment) -> bool:
    labels = {name: value for name, value in each.spec.template.metadata.labels.items() if name != _HASH}
    template = replace(each.spec.template, metadata=replace(each.spec.template.metadata, labels=labels))
    return template == deployment.spec.template


def _new_set(deployment: Deployment, revision: int, size: int) -> ReplicaSet:
    template = deployment.spec.template
    mark = {_HASH: hash_of(template, deployment.status.collisionCount)}
    labels = {**template.metadata.labels, **mark}
    selector = deployment.spec.selector or LabelSelector()
    return ReplicaSet(
        metadata=ObjectMeta(
            name=f"{deployment.metadata.name}-{mark[_HASH]}",
            namespace=deployment.metadata.namespace,
            labels=labels,
            annotations=_annotations(deployment, None, revision),
            ownerReferences=(controller_reference(deployment),),
        ),
        spec=ReplicaSetSpec(
            replicas=size,
            minReadySeconds=deployment.spec.minReadySeconds,
            selector=replace(selector, matchLabels={**selector.matchLabels, **mark}),
            template=PodTemplateSpec(metadata=replace(template.metadata, labels=labels), spec=template.spec),
        ),
    )


def _annotations(deployment: Deployment, each: ReplicaSet | None, revision: int) -> dict[str, str]:
    own = each.metadata.annotations if each is not None else _sizes(deployment)
    copied = {name: value for name, value in deployment.metadata.annotations.items() if name not in _OWN_ANNOTATIONS}
    return {**own, **copied, _REVISION: str(revision)}


def _sizes(deployment: Deployment) -> dict[str, str]:
    size = replicas_of(deployment)
    return {DESIRED: str(size), MAXIMUM: str(size + scale.bounds(deployment).surge)}


def _revision(each: ReplicaSet) -> int:
    text = each.metadata.annotations.get(_REVISION, "")
    return max(0, integer_or_none(text) or 0)
