"""GpuPreparations: rolls back what pods got for a bind that nobody will carry out: a reconciler on pods.

A failed attempt rolls back its own preparations. But the process may die before, or the request may be deleted while no
binder runs. Then a pod without a node has labels of GPU groups, or ConfigMaps, and no request for them.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from bosket.api.core import ConfigMap, Pod
from bosket.api.kai import BindRequest
from bosket.api.object import ObjectKey
from bosket.kube.errors import Conflict, NotFound
from bosket.kube.informer import Informer
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment
from bosket.services.binder.group_label import has_traces, mark_given_up, without_groups
from bosket.services.binder.group_state import is_open
from bosket.services.binder.options import Options
from bosket.services.binder.plugin import Refused
from bosket.services.binder.shared_gpu_map import MAP_SELECTOR, SharedGpuMaps, owner_of

_log = logging.getLogger(__name__)

NAME: Final = "gpu-preparation"
_POD_INDEX: Final = "binder-pod"
_TRIES: Final = 5


class GpuPreparations:
    """Makes sure that a pod without a node has labels and ConfigMaps only while it is about to be bound."""

    def __init__(self, env: Environment, options: Options) -> None:
        self._client = env.client
        self._maps = SharedGpuMaps(env.client)
        self._pods: Informer[Pod] = env.informers.of(Pod)
        self._requests: Informer[BindRequest] = env.informers.of(BindRequest)
        self._made_maps: Informer[ConfigMap] = env.informers.of(ConfigMap, labels=MAP_SELECTOR)
        watch_requests_by_pod(self._requests)
        self._made_maps.add_index(_POD_INDEX, _map_owner_index)
        self._controller: Controller[ObjectKey] = Controller(
            NAME,
            self._reconcile,
            clock=env.clock,
            metrics=env.metrics,
            backoff=options.backoff(),
        )
        self._controller.watch(self._pods, lambda pod: (pod.key,) if has_traces(pod) else ())
        self._controller.watch(self._requests, lambda request: (requested_pod(request),))
        self._controller.watch(self._made_maps, _map_owners)

    async def run(self) -> None:
        """Until cancelled; may be called again after that."""
        await self._controller.run()

    async def undo(self, pod: Pod) -> None:
        """Removes ConfigMaps and labels from a pod that has no node.

        Another process may be preparing the same pod. So the pod is written first, which makes that process' bind fail
        on the resourceVersion; only ConfigMaps that existed before are deleted; and the labels go last, because they
        show other processes what is left to do.
        """
        for _ in range(_TRIES):
            now = await self._read(pod)
            if now is None or now.spec.nodeName:
                return
            maps = await self._maps.of(now)
            if not maps and not has_traces(now):
                return
            with suppress(Conflict):
                given_up = await self._client.modify(now, mark_given_up(now))
                await self._maps.delete(maps)
                self._pods.store.put(await self._client.modify(given_up, without_groups(given_up)))
                return
        raise Refused(f"pod {pod.key} changes whenever its GPU groups are to be taken off")

    async def _reconcile(self, key: ObjectKey) -> float | None:
        pod = self._pods.store.get(key)
        if pod is None or pod.spec.nodeName:
            return None
        name = str(key)
        if any(map(is_open, requests_for(self._requests, key))):
            return None
        if has_traces(pod) or self._made_maps.store.by_index(_POD_INDEX, name):
            _log.info("rolling back preparations of a bind that will not happen", extra={"pod": name})
            await self.undo(pod)
        return None

    async def _read(self, pod: Pod) -> Pod | None:
        """The pod as it is now; None when it is gone, also if another one has its name."""
        try:
            now = await self._client.get(Pod, pod.metadata.name, pod.metadata.namespace)
        except NotFound:
            return None
        return now if now.metadata.uid == pod.metadata.uid else None


def watch_requests_by_pod(requests: Informer[BindRequest]) -> None:
    """Has the informer find requests by pod; may be called again."""
    requests.add_index(_POD_INDEX, _requested_pod_index)


def requests_for(requests: Informer[BindRequest], pod: ObjectKey) -> list[BindRequest]:
    """The requests that name the pod."""
    return requests.store.by_index(_POD_INDEX, str(pod))


def requested_pod(request: BindRequest) -> ObjectKey:
    """The pod that the request names."""
    return ObjectKey(request.metadata.namespace, request.spec.podName)


def _requested_pod_index(request: BindRequest) -> tuple[str, ...]:
    return (str(requested_pod(request)),)


def _map_owners(found: ConfigMap) -> tuple[ObjectKey, ...]:
    owner = owner_of(found)
    return (ObjectKey(found.metadata.namespace, owner.name),) if owner is not None else ()


def _map_owner_index(found: ConfigMap) -> tuple[str, ...]:
    return tuple(map(str, _map_owners(found)))
