"""The node scale adjuster as a service.

It reconciles one thing, the set of scaling pods, with one worker; events only trigger it. After a scaling pod was
deleted, none is created for a while: the node that came for it must be used first.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

import msgspec

from bosket.api.condition import find_condition
from bosket.api.core import Pod, PodCondition
from bosket.api.time import format_time
from bosket.kube.errors import AlreadyExists, Conflict, NotFound
from bosket.kube.informer import Change
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment, Service
from bosket.services.node_scale.need import missing_pods, sort_out, waits_for_part
from bosket.services.node_scale.options import Options
from bosket.services.node_scale.scaling_pod import source_of

_log = logging.getLogger(__name__)

NAME: Final = "node-scale-adjuster"
#: KAI's, which has no flag for it.
COOL_DOWN_SECONDS: Final = 60.0
#: How long changes are gathered; pods come in bursts.
_GATHER_SECONDS: Final = 0.5
#: The one thing to reconcile.
_ALL: Final = "scaling-pods"
#: Pods that wait for a part of a GPU, by scheduler; scaling pods, by namespace.
_WAITING_INDEX: Final = "scale-adjuster-waiting"
_SCALING_INDEX: Final = "scale-adjuster-scaling"


def service(env: Environment, options: Options | None = None) -> Service:
    """The node scale adjuster."""
    return NodeScaleAdjuster(env, options or Options())


class NodeScaleAdjuster:
    """Keeps scaling pods until cancelled."""

    name = NAME

    def __init__(self, env: Environment, options: Options) -> None:
        self._client = env.client
        self._clock = env.clock
        self._options = options
        self._quiet_until = 0.0
        self._pods = env.informers.of(Pod)
        self._pods.add_index(_WAITING_INDEX, _waiting)
        self._pods.add_index(_SCALING_INDEX, _scaling)
        self._pods.subscribe(self._pod_changed)
        self._controller: Controller[str] = Controller(NAME, self._adjust, clock=env.clock, metrics=env.metrics)

    async def run(self) -> None:
        """Until cancelled; may be called again after that."""
        await self._pods.wait_synced()
        self._controller.queue.add(_ALL)
        await self._controller.run()

    def _pod_changed(self, change: Change[Pod]) -> None:
        if any(self._matters(pod) for pod in change if pod is not None):
            self._controller.queue.add_after(_ALL, _GATHER_SECONDS)

    def _matters(self, pod: Pod) -> bool:
        return self._options.scale_adjust_namespace in _scaling(pod) or self._options.scheduler_name in _waiting(pod)

    async def _adjust(self, _key: str) -> float | None:
        store = self._pods.store
        scaling = store.by_index(_SCALING_INDEX, self._options.scale_adjust_namespace)
        sources = {key: pod for key in map(source_of, scaling) if key is not None and (pod := store.get(key))}
        needless, kept = sort_out(scaling, sources)
        for pod in needless:
            await self._delete(pod)
        for pod in kept:
            await self._mark_unschedulable(pod)
        rest = self._quiet_until - self._clock.monotonic()
        if rest > 0:
            return rest
        waiting = store.by_index(_WAITING_INDEX, self._options.scheduler_name)
        for wanted in missing_pods(waiting, kept, self._options):
            await self._create(wanted)
        return None

    async def _create(self, wanted: Pod) -> None:
        try:
            created = await self._client.create(wanted)
        except AlreadyExists:
            # One that is on its way out has the name; its end is an event.
            _log.info("the name of a scaling pod is taken", extra={"pod": str(wanted.key)})
            return
        self._pods.store.put(created)
        _log.info("scaling pod created", extra={"pod": str(created.key), "source": str(source_of(created))})
        await self._mark_unschedulable(created)

    async def _mark_unschedulable(self, pod: Pod) -> None:
        """Say at once what autoscalers wait for, unless a scheduler has spoken about the pod."""
        if pod.spec.nodeName or find_condition(pod.status.conditions, "PodScheduled") is not None:
            return
        condition = PodCondition(
            type="PodScheduled",
            status="False",
            reason="Unschedulable",
            message=f"asks for a node in the place of {source_of(pod)}, which shares GPUs",
            lastTransitionTime=format_time(self._clock.now()),
        )
        status = msgspec.structs.replace(pod.status, conditions=(*pod.status.conditions, condition))
        # Conflict, NotFound: changed by another client; the next reconciliation sees it.
        with suppress(Conflict, NotFound):
            marked = await self._client.modify(pod, msgspec.structs.replace(pod, status=status), subresource="status")
            self._pods.store.put(marked)

    async def _delete(self, pod: Pod) -> None:
        if pod.metadata.deletionTimestamp is not None:
            return
        meta = pod.metadata
        # NotFound, Conflict: it is gone, or another one has its name.
        with suppress(NotFound, Conflict):
            await self._client.delete(Pod, meta.name, meta.namespace, uid=meta.uid)
        _log.info("scaling pod deleted", extra={"pod": str(pod.key), "source": str(source_of(pod))})
        self._quiet_until = self._clock.monotonic() + COOL_DOWN_SECONDS


def _waiting(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.schedulerName,) if waits_for_part(pod) else ()


def _scaling(pod: Pod) -> tuple[str, ...]:
    return (pod.metadata.namespace,) if source_of(pod) is not None else ()
