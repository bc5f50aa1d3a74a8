"""BindWriter: creates bind requests for decided binds and deletes dead ones.

A request counts in the live state from the moment it is decided, so the next cycle doesn't wait for the write. If the
API server refuses the request, it is removed again and its job backs off.
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

#: Concurrent writes of bind requests.
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
        """Creates a bind request in the background; the live state assumes it at once."""
        self._decided[bind.task.key] = bind
        self._state.own.assume_bind_request(bind_request_for(bind, self._labels))
        self._controller.queue.add(bind.task.key)

    def remove(self, dead: Iterable[BindRequest]) -> None:
        """Deletes these requests in the background. `dead` is the complete list, including those that were passed
        before and still exist.

        Where the bind had failed, the pod backs off.
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
        """Drops what was not written before a pause: another leader may have decided meanwhile."""
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
            raise  # may pass: the controller retries with back-off
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
            # Our own request if an answer was lost or this process restarted; otherwise that of an earlier pod of this
            # name.
            found = await self._client.get(BindRequest, wanted.metadata.name, wanted.metadata.namespace)
            if found.metadata.ownerReferences != wanted.metadata.ownerReferences:
                await self._delete(found)
                await self._client.create(wanted)
        self._requested(self._clock.monotonic() - began)
        text = f"Successfully assigned pod {bind.task.key} to node {bind.node} at node-pool {self._node_pool}"
        self._events.event(bind.task.pod, "Normal", "Scheduled", text)

    async def _label(self, pod: Pod) -> None:
        """Labels a pod with the shard in which it is bound. Before the request, because the binder insists on the
        resourceVersion that it read."""
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
        """Makes the pod pending again; it backs off before the next decision."""
        _log.warning("the bind request of pod %s was refused: %s", bind.task.key, error)
        self._state.own.withdraw_bind_request(bind.task.key)
        self._state.own.back_off(bind.task.key, bind.task.pod.metadata.uid, self._clock.now())
        text = f"Failed to bind pod {bind.task.key} to node {bind.node}. {error}"
        self._events.event(bind.task.pod, "Warning", "FailedBinding", text)
        self._changed()
