"""Marks pods as failed that were deleted without a node and are kept by a finalizer.

No kubelet will ever say so, and who holds the finalizer (a Job that counts its pods) may wait for it. In Kubernetes
this is a part of the pod garbage collector; pods of lost nodes are the business of `bosket.embedded.node_lifecycle`.
"""

from __future__ import annotations

from msgspec.structs import replace

from bosket.api.core import Pod
from bosket.api.object import ObjectKey
from bosket.api.pod_phase import has_ended
from bosket.embedded.controllers.pods import is_terminating
from bosket.kube.errors import NotFound
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment


class PodCollector:
    """Marks pods as failed that end without having begun; a `Service`."""

    name = "pod-collector"

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._pods = environment.informers.of(Pod)
        self._controller: Controller[ObjectKey] = Controller(
            self.name, self._reconcile, clock=environment.clock, metrics=environment.metrics
        )
        self._controller.watch(self._pods, lambda pod: (pod.key,) if _will_never_run(pod) else ())

    async def run(self) -> None:
        """Until cancelled."""
        await self._controller.run()

    async def _reconcile(self, key: ObjectKey) -> None:
        pod = self._pods.store.get(key)
        if pod is None or not _will_never_run(pod):
            return
        failed = replace(pod, status=replace(pod.status, phase="Failed"))
        try:
            self._pods.store.put(await self._client.modify(pod, failed, subresource="status"))
        except NotFound:
            return  # gone already; the informer will say so


def _will_never_run(pod: Pod) -> bool:
    return is_terminating(pod) and not pod.spec.nodeName and not has_ended(pod)
