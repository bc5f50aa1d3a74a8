"""The StatefulSet controller: pods with stable names and claims of their own, brought up, updated and removed in order.

`stateful_plan` decides, this module carries out. Claims are made with the pod that needs them and are kept when the
set shrinks.
"""

from __future__ import annotations

from msgspec.structs import replace

from bosket.api.apps import ControllerRevision, StatefulSet, StatefulSetStatus
from bosket.api.core import Pod
from bosket.api.object import ObjectKey
from bosket.api.pod_phase import has_ended
from bosket.embedded.controllers.adoption import sets_by_pod
from bosket.embedded.controllers.pod_control import PodControl
from bosket.embedded.controllers.pods import is_ready, seconds_until_available
from bosket.embedded.controllers.revision_history import (
    RevisionHistory,
    revision_of,
    sets_by_revision,
    template_of,
)
from bosket.embedded.controllers.stateful_plan import Members, partition_of, plan
from bosket.embedded.controllers.stateful_pod import claims_of, new_pod, ordinal_of
from bosket.kube.errors import AlreadyExists, NotFound
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment


class StatefulSetController:
    """Keeps every StatefulSet's pods; a `Service`."""

    name = "statefulset-controller"

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._clock = environment.clock
        self._sets = environment.informers.of(StatefulSet)
        self._revisions = RevisionHistory(environment)
        self._pods = PodControl(environment, self.name)
        self._controller: Controller[ObjectKey] = Controller(
            self.name, self._reconcile, workers=4, clock=self._clock, metrics=environment.metrics
        )
        self._controller.watch(self._sets, lambda each: (each.key,))
        self._controller.watch(self._pods.informer, sets_by_pod("StatefulSet", self._sets))
        self._controller.watch(self._revisions.informer, sets_by_revision("StatefulSet"))

    async def run(self) -> None:
        """Until cancelled."""
        await self._controller.run()

    async def _reconcile(self, key: ObjectKey) -> float | None:
        owner = self._sets.store.get(key)
        if owner is None or owner.metadata.deletionTimestamp is not None:
            return None
        try:
            return await self._step(owner)
        except NotFound:
            return None  # it went away meanwhile, or its namespace

    async def _step(self, owner: StatefulSet) -> float | None:
        pods = await self._pods.claim(
            owner, owner.spec.selector, accepts=lambda pod: ordinal_of(pod, owner) is not None
        )
        update = await self._revisions.present(owner)
        current = next(
            (each for each in self._revisions.of(owner) if each.metadata.name == owner.status.currentRevision), update
        )
        members = Members(owner, pods, update.metadata.name, self._pods.is_going, self._clock.now())
        wanted = plan(members)
        for pod in wanted.delete:
            await self._pods.delete(owner, pod)
        for ordinal in wanted.create:
            await self._create(owner, current if ordinal < partition_of(owner) else update, ordinal)
        pods = self._pods.of(owner)
        status = self._status(owner, pods, current, update)
        after = replace(owner, status=status)
        self._sets.store.put(await self._client.modify(owner, after, subresource="status"))
        in_use = {status.currentRevision, status.updateRevision, *(revision_of(pod) for pod in pods)}
        await self._revisions.truncate(owner, in_use)
        waits = (seconds_until_available(pod, owner.spec.minReadySeconds, members.now) for pod in pods)
        return min((wait for wait in waits if wait), default=None)

    async def _create(self, owner: StatefulSet, revision: ControllerRevision, ordinal: int) -> None:
        for claim in claims_of(owner, ordinal):
            try:
                await self._client.create(claim, owner.metadata.namespace)
            except AlreadyExists:
                continue  # the claim of the pod's predecessor
        await self._pods.create(owner, new_pod(owner, template_of(revision), revision.metadata.name, ordinal))

    def _status(
        self, owner: StatefulSet, pods: list[Pod], current: ControllerRevision, update: ControllerRevision
    ) -> StatefulSetStatus:
        now = self._clock.now()
        staying = [pod for pod in pods if not self._pods.is_going(pod) and not has_ended(pod)]
        ready = [pod for pod in pods if is_ready(pod) and not has_ended(pod)]
        updated = sum(revision_of(pod) == update.metadata.name for pod in staying)
        if updated == len(pods) == len(ready):
            current = update  # the rollout is over
        return replace(
            owner.status,
            observedGeneration=owner.metadata.generation,
            replicas=len(pods),
            readyReplicas=len(ready),
            availableReplicas=sum(seconds_until_available(pod, owner.spec.minReadySeconds, now) == 0 for pod in ready),
            currentReplicas=sum(revision_of(pod) == current.metadata.name for pod in staying),
            updatedReplicas=updated,
            currentRevision=current.metadata.name,
            updateRevision=update.metadata.name,
            collisionCount=owner.status.collisionCount or 0,
        )
