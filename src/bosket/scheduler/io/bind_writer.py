"""Bind requests out: what was decided is created, what is dead is removed.

A request counts in the live state from the moment it is decided, so that the next cycle doesn't wait for this one's
writes. One that is refused is taken back, and its job waits before it is decided on again, longer each time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from bosket.api.core import Pod
from bosket.api.kai import BindRequest
from bosket.api.keys import DEFAULT_NODE_POOL
from bosket.api.object import ObjectKey
from bosket.kube.errors import AlreadyExists, ApiError, NotFound, ServerError, TooManyRequests
from bosket.runtime.controller import Controller
from bosket.runtime.events import EventRecorder
from bosket.runtime.service import Environment
from bosket.scheduler.model.bind_request import bind_request_for
from bosket.scheduler.model.decisions import Bind
from bosket.scheduler.options import Options
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.own.bind_requests import pod_of

_log = logging.getLogger(__name__)

#: Bind requests that are written at the same time.
WRITERS = 32


class BindWriter:
    """Writes bind requests in the background; `request` and `remove` never wait."""

    def __init__(
        self,
        env: Environment,
        state: ClusterState,
        options: Options,
        *,
        events: EventRecorder,
        changed: Callable[[], None],
        requested: Callable[[float], None],
    ) -> None:
        """`changed` is called when the state changed otherwise than by a watch, `requested` when a request is written,
        with the seconds that it took."""
        self._client, self._clock, self._events = env.client, env.clock, events
        self._state, self._changed, self._requested = state, changed, requested
        #: what bind requests of this shard carry, and pods that are bound in it
        self._labels = {options.node_pool_label: options.node_pool} if options.node_pool else {}
        self._node_pool = options.node_pool or DEFAULT_NODE_POOL
        self._decided: dict[ObjectKey, Bind] = {}  # by pod; taken out when the request is there
        self._dead: dict[ObjectKey, BindRequest] = {}  # by request, which has its pod's name
        self._controller: Controller[ObjectKey] = Controller(
            "bindrequests", self._write, workers=WRITERS, clock=env.clock, metrics=env.metrics
        )

    async def run(self) -> None:
        self._start_anew()
        await self._controller.run()

    def request(self, bind: Bind) -> None:
        """Has the pod bound."""
        self._decided[bind.task.key] = bind
        self._state.own.assume_bind_request(bind_request_for(bind, self._labels))
        self._controller.queue.add(bind.task.key)

    def remove(self, dead: Iterable[BindRequest]) -> None:
        """Has these deleted; they are all that are dead now, also those that were named before and are still seen.

        Where the binding had failed, the job waits before it is decided on again.
        """
        known, self._dead = self._dead, {request.key: request for request in dead}
        for key, request in self._dead.items():
            if key in known and known[key].metadata.uid == request.metadata.uid:
                continue
            self._controller.queue.add(key)
            if request.status.phase == "Failed":
                owner = next((each.uid for each in request.metadata.ownerReferences if each.kind == "Pod"), "")
                self._state.own.back_off(pod_of(request), owner, self._clock.now())

    def _start_anew(self) -> None:
        """After a pause others may have decided: what wasn't written before it is no longer meant."""
        for key in self._decided:
            self._state.own.withdraw_bind_request(key)
        self._decided.clear()
        self._dead.clear()

    async def _write(self, key: ObjectKey) -> None:
        if key in self._dead:
            await self._delete(self._dead[key])
        bind = self._decided.get(key)
        if bind is None:
            return
        try:
            await self._create(bind)
        except (ServerError, TooManyRequests):
            raise  # it may yet be taken: the controller tries again, later each time
        except ApiError as error:
            self._take_back(bind, str(error))
        if self._decided.get(key) is bind:
            del self._decided[key]

    async def _create(self, bind: Bind) -> None:
        wanted = bind_request_for(bind, self._labels)
        began = self._clock.monotonic()
        await self._label(bind.task.pod)
        try:
            await self._client.create(wanted)
        except AlreadyExists:
            # Ours, when an answer was lost or this process began anew; otherwise of a pod that had this name before.
            found = await self._client.get(BindRequest, wanted.metadata.name, wanted.metadata.namespace)
            if found.metadata.ownerReferences != wanted.metadata.ownerReferences:
                await self._delete(found)
                await self._client.create(wanted)
        self._requested(self._clock.monotonic() - began)
        text = f"Successfully assigned pod {bind.task.key} to node {bind.node} at node-pool {self._node_pool}"
        self._events.event(bind.task.pod, "Normal", "Scheduled", text)

    async def _label(self, pod: Pod) -> None:
        """Says on a pod in which shard it is bound; before the request, for a binder insists on the pod it knows."""
        if self._labels.items() <= pod.metadata.labels.items():
            return
        patch = {"metadata": {"uid": pod.metadata.uid, "labels": self._labels}}
        await self._client.patch(Pod, pod.metadata.name, patch, namespace=pod.metadata.namespace)

    async def _delete(self, request: BindRequest) -> None:
        try:
            await self._client.delete(
                BindRequest, request.metadata.name, request.metadata.namespace, uid=request.metadata.uid or None
            )
        except NotFound:
            self._state.drop(request)

    def _take_back(self, bind: Bind, error: str) -> None:
        """The pod is pending again, and is decided on anew after a while."""
        _log.warning("the bind request of pod %s was refused: %s", bind.task.key, error)
        self._state.own.withdraw_bind_request(bind.task.key)
        self._state.own.back_off(bind.task.key, bind.task.pod.metadata.uid, self._clock.now())
        text = f"Failed to bind pod {bind.task.key} to node {bind.node}. {error}"
        self._events.event(bind.task.pod, "Warning", "FailedBinding", text)
        self._changed()
