"""Creating and deleting pods for a workload, with a memory of what was just done.

Caches lag behind. A pod that was created is laid over the informer's store at once, so that nobody creates it again;
one that was deleted is remembered as going until it is gone, so that nobody picks another in its place.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from bosket.api.core import Pod
from bosket.api.object import KubeObject, LabelSelector, OwnerReference
from bosket.api.ownership import BY_CONTROLLER, controller_index, controller_reference, orphans_in
from bosket.api.pod_phase import has_ended
from bosket.embedded.controllers.adoption import still_there
from bosket.embedded.controllers.pods import is_terminating
from bosket.kube.errors import ApiError, Conflict, NotFound
from bosket.kube.informer import Change
from bosket.kube.selector import label_selector
from bosket.runtime.service import Environment


class PodControl:
    """The pods of one kind of workload; `component` reports the events."""

    def __init__(self, environment: Environment, component: str) -> None:
        self.informer = environment.informers.of(Pod)
        self.informer.add_index(BY_CONTROLLER, controller_index)
        self.informer.subscribe(self._observe)
        self._client = environment.client
        self._events = environment.events.for_component(component)
        self._deleted: set[str] = set()

    def of(self, owner: KubeObject) -> list[Pod]:
        """The pods that `owner` controls, by name."""
        pods = self.informer.store.by_index(BY_CONTROLLER, owner.metadata.uid)
        return sorted(pods, key=lambda pod: pod.metadata.name)

    async def claim(
        self, owner: KubeObject, selector: LabelSelector | None, accepts: Callable[[Pod], bool] = lambda _: True
    ) -> list[Pod]:
        """The pods of `owner` by name, once it took in orphans that it selects and let go of what it doesn't.

        Of the orphans it takes only those that it `accepts`.
        """
        wanted = label_selector(selector)
        pods = self.of(owner)
        mine = [pod for pod in pods if wanted.matches(pod.metadata.labels) or self.is_going(pod)]
        if owner.metadata.deletionTimestamp is not None:
            return mine
        for pod in pods:
            if pod not in mine:
                await self._write_owners(pod, lambda each: each.uid != owner.metadata.uid)
        orphans = [
            pod
            for pod in self.informer.store.by_index(BY_CONTROLLER, orphans_in(owner.metadata.namespace))
            if wanted.matches(pod.metadata.labels) and not self.is_going(pod) and not has_ended(pod) and accepts(pod)
        ]
        if orphans and await still_there(self._client, owner):
            for pod in orphans:
                mine.append(await self._write_owners(pod, lambda _: True, controller_reference(owner)))
        return sorted(mine, key=lambda pod: pod.metadata.name)

    def is_going(self, pod: Pod) -> bool:
        """Whether the pod was asked to end, by us or by others."""
        return is_terminating(pod) or self.deleted_here(pod)

    def deleted_here(self, pod: Pod) -> bool:
        return pod.metadata.uid in self._deleted

    async def create(self, owner: KubeObject, pod: Pod) -> Pod:
        try:
            created = await self._client.create(pod, owner.metadata.namespace)
        except ApiError as error:
            self._events.event(owner, "Warning", "FailedCreate", f"Error creating: {error.message}")
            raise
        self.informer.store.put(created)
        self._events.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {created.metadata.name}")
        return created

    async def delete(self, owner: KubeObject, pod: Pod) -> None:
        """Ask for the pod's end, once."""
        if self.is_going(pod):
            return
        uid = pod.metadata.uid
        self._deleted.add(uid)  # before the request: others may look while it is under way
        try:
            await self._client.delete(Pod, pod.metadata.name, pod.metadata.namespace, uid=uid)
        except (NotFound, Conflict):
            return  # gone already; the informer will say so
        except BaseException:
            self._deleted.discard(uid)
            raise
        self._events.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")

    async def _write_owners(self, pod: Pod, keep: Callable[[OwnerReference], bool], *added: OwnerReference) -> Pod:
        owners = (*(each for each in pod.metadata.ownerReferences if keep(each)), *added)
        after = replace(pod, metadata=replace(pod.metadata, ownerReferences=owners))
        written = await self._client.modify(pod, after)
        self.informer.store.put(written)
        return written

    def _observe(self, change: Change[Pod]) -> None:
        gone = change.old
        if gone is None or (change.new is not None and change.new.metadata.uid == gone.metadata.uid):
            return
        self._deleted.discard(gone.metadata.uid)
