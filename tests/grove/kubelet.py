"""A kubelet of tests: runs what is bound at once, but for what an init container still waits for.

It asks the init container's own code whether those that start before are ready. It serves all nodes of a cluster, be
it embedded or real.
"""

from __future__ import annotations

from typing import Any, Final

from bosket.api.core import Pod
from bosket.api.grove.naming import GANG_LABEL, INIT_CONTAINER
from bosket.api.object import ObjectKey
from bosket.api.time import format_time
from bosket.grove.initc.parent import Parent, ready_counts, waiting_for
from bosket.kube.errors import Conflict, NotFound
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

_BY_GANG: Final = "test-kubelet/gang"
_STRATEGIC: Final = {"Content-Type": "application/strategic-merge-patch+json"}
#: How long a container takes to start that waited for others: as times on the wire have no fractions, less could not be
#: told from nothing.
_LATE_START_SECONDS: Final = 1.0


class TestKubelet:
    """Runs pods; a `Service`."""

    __test__ = False
    name = "test-kubelet"

    def __init__(self, environment: Environment, *, start_seconds: float = 1.0) -> None:
        """`start_seconds`: how long a container takes to start that waited for nobody."""
        self._start_seconds = start_seconds
        self._client = environment.client
        self._clock = environment.clock
        self._pods = environment.informers.of(Pod)
        self._pods.add_index(_BY_GANG, _gang_of)
        self._bound_at: dict[str, float] = {}
        self._controller: Controller[ObjectKey] = Controller(
            self.name, self._reconcile, workers=4, clock=environment.clock, metrics=environment.metrics
        )
        self._controller.watch(self._pods, self._keys)

    async def run(self) -> None:
        await self._controller.run()

    def _keys(self, pod: Pod) -> list[ObjectKey]:
        """The pod itself, and those that may have waited for it."""
        gang = [each for value in _gang_of(pod) for each in self._pods.store.by_index(_BY_GANG, value)]
        return [pod.key, *(each.key for each in gang if _parents(each) and each.status.phase == "Pending")]

    async def _reconcile(self, key: ObjectKey) -> float | None:
        pod = self._pods.store.get(key)
        if pod is None:
            return None
        try:
            return await self._look_at(pod)
        except (NotFound, Conflict):
            return None

    async def _look_at(self, pod: Pod) -> float | None:
        meta = pod.metadata
        if meta.deletionTimestamp is not None:
            await self._client.delete(Pod, meta.name, meta.namespace, grace_seconds=0, uid=meta.uid)
            return None
        if not pod.spec.nodeName or pod.status.phase != "Pending":
            return None
        siblings = [each for value in _gang_of(pod) for each in self._pods.store.by_index(_BY_GANG, value)]
        parents = _parents(pod)
        if waiting_for(parents, ready_counts(siblings)):
            return None
        takes = _LATE_START_SECONDS if parents else self._start_seconds
        left = self._bound_at.setdefault(meta.uid, self._clock.now()) + takes - self._clock.now()
        if left > 0:
            return left
        path = f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/status"
        await self._client.raw("PATCH", path, body={"status": self._running(pod)}, headers=_STRATEGIC)
        return None

    def _running(self, pod: Pod) -> dict[str, Any]:
        now = format_time(self._clock.now())
        conditions = [
            {"type": each, "status": "True", "lastTransitionTime": now}
            for each in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ]
        statuses = [
            {
                "name": each.name,
                "image": each.image,
                "imageID": "",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
            }
            for each in pod.spec.containers
        ]
        return {"phase": "Running", "conditions": conditions, "containerStatuses": statuses}


def _gang_of(pod: Pod) -> tuple[str, ...]:
    gang = pod.metadata.labels.get(GANG_LABEL)
    return (f"{pod.metadata.namespace}/{gang}",) if gang else ()


def _parents(pod: Pod) -> list[Parent]:
    waiting = [each for each in pod.spec.initContainers if each.name == INIT_CONTAINER]
    return [Parent.parse(argument.removeprefix("--podcliques=")) for each in waiting for argument in each.args]
