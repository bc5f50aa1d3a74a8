"""BackendController: a reconciler on PodGangs. Spec flows forward to the scheduler, status back into the gang.

Per gang it keeps what the backend says: the scheduler's objects, the gate of the pods, the status. A backend that fails
leaves the gang as it is and is reported in an event and in the gang's status; other gangs are not affected. A process
runs all backends, or one of them (`Options.only`) and ignores the gangs of the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from bosket.api import keys
from bosket.api.core import Node, Pod
from bosket.api.grove import PodClique, PodGang
from bosket.api.object import KubeObject, ObjectKey
from bosket.api.ownership import controller_of
from bosket.api.table import resource_of
from bosket.api.time import InvalidDuration, parse_duration
from bosket.grove.backends.applier import Applier
from bosket.grove.backends.backend import Refused, SchedulerBackend, Verdict
from bosket.grove.backends.catalogue import load_backends
from bosket.grove.backends.cluster_view import ClusterView, gang_of_pod
from bosket.grove.backends.gang_status import Observation, look_again_seconds, patience_seconds, status_of
from bosket.grove.backends.metrics import backend_metrics
from bosket.grove.backends.registry import Registry, UnknownBackend
from bosket.kube.errors import Conflict, Forbidden, KubeError, NotFound
from bosket.kube.informer import Change
from bosket.runtime.concurrent import for_each
from bosket.runtime.controller import Controller
from bosket.runtime.debounce import Debounce
from bosket.runtime.events import EventType
from bosket.runtime.service import Environment, Service

_log = logging.getLogger(__name__)

NAME: Final = "grove-backends"
#: The debounce of changes of a gang's pods.
_GATHER_SECONDS: Final = 0.2
#: The debounce for pods with the backend's gate. Shorter than the operator's, so that the two controllers don't patch
#: the same pod's gates at once.
_GATED_SECONDS: Final = 0.02
#: Seconds until a gang is reconciled of which only the status changed, mostly by this process.
_STATUS_SECONDS: Final = 1.0
#: Seconds until a refused gang is tried again: a missing CRD may have been installed.
_REFUSED_SECONDS: Final = 15.0
_PODS_AT_ONCE: Final = 16
#: Grove's default termination delay.
_TERMINATION_DELAY_SECONDS: Final = 4 * 3600.0


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the backends."""

    #: the only backend of this process; empty: all backends
    only: str = ""
    #: the backend of gangs whose pods name no scheduler
    default_scheduler_name: str = keys.DEFAULT_SCHEDULER_NAME
    max_concurrent_reconciles: int = 10


def service(env: Environment, options: Options | None = None) -> Service:
    """The controller, with the backends of all installed packages or one of them."""
    options = options or Options()
    registry = Registry(load_backends(), default_scheduler_name=options.default_scheduler_name, metrics=env.metrics)
    return BackendController(env, options, registry)


