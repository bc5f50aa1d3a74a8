"""ChargeKeeper: keeps labels and annotations by which a bound pod is charged: a reconciler on pods.

Users may edit labels and annotations of a running pod; GPUs, pod groups and queues are accounted by some of them. The
values in the pod's bind request are restored (`bosket.api.charge`), with an event that names the changes.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from bosket.api.charge import as_charged, is_for
from bosket.api.core import Pod
from bosket.api.kai import BindRequest
from bosket.api.object import ObjectKey
from bosket.api.pod_phase import has_ended
from bosket.kube.errors import Conflict, NotFound
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment
from bosket.services.binder.gpu_preparation import requested_pod, requests_for, watch_requests_by_pod
from bosket.services.binder.options import Options
from bosket.services.binder.verdict import SUCCEEDED

_log = logging.getLogger(__name__)

NAME: Final = "bound-pods"


class ChargeKeeper:
    """Restores what was changed on bound pods."""

    def __init__(self, env: Environment, options: Options) -> None:
        self._client = env.client
        self._events = env.events.for_component("binder")
        self._pods = env.informers.of(Pod)
        self._requests = env.informers.of(BindRequest)
        watch_requests_by_pod(self._requests)
        self._controller: Controller[ObjectKey] = Controller(
            NAME, self._reconcile, clock=env.clock, metrics=env.metrics, backoff=options.backoff()
        )
        self._controller.watch(self._pods, lambda pod: (pod.key,) if self._as_it_should_be(pod) is not pod else ())
        self._controller.watch(self._requests, self._charged_otherwise)

    async def run(self) -> None:
        """Until cancelled; may be called again after that."""
        await self._controller.run()

    async def _reconcile(self, key: ObjectKey) -> float | None:
        pod = self._pods.store.get(key)
        if pod is None:
            return None
        wanted = self._as_it_should_be(pod)
        if wanted is pod:
            return None
        changed = ", ".join(_differences(pod, wanted))
        # Conflict: the watch will show a later version, which is reconciled again.
        with suppress(NotFound, Conflict):
            self._pods.store.put(await self._client.modify(pod, wanted))
            _log.warning("what a bound pod is charged with was changed, and is put back: %s: %s", key, changed)
            message = f"Put back on the bound pod {key}, as its BindRequest has it: {changed}"
            self._events.event(pod, "Warning", "ChargeRestored", message)
        return None

    def _charged_otherwise(self, request: BindRequest) -> tuple[ObjectKey, ...]:
        """The pod of a request, if it isn't as the request has it. One that isn't known yet comes by its own watch."""
        pod = self._pods.store.get(requested_pod(request))
        return (pod.key,) if pod is not None and self._as_it_should_be(pod) is not pod else ()

    def _as_it_should_be(self, pod: Pod) -> Pod:
        """The pod itself where there is nothing to put back, or nothing is known about it."""
        if not pod.spec.nodeName or has_ended(pod):
            return pod
        done = [each for each in requests_for(self._requests, pod.key) if each.status.phase == SUCCEEDED]
        request = next((each for each in done if is_for(each, pod)), None)
        return as_charged(pod, request) if request is not None else pod


def _differences(now: Pod, wanted: Pod) -> list[str]:
    """What is put back: `label key="value"`, or that it is taken off."""
    found = []
    for what, before, after in (
        ("label", now.metadata.labels, wanted.metadata.labels),
        ("annotation", now.metadata.annotations, wanted.metadata.annotations),
    ):
        for key in sorted(before.keys() | after.keys()):
            if before.get(key) != after.get(key):
                found.append(f'{what} {key}="{after[key]}"' if key in after else f"no {what} {key}")
    return found
