"""CliquePods: creates the gated pods of PodCliques, with the backend's additions; releases and deletes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bosket.api.core import Pod
from bosket.api.grove import PodClique, PodCliqueSet, PodGang
from bosket.api.grove.naming import BASE_GANG_LABEL
from bosket.api.object import ObjectKey
from bosket.grove.backends import GangBackends, Refused, UnknownBackend
from bosket.grove.operator.cluster import Cluster
from bosket.grove.operator.event_text import about_pods
from bosket.grove.operator.problem import OperatorError, reported
from bosket.grove.render.pod import InitProgram, render_pod
from bosket.grove.status.pod_state import to_release, without_gang_gate
from bosket.kube.errors import ApiError, Conflict, NotFound
from bosket.runtime.concurrent import for_each
from bosket.runtime.events import EventRecorder


class CliquePods:
    """Creates, releases and deletes pods."""

    def __init__(
        self, cluster: Cluster, events: EventRecorder, backends: GangBackends, init_program: InitProgram
    ) -> None:
        self._cluster = cluster
        self._events = events
        self._backends = backends
        self._init_program = init_program

    async def create(self, owner: PodCliqueSet, clique: PodClique, gang: PodGang, indices: Iterable[int]) -> None:
        """Creates a gated pod for each index."""

        def prepare(pod: Pod) -> Pod:
            try:
                return self._backends.pod_additions(gang, pod)
            except (Refused, UnknownBackend) as error:
                raise OperatorError("ERR_BUILD_POD_RESOURCE", f"pods of {clique.key}: {error}") from error

        def render(index: int) -> Pod:
            return render_pod(owner, clique, index, init_program=self._init_program, prepare=prepare)

        left, names = list(indices), list[str]()
        try:
            # In growing batches, because an API error for one pod would hit all. The backend is asked per pod: once its
            # gang objects exist, new pods need no backend gate.
            while left:
                batch, left = left[: len(names) + 1], left[len(names) + 1 :]
                made = await for_each(list(map(render, batch)), self._cluster.create)
                names += [pod.metadata.name for pod in made]
        except ApiError as error:
            message = f"Error creating Pod of {clique.key}: {error.message}"
            self._events.event(clique, "Warning", "PodCreateFailed", message)
            raise OperatorError("ERR_CREATE_POD", f"failed to create Pod of {clique.key}: {error.message}") from error
        finally:
            if names:
                self._events.event(clique, "Normal", "PodCreateSuccessful", about_pods("Created", names))

    async def delete(self, clique: PodClique, pods: Sequence[Pod]) -> None:
        """Deletes these pods."""

        async def delete(pod: Pod) -> bool:
            what = f"Error deleting Pod {pod.metadata.name}"
            with reported(self._events, clique, "PodDeleteFailed", "ERR_DELETE_POD", what):
                return await self._cluster.delete(pod)

        deleted = await for_each(pods, delete)
        names = [pod.metadata.name for pod, is_done in zip(pods, deleted, strict=True) if is_done]
        if names:
            self._events.event(clique, "Normal", "PodDeleteSuccessful", about_pods("Deleted", names))

    async def release(self, clique: PodClique, gang: PodGang, pods: Sequence[Pod]) -> bool:
        """Removes gates whose condition is met; returns whether no gate is left."""
        part = next((each for each in gang.spec.podgroups if each.name == clique.metadata.name), None)
        referenced = {each.name for each in part.podReferences} if part is not None else set()
        released, some_wait = to_release(pods, referenced, base_scheduled=self._is_base_scheduled(clique))

        async def release(pod: Pod) -> bool:
            try:
                await self._cluster.write(pod, without_gang_gate(pod))
            except (NotFound, Conflict):
                return False  # changed or deleted meanwhile: reconciled again
            except ApiError as error:
                what = f"failed to remove scheduling gates from Pod {pod.key}: {error.message}"
                raise OperatorError("ERR_REMOVE_POD_SCHEDULING_GATE", what) from error
            return True

        return all(await for_each(released, release)) and not some_wait

    def _is_base_scheduled(self, clique: PodClique) -> bool:
        """Whether the base gang has its minimum, for a PodClique of a scaled gang."""
        base = clique.metadata.labels.get(BASE_GANG_LABEL)
        if base is None:
            return True
        namespace = clique.metadata.namespace
        gang = self._cluster.gangs.store.get(ObjectKey(namespace, base))
        if gang is None:
            return False
        for part in gang.spec.podgroups:
            found = self._cluster.cliques.store.get(ObjectKey(namespace, part.name))
            if found is None or found.status.scheduledReplicas < part.minReplicas:
                return False
        return True
