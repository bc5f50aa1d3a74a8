"""Tells what came of an attempt: status on the request; event and condition on the pod, unless it was the first and
succeeded.

The request's status is written last: it says that everything before it is done, also to a binder that starts after a
crash.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec

from bosket.api.condition import find_condition, turned_at
from bosket.api.core import Pod, PodCondition
from bosket.api.kai import BindRequest, BindRequestStatus
from bosket.kube.client import Client, PatchType
from bosket.kube.errors import Conflict, NotFound
from bosket.runtime.clock import Clock
from bosket.runtime.events import EventRecorder
from bosket.services.binder.verdict import FAILED, SUCCEEDED, Bound, Failure, Outcome

POD_BOUND: Final = "PodBound"
BOUND: Final = "Bound"
BINDING_ERROR: Final = "BindingError"
#: How many failures of late are remembered; what is older than that many the watch has shown.
_MOST_CALLED_UNBOUND: Final = 4096


class Reporter:
    """Writes outcomes: status of the request, and event and condition of the pod. Nothing is written twice."""

    def __init__(self, client: Client, clock: Clock, events: EventRecorder) -> None:
        self._client = client
        self._clock = clock
        self._events = events
        #: Uids of pods that were called unbound, the latest last: the watch may not have shown that yet.
        self._called_unbound: dict[str, None] = {}

    async def report(self, request: BindRequest, outcome: Outcome) -> BindRequest | None:
        """Writes the outcome; returns the request as written, or None when it is gone."""
        node = request.spec.selectedNode
        if isinstance(outcome, Bound):
            if self._may_be_called_unbound(request, outcome.pod):
                message = f"Pod bound successfully to node {node}"
                await self._set_condition(outcome.pod, "True", BOUND, message)
                self._events.event(outcome.pod, "Normal", BOUND, message)
            succeeded = msgspec.structs.replace(request.status, phase=SUCCEEDED, reason="")
            return await self._set_status(request, succeeded)
        if outcome.pod is not None:
            message = f"Failed to bind pod {outcome.pod.key} to node {node}: {outcome.reason}"
            if not outcome.pod.spec.nodeName:  # the condition of a bound pod is about the bind that succeeded
                self._remember_called_unbound(outcome.pod)
                await self._set_condition(outcome.pod, "False", BINDING_ERROR, message)
            self._events.event(outcome.pod, "Warning", BINDING_ERROR, message)
        if outcome.discard:
            await self._discard(request, outcome.reason)
            return None
        return await self._set_status(request, _after_failure(request, outcome))

    def _may_be_called_unbound(self, request: BindRequest, pod: Pod) -> bool:
        """Whether the pod says that it could not be bound. On others the API server writes PodScheduled with the bind
        itself, and the scheduler's event names the node.

        KAI writes condition and event in any case: two writes for each pod that tell nobody anything.
        """
        return (
            request.status.failedAttempts > 0
            or pod.metadata.uid in self._called_unbound
            or find_condition(pod.status.conditions, POD_BOUND) is not None
        )

    def _remember_called_unbound(self, pod: Pod) -> None:
        self._called_unbound[pod.metadata.uid] = None
        while len(self._called_unbound) > _MOST_CALLED_UNBOUND:
            del self._called_unbound[next(iter(self._called_unbound))]

    async def _set_condition(self, pod: Pod, status: str, reason: str, message: str) -> None:
        before = find_condition(pod.status.conditions, POD_BOUND)
        if before is not None and (before.status, before.reason, before.message) == (status, reason, message):
            return
        changed = turned_at(before, status, self._clock.now())
        condition = PodCondition(
            type=POD_BOUND, status=status, reason=reason, message=message, lastTransitionTime=changed
        )
        # A strategic patch keeps other conditions; the uid makes it fail on a new pod of the same name.
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(
                Pod,
                pod.metadata.name,
                patch,
                namespace=pod.metadata.namespace,
                type=PatchType.STRATEGIC,
                subresource="status",
            )
        except NotFound:
            return

    async def _discard(self, request: BindRequest, reason: str) -> None:
        """Delete a request that can't be what was meant; its event says why."""
        self._events.event(request, "Warning", BINDING_ERROR, reason)
        meta = request.metadata
        # Conflict: another request has its name by now.
        with suppress(NotFound, Conflict):
            await self._client.delete(BindRequest, meta.name, meta.namespace, uid=meta.uid)

    async def _set_status(self, request: BindRequest, status: BindRequestStatus) -> BindRequest | None:
        after = msgspec.structs.replace(request, status=status)
        try:
            return await self._client.modify(request, after, subresource="status")
        except NotFound:
            return None


def _after_failure(request: BindRequest, failure: Failure) -> BindRequestStatus:
    attempts = request.status.failedAttempts + 1
    if failure.final:
        # The scheduler gives a request up when its failed attempts reach the limit; a final failure sets them to the
        # limit.
        attempts = max(attempts, request.spec.backoffLimit or 0)
    return BindRequestStatus(phase=FAILED, reason=failure.reason, failedAttempts=attempts)
