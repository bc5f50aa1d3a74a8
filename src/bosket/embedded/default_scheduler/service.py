"""The default scheduler as a service of the embedded cluster.

Nothing is made, and nothing costs anything, before the first pod that it should place: most clusters have none. From
then on it runs Bosket's scheduler on a `View`, and a reconciler that says in PodGroups whether they are scheduled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

from msgspec.structs import replace as replaced
from prometheus_client import CollectorRegistry

from bosket.api.condition import find_condition
from bosket.api.core import ObjectReference, Pod
from bosket.api.kai import PodGroup as Gang
from bosket.api.keys import DEFAULT_SCHEDULER_NAME
from bosket.api.object import Condition, KubeObject, ObjectKey
from bosket.api.pod_phase import has_ended
from bosket.api.scheduling_k8s.v1alpha3 import CompositePodGroup
from bosket.api.scheduling_k8s.v1beta1 import PodGroup
from bosket.api.time import format_time
from bosket.embedded.default_scheduler.gang import Group, minimum
from bosket.embedded.default_scheduler.view import BY_LEAF, BY_PARENT, View, ViewInformers, ViewTransport, is_ours
from bosket.kube.client import Client
from bosket.kube.errors import NotFound
from bosket.kube.informer import Change
from bosket.kube.transport import Transport
from bosket.runtime.clock import Clock
from bosket.runtime.controller import Controller
from bosket.runtime.events import EventRecorder, EventType
from bosket.runtime.local_server import LocalPages
from bosket.runtime.service import Environment
from bosket.scheduler.configuration.configuration import Configuration, PluginChoice
from bosket.scheduler.loop import Scheduler
from bosket.scheduler.options import Options

#: Kubernetes' scheduler evicts for priorities alone, and spreads pods over nodes.
CONFIGURATION: Final = Configuration(
    actions=("allocate", "preempt"),
    plugins=(
        PluginChoice("predicates"),
        PluginChoice("priority"),
        PluginChoice("elastic"),
        PluginChoice("nodeavailability"),
        PluginChoice("gpusharingorder"),
        PluginChoice("gpuspread"),
        PluginChoice("resourcetype"),
        PluginChoice("subgrouporder"),
        PluginChoice("taskorder"),
        PluginChoice("nominatednode"),
        PluginChoice("dynamicresources"),
        PluginChoice("nodeplacement", {"cpu": "spread", "gpu": "spread"}),
        PluginChoice("topology"),
        PluginChoice("sg-nodelocalgreedy"),
        PluginChoice("sg-multinodegang"),
    ),
)
#: All nodes are its own, whichever node pool they are in.
OPTIONS: Final = Options(scheduler_name=DEFAULT_SCHEDULER_NAME, configuration=CONFIGURATION, node_pool_label="")

_GROUP_SCHEDULED: Final = "PodGroupInitiallyScheduled"
_COMPOSITE_SCHEDULED: Final = "CompositePodGroupInitiallyScheduled"
_SCHEDULED, _UNSCHEDULABLE = "Scheduled", "Unschedulable"


class DefaultScheduler:
    """Places the pods that name `default-scheduler`; a `Service`."""

    name = DEFAULT_SCHEDULER_NAME

    def __init__(self, environment: Environment, transport: Transport, *, started: Callable[[], None]) -> None:
        """`transport` is the scheduler's own way to the API server, by which it is known there; `started` is called
        when it has something to do for the first time."""
        self._env, self._transport, self._started = environment, transport, started
        self._wanted = asyncio.Event()
        self._parts: tuple[Callable[[], Awaitable[None]], ...] = ()
        environment.informers.of(Pod).subscribe(self._see)

    async def run(self) -> None:
        """Until cancelled; may be called again after that."""
        await self._wanted.wait()
        if not self._parts:
            view = View(self._env.client, self._env.informers)
            await view.wait_synced()
            self._parts = self._make_parts(view)
            self._started()
        async with asyncio.TaskGroup() as group:
            for run in self._parts:
                group.create_task(_run(run))

    def _make_parts(self, view: View) -> tuple[Callable[[], Awaitable[None]], ...]:
        env = self._env
        status = _GroupStatus(env, view)
        transport = ViewTransport(self._transport, view, status.said_of)
        client = Client(transport, user_agent=DEFAULT_SCHEDULER_NAME, clock=env.clock)
        # Metrics and pages of the other scheduler keep their names; this one's are its own affair.
        metrics = CollectorRegistry()
        events = _Events(client, env.clock, view, metrics)
        own = replace(
            env,
            client=client,
            informers=ViewInformers(client, env.informers, view),
            events=events,
            metrics=metrics,
            local_pages=LocalPages(),
        )
        return events.run, status.run, Scheduler(own, OPTIONS).run

    def _see(self, change: Change[Pod]) -> None:
        pod = change.new
        if pod is not None and is_ours(pod) and not pod.spec.nodeName:
            self._wanted.set()


class _Events(EventRecorder):
    """Tells of what internal objects stand for."""

    def __init__(self, client: Client, clock: Clock, view: View, metrics: CollectorRegistry) -> None:
        super().__init__(client, clock, DEFAULT_SCHEDULER_NAME, metrics=metrics)
        self._view = view

    def event(
        self,
        regarding: KubeObject | ObjectReference,
        type: EventType,
        reason: str,
        message: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(regarding, Gang):
            super().event(regarding, type, reason, message, annotations)
            return
        source = self._view.source_of(regarding.key)
        if source is not None and not isinstance(source, Pod):  # of a pod alone, the pod's own events say the same
            super().event(source, type, reason, message, annotations)


class _GroupStatus:
    """Says in PodGroups and CompositePodGroups whether they have been scheduled; once they have, that stands."""

    def __init__(self, env: Environment, view: View) -> None:
        self._client, self._clock, self._view = env.client, env.clock, view
        self._pods = env.informers.of(Pod)
        self._groups = env.informers.of(PodGroup)
        self._composites = env.informers.of(CompositePodGroup)
        self._refusals: dict[tuple[str, ObjectKey], str] = {}  # why a group isn't placed, by kind and key
        self._controller: Controller[tuple[str, ObjectKey]] = Controller(
            "podgroup-status", self._reconcile, clock=env.clock, metrics=CollectorRegistry()
        )
        self._controller.watch(self._pods, _group_of)
        self._controller.watch(self._groups, _itself_and_parent)
        self._controller.watch(self._composites, _itself_and_parent)

    async def run(self) -> None:
        """Until cancelled."""
        await self._controller.run()

    def said_of(self, gang: ObjectKey) -> None:
        """The scheduler wrote something about an internal pod group: why it waits, or that it no longer does."""
        found = self._view.gangs.objects.get(gang)
        conditions = found.status.schedulingConditions if found is not None else ()
        for group in self._view.groups_of(gang):
            key = _key_of(group)
            if conditions:
                self._refusals[key] = conditions[-1].message
            else:
                self._refusals.pop(key, None)
            self._controller.queue.add(key)

    async def _reconcile(self, key: tuple[str, ObjectKey]) -> None:
        kind, name = key
        group: Group | None = (
            self._groups.store.get(name) if kind == "PodGroup" else self._composites.store.get(name)
        )  # fmt: skip
        if group is None:
            self._refusals.pop(key, None)
            return
        type_ = _GROUP_SCHEDULED if isinstance(group, PodGroup) else _COMPOSITE_SCHEDULED
        known = find_condition(group.status.conditions, type_)
        if known is not None and known.status == "True":
            self._refusals.pop(key, None)
            return
        if self._is_scheduled(group):
            status, reason, message = "True", _SCHEDULED, ""
        elif key in self._refusals:
            status, reason, message = "False", _UNSCHEDULABLE, self._refusals[key]
        else:
            return
        since = format_time(self._clock.now())
        if known is not None and known.status == status:
            if known.message == message:
                return
            since = known.lastTransitionTime
        wanted = Condition(
            type=type_,
            status=status,
            reason=reason,
            message=message,
            observedGeneration=group.metadata.generation,
            lastTransitionTime=since,
        )
        others = tuple(each for each in group.status.conditions if each.type != type_)
        try:
            await self._write(group, (*others, wanted))
        except NotFound:
            return  # gone meanwhile

    async def _write(self, group: Group, conditions: tuple[Condition, ...]) -> None:
        if isinstance(group, PodGroup):
            after = replaced(group, status=replaced(group.status, conditions=conditions))
            self._groups.store.put(await self._client.modify(group, after, subresource="status"))
        else:
            changed = replaced(group, status=replaced(group.status, conditions=conditions))
            self._composites.store.put(await self._client.modify(group, changed, subresource="status"))

    def _is_scheduled(self, group: Group) -> bool:
        index = str(group.key)
        if isinstance(group, PodGroup):
            pods = [pod for pod in self._pods.store.by_index(BY_LEAF, index) if is_ours(pod)]
            return sum(bool(pod.spec.nodeName) for pod in pods if not has_ended(pod)) >= minimum(group)
        done = [
            *(_has_been(each, _GROUP_SCHEDULED) for each in self._groups.store.by_index(BY_PARENT, index)),
            *(_has_been(each, _COMPOSITE_SCHEDULED) for each in self._composites.store.by_index(BY_PARENT, index)),
        ]
        return sum(done) >= minimum(group)


async def _run(part: Callable[[], Awaitable[None]]) -> None:
    await part()


def _has_been(group: Group, type_: str) -> bool:
    known = find_condition(group.status.conditions, type_)
    return known is not None and known.status == "True"


def _key_of(group: Group) -> tuple[str, ObjectKey]:
    return ("PodGroup" if isinstance(group, PodGroup) else "CompositePodGroup", group.key)


def _group_of(pod: Pod) -> tuple[tuple[str, ObjectKey], ...]:
    group = pod.spec.schedulingGroup
    if group is None or not group.podGroupName or not is_ours(pod):
        return ()
    return (("PodGroup", ObjectKey(pod.metadata.namespace, group.podGroupName)),)


def _itself_and_parent(group: Group) -> tuple[tuple[str, ObjectKey], ...]:
    parent = group.spec.parentCompositePodGroupName
    above = (("CompositePodGroup", ObjectKey(group.metadata.namespace, parent)),) if parent else ()
    return (_key_of(group), *above)
