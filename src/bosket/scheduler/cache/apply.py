"""Decisions out: bind requests created, dead ones removed, conditions and events about what waits.

A bind request counts in the live state from the moment it is decided, before the API server has it, so that the next
cycle doesn't wait for this one's writes; when it can't be created it is taken out again and its pod waits as before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from bosket.api.core import Pod, PodCondition
from bosket.api.kai import (
    BindRequest,
    BindRequestSpec,
    PodGroup,
    ReceivedGPU,
    SchedulingCondition,
    UnschedulableExplanation,
)
from bosket.api.keys import DEFAULT_NODE_POOL, LAST_START_ANNOTATION, SELECTED_NODE_LABEL
from bosket.api.object import ObjectKey, ObjectMeta, OwnerReference
from bosket.api.time import format_time
from bosket.kube.client import PatchType
from bosket.kube.errors import AlreadyExists, KubeError, NotFound
from bosket.runtime.service import Environment
from bosket.runtime.workqueue import WorkQueue
from bosket.scheduler.cache.status_writer import StatusWriter, Wish
from bosket.scheduler.decisions import Bind, Decisions, Waiting
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.resource import GPU
from bosket.scheduler.model.task import Task
from bosket.scheduler.reason import NOT_READY, NotReady, unknown_subgroup
from bosket.scheduler.snapshot.snapshot import Snapshot
from bosket.scheduler.snapshot.state import ClusterState

_log = logging.getLogger(__name__)

UNSCHEDULABLE = "Unschedulable"
CONDITION_TYPE = "UnschedulableOnNodePool"
#: Bind requests that are written at the same time.
WRITERS = 32


class Applier:
    """Carries decisions out. `apply` never waits: writes are made by workers in the background."""

    def __init__(self, env: Environment, state: ClusterState, *, name: str, changed: Callable[[], None]) -> None:
        """`name` is whom events come from; `changed` is called when the state changed otherwise than by a watch."""
        self._client, self._clock = env.client, env.clock
        self._events = env.events.for_component(name)
        self._state, self._changed = state, changed
        self._status = StatusWriter(env.clock)
        self._queue: WorkQueue[ObjectKey] = WorkQueue(clock=env.clock)
        self._requested: dict[ObjectKey, Bind] = {}  # by pod; taken out when the request is there
        self._unwanted: dict[ObjectKey, BindRequest] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._status.run())
            for _ in range(WRITERS):
                group.create_task(self._work())

    def apply(self, snapshot: Snapshot, decisions: Decisions) -> None:
        for request in snapshot.dead_bind_requests:
            if request.key not in self._unwanted:
                self._unwanted[request.key] = request
                self._queue.add(request.key)
        for bind in decisions.binds:
            self._request_bind(bind)
        for job in decisions.started:
            self._note_start(job)
        for waiting in decisions.waiting:
            self._tell(waiting)
        for job in decisions.placed:
            self._status.forget(("PodGroup", job.key))
        for job in decisions.settled:
            self._settle(job)

    # Bind requests

    def _request_bind(self, bind: Bind) -> None:
        self._status.forget(("Pod", bind.task.key))
        self._requested[bind.task.key] = bind
        self._state.put_bind_request(bind_request_for(bind))
        self._queue.add(bind.task.key)

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self._write(key)
            finally:
                self._queue.done(key)

    async def _write(self, key: ObjectKey) -> None:
        try:
            if key in self._unwanted:
                await self._delete(self._unwanted[key])
                del self._unwanted[key]
            if key in self._requested:
                await self._create(self._requested[key])
                del self._requested[key]
            self._queue.forget(key)
        except KubeError as error:
            _log.warning("can't write the bind request of pod %s: %s", key, error)
            if key in self._requested:
                self._give_up(self._requested.pop(key), str(error))
            else:
                self._queue.add_rate_limited(key)

    async def _create(self, bind: Bind) -> None:
        wanted = bind_request_for(bind)
        try:
            created = await self._client.create(wanted)
        except AlreadyExists:
            # Ours, when an answer was lost or this process began anew; otherwise of a pod that had this name before.
            found = await self._client.get(BindRequest, wanted.metadata.name, wanted.metadata.namespace)
            if found.metadata.ownerReferences != wanted.metadata.ownerReferences:
                await self._delete(found)
                found = await self._client.create(wanted)
            created = found
        self._state.put_bind_request(created)
        task = bind.task
        self._events.event(
            task.pod,
            "Normal",
            "Scheduled",
            f"Successfully assigned pod {task.key} to node {bind.node} at node-pool {DEFAULT_NODE_POOL}",
        )

    async def _delete(self, request: BindRequest) -> None:
        try:
            await self._client.delete(
                BindRequest, request.metadata.name, request.metadata.namespace, uid=request.metadata.uid or None
            )
        except NotFound:
            self._state.drop_bind_request(request.key)

    def _give_up(self, bind: Bind, error: str) -> None:
        """The pod is pending again, and the next cycle decides anew."""
        self._state.drop_bind_request(bind.task.key)
        self._events.event(
            bind.task.pod,
            "Warning",
            "FailedBinding",
            f"Failed to bind pod {bind.task.key} to node {bind.node}. {error}",
        )
        self._changed()

    def _note_start(self, job: Job) -> None:
        async def write() -> None:
            patch = {"metadata": {"annotations": {LAST_START_ANNOTATION: started}}}
            await self._client.patch(PodGroup, job.key.name, patch, namespace=job.key.namespace)

        started = format_time(self._clock.now())
        self._status.wish(("PodGroup start", job.key), Wish((started,), write), delay_seconds=0)

    # What waits

    def _tell(self, waiting: Waiting) -> None:
        job = waiting.job
        for task in job.strangers:
            self._tell_pod(task, unknown_subgroup(task.subgroup, job.key))
        reason = waiting.reason
        if reason is None:
            return
        text = str(reason)
        if isinstance(reason, NotReady):
            self._tell_group_event(job, NOT_READY, text)
            return
        if job.group.spec.markUnschedulable is not False:
            for task in waiting.tasks or tuple(job.tasks):
                if not task.pod.spec.nodeName:
                    self._tell_pod(task, text)
        if waiting.active:
            self._tell_group_event(job, UNSCHEDULABLE, text)
        else:
            self._tell_group(job, reason.code, text)

    def _tell_pod(self, task: Task, text: str) -> None:
        pod = task.pod
        if any(
            c.type == "PodScheduled" and c.reason == UNSCHEDULABLE and c.message == text for c in pod.status.conditions
        ):
            self._status.forget(("Pod", task.key))
            return

        async def write() -> None:
            condition = PodCondition(
                type="PodScheduled", status="False", reason=UNSCHEDULABLE, message=text,
                lastTransitionTime=format_time(self._clock.now()),
            )  # fmt: skip
            await self._client.patch(
                Pod, task.key.name, {"status": {"conditions": [condition]}},
                namespace=task.key.namespace, type=PatchType.STRATEGIC, subresource="status",
            )  # fmt: skip
            self._events.event(pod, "Warning", UNSCHEDULABLE, text)

        self._status.wish(("Pod", task.key), Wish((text,), write))

    def _tell_group_event(self, job: Job, reason: str, text: str) -> None:
        async def write() -> None:
            self._events.event(job.group, "Normal", reason, text)

        self._status.wish(("PodGroup", job.key), Wish((text,), write))

    def _tell_group(self, job: Job, code: str, text: str) -> None:
        conditions = job.group.status.schedulingConditions
        if conditions and conditions[-1].message == text:
            self._status.forget(("PodGroup", job.key))
            return

        async def write() -> None:
            condition = SchedulingCondition(
                type=CONDITION_TYPE,
                nodePool=DEFAULT_NODE_POOL,
                status="True",
                reason=UNSCHEDULABLE,
                message=text,
                reasons=(UnschedulableExplanation(reason=code, message=text),) if code else (),
                lastTransitionTime=format_time(self._clock.now()),
                transitionID=str(_last_transition(conditions) + 1),
            )
            await self._write_conditions(job, (*(c for c in conditions if c.nodePool != DEFAULT_NODE_POOL), condition))
            self._events.event(job.group, "Normal", UNSCHEDULABLE, text)

        self._status.wish(("PodGroup", job.key), Wish((code, text), write))

    def _settle(self, job: Job) -> None:
        subject = ("PodGroup", job.key)
        self._status.forget(subject)
        if not job.group.status.schedulingConditions:
            return

        async def write() -> None:
            await self._write_conditions(job, ())

        self._status.wish(subject, Wish(("settled",), write))

    async def _write_conditions(self, job: Job, conditions: tuple[SchedulingCondition, ...]) -> None:
        patch = {"status": {"schedulingConditions": list(conditions) or None}}
        await self._client.patch(PodGroup, job.key.name, patch, namespace=job.key.namespace, subresource="status")


def bind_request_for(bind: Bind) -> BindRequest:
    """The object that asks the binder to carry a decision out. It has the pod's name and goes with the pod."""
    pod = bind.task.pod
    gpus = int(bind.task.pod_class.request[GPU])
    owner = OwnerReference(apiVersion="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid)
    return BindRequest(
        metadata=ObjectMeta(
            name=pod.metadata.name,
            namespace=pod.metadata.namespace,
            labels={SELECTED_NODE_LABEL: bind.node},
            ownerReferences=(owner,),
        ),
        spec=BindRequestSpec(
            podName=pod.metadata.name,
            selectedNode=bind.node,
            receivedResourceType="Regular",
            receivedGPU=ReceivedGPU(count=gpus, portion="1.00"),
        ),
    )


def _last_transition(conditions: tuple[SchedulingCondition, ...]) -> int:
    numbers = [int(c.transitionID) for c in conditions if c.transitionID.isdigit()]
    return max(numbers, default=0)