class BackendController:
    """Keeps schedulers' objects of PodGangs until cancelled."""

    def __init__(self, env: Environment, options: Options, registry: Registry) -> None:
        self.name = f"backend-{options.only}" if options.only else NAME
        self._client = env.client
        self._clock = env.clock
        self._events = env.events.for_component(NAME)
        self._metrics = backend_metrics(env.metrics)
        self._registry = registry
        self._served = (registry.get(options.only),) if options.only else registry.backends
        self._gates = {each.gate for each in self._served}
        self._cluster = ClusterView(env, self._served, self._object_changed, self._look_at_all)
        self._applier = Applier(env.client, self._cluster.observe)
        self._gangs = env.informers.of(PodGang)
        self._nodes = env.informers.of(Node)
        self._cliques = env.informers.of(PodClique, optional=True)
        #: The last event text per gang, so that the same text is sent once.
        self._last_events: dict[ObjectKey, tuple[str, ...]] = {}
        self._debounce: Debounce[ObjectKey] = Debounce(env.clock)
        self._controller: Controller[ObjectKey] = Controller(
            self.name,
            self._reconcile,
            workers=options.max_concurrent_reconciles,
            clock=env.clock,
            metrics=env.metrics,
        )
        self._gangs.subscribe(self._gang_changed)
        self._cluster.pods.subscribe(self._pod_changed)
        self._cliques.subscribe(self._clique_changed)

    async def run(self) -> None:
        """Until cancelled; may be called again after that."""
        await self._cluster.wait_ready()
        for informer in (self._gangs, self._nodes, self._cliques):
            await informer.wait_synced()
        self._look_at_all()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cluster.keep_fresh())
            group.create_task(self._controller.run())

    # --- events

    def _look_at_all(self) -> None:
        for gang in self._gangs.store.values():
            self._controller.queue.add(gang.key)

    def _gang_changed(self, change: Change[PodGang]) -> None:
        old, new = change
        if new is None and old is not None:
            self._registry.forget(old)
            self._last_events.pop(old.key, None)
            self._debounce.flushed(old.key)
        elif new is not None and old is not None and _asks_the_same(old, new):
            self._soon([new.key], _STATUS_SECONDS)
        elif new is not None:
            self._controller.queue.add(new.key)

    def _pod_changed(self, change: Change[Pod]) -> None:
        is_gated = change.new is not None and any(each.name in self._gates for each in change.new.spec.schedulingGates)
        for pod in change:
            if pod is not None:
                gangs = (ObjectKey(*key.split("/", 1)) for key in gang_of_pod(pod))
                self._soon(gangs, _GATED_SECONDS if is_gated else _GATHER_SECONDS)

    def _clique_changed(self, change: Change[PodClique]) -> None:
        old, new = change
        if new is not None and (old is None or old.status.conditions != new.status.conditions):
            name = new.metadata.labels.get(keys.GROVE_POD_GANG_LABEL)
            self._soon([ObjectKey(new.metadata.namespace, name)] if name else [])

    def _object_changed(self, change: Change[Any]) -> None:
        kind = resource_of(PodGang).kind
        for obj in change:
            if isinstance(obj, KubeObject):
                owners = (each for each in obj.metadata.ownerReferences if each.kind == kind)
                self._soon(ObjectKey(obj.metadata.namespace, each.name) for each in owners)

    def _soon(self, gangs: Iterable[ObjectKey], seconds: float = _GATHER_SECONDS) -> None:
        for key in gangs:
            self._controller.queue.add_after(key, seconds)

    # --- reconciling

    async def _reconcile(self, key: ObjectKey) -> float | None:
        gang = self._gangs.store.get(key)
        if gang is None or gang.metadata.deletionTimestamp:
            return None  # the garbage collector deletes what the gang owns
        await self._cluster.refresh()
        try:
            backend = self._registry.of_gang(gang)
        except UnknownBackend as error:
            self._emit_event(gang, "Warning", "UnknownBackend", (str(error),))
            return await self._write_status(gang, Verdict("UnknownBackend", str(error)))
        await self._delete_other_backends_objects(gang, backend)
        if backend not in self._served:
            return None
        gang = await self._label(gang, backend)
        failure, verdict, look_again = await self._sync(gang, backend)
        again = await self._write_status(gang, verdict)
        if failure is not None:
            raise failure
        return min((each for each in (look_again, again) if each is not None), default=None)

    async def _sync(self, gang: PodGang, backend: SchedulerBackend) -> tuple[Exception | None, Verdict, float | None]:
        """Writes the gang's objects; returns the failure, the scheduler's verdict, and the seconds until a retry."""
        try:
            left_out = await self._forward(gang, backend)
            verdict = backend.verdict(gang, self._cluster.surroundings(gang, backend))
            self._emit_event(gang, "Warning", "BackendLimited", left_out)
        except Refused as refusal:
            self._metrics.synced(backend.name, "refused")
            self._emit_event(gang, "Warning", refusal.reason, (str(refusal),))
            await self._cluster.refresh(missed=True)
            return None, Verdict(refusal.reason, str(refusal)), _REFUSED_SECONDS
        except Conflict as conflict:
            return conflict, Verdict(), None
        except Exception as error:  # a backend may be third-party code; its exceptions must not stop other gangs
            self._metrics.synced(backend.name, "failed")
            message = str(error) if isinstance(error, KubeError) else repr(error)
            self._emit_event(gang, "Warning", "BackendFailed", (f"backend {backend.name}: {message}",))
            return error, Verdict("BackendFailed", f"backend {backend.name}: {message}"), None
        return None, verdict, None

    async def _forward(self, gang: PodGang, backend: SchedulerBackend) -> tuple[str, ...]:
        """Writes the gang's objects; returns what the scheduler's objects can't express."""
        before = self._cluster.surroundings(gang, backend)
        rendering = backend.sync(gang, before)
        writes = await self._applier.apply(backend, gang, rendering.objects, before.owned)
        self._metrics.synced(backend.name, "written" if writes else "unchanged")
        after = self._cluster.surroundings(gang, backend)
        gated = [pod for pod in after.pods if backend.gate is not None and _has_gate(pod, backend.gate)]
        if gated and backend.check_gang_ready(gang, after):
            await self._release(gated, backend.gate)
        return rendering.left_out

    async def _release(self, pods: list[Pod], gate: str | None) -> None:
        """Removes the backend's gate from pods; other gates stay."""

        async def release(pod: Pod) -> None:
            gates = tuple(each for each in pod.spec.schedulingGates if each.name != gate)
            spec = msgspec.structs.replace(pod.spec, schedulingGates=gates)
            try:
                written = await self._client.modify(pod, msgspec.structs.replace(pod, spec=spec))
            except NotFound:
                return
            self._cluster.pods.store.put(written)

        await for_each(pods, release, at_once=_PODS_AT_ONCE)

    async def _delete_other_backends_objects(self, gang: PodGang, backend: SchedulerBackend) -> None:
        """Deletes what backends of this process created for a gang that has another backend now."""
        for other in self._served:
            if other is not backend and self._cluster.owned(gang, other):
                await self._applier.remove(other.delete(gang, self._cluster.surroundings(gang, other)))

    async def _label(self, gang: PodGang, backend: SchedulerBackend) -> PodGang:
        """Writes the backend's name into the gang's labels, where the operator didn't."""
        wanted = {keys.GROVE_BACKEND_LABEL: backend.name}
        if keys.GROVE_SCHEDULER_LABEL not in gang.metadata.labels:
            wanted[keys.GROVE_SCHEDULER_LABEL] = backend.scheduler_name
        labels = {**gang.metadata.labels, **wanted}
        if labels == gang.metadata.labels:
            return gang
        metadata = msgspec.structs.replace(gang.metadata, labels=labels)
        try:
            written = await self._client.modify(gang, msgspec.structs.replace(gang, metadata=metadata))
        except Forbidden:
            return gang  # without the right to label gangs they stay unlabelled; the choice is the same each time
        self._gangs.store.put(written)
        return written

    # --- status

    async def _write_status(self, gang: PodGang, verdict: Verdict) -> float | None:
        """Writes the gang's status, minor changes with a debounce; returns the seconds until the next look."""
        seen, now = self._observe(gang, verdict), self._clock.now()
        status = status_of(gang, seen, now)
        if status != gang.status:
            left = self._debounce.seconds_left(gang.key, patience_seconds(gang.status, status))
            if left:
                return left
            try:
                written = await self._client.modify(
                    gang, msgspec.structs.replace(gang, status=status), subresource="status"
                )
            except NotFound:
                return None
            self._gangs.store.put(written)
        self._debounce.flushed(gang.key)
        return look_again_seconds(status, seen, now)

    def _observe(self, gang: PodGang, verdict: Verdict) -> Observation:
        pods = tuple(sorted(self._cluster.pods_of(gang.key), key=lambda pod: pod.metadata.name))
        found = {
            group.name: self._cliques.store.get(ObjectKey(gang.metadata.namespace, group.name))
            for group in gang.spec.podgroups
        }
        nodes = (self._nodes.store.get(ObjectKey("", name)) for name in {pod.spec.nodeName for pod in pods} if name)
        return Observation(
            pods=pods,
            cliques={name: clique for name, clique in found.items() if clique is not None},
            verdict=verdict,
            nodes={node.metadata.name: node.metadata.labels for node in nodes if node is not None},
            termination_delay_seconds=self._termination_delay(gang),
        )

    def _termination_delay(self, gang: PodGang) -> float | None:
        if controller_of(gang) is None:
            return None
        owner = self._cluster.owner(gang)
        try:
            return parse_duration((owner and owner.spec.template.terminationDelay) or "")
        except InvalidDuration:
            return _TERMINATION_DELAY_SECONDS

    def _emit_event(self, gang: PodGang, type_: EventType, reason: str, messages: tuple[str, ...]) -> None:
        """Sends events; the same text only once."""
        if self._last_events.get(gang.key) == messages:
            return
        self._last_events[gang.key] = messages
        for message in messages:
            self._events.event(gang, type_, reason, message)


def _asks_the_same(old: PodGang, new: PodGang) -> bool:
    """Whether two versions are equal in everything that a backend reads."""
    about_old, about_new = old.metadata, new.metadata
    return (
        old.spec == new.spec
        and about_old.labels == about_new.labels
        and about_old.annotations == about_new.annotations
        and about_old.deletionTimestamp == about_new.deletionTimestamp
        and about_old.uid == about_new.uid
    )


def _has_gate(pod: Pod, gate: str) -> bool:
    return any(each.name == gate for each in pod.spec.schedulingGates)
