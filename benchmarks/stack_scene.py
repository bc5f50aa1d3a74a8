"""What is done to a cluster in `stack` and `scale`, and how long it took until everybody had what they wait for.

A `Scene` submits Jobs and sees pods by a watch of its own; times are those at which the watch told of a pod.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from benchmarks.stack_cluster import TOPOLOGY_LABELS
from benchmarks.workload import NotMeasured
from bosket.api.batch import Job
from bosket.api.core import Namespace, Pod, ServiceAccount
from bosket.api.kai import (
    BindRequest,
    PodGroup,
    Queue,
    QueueResource,
    QueueResources,
    QueueSpec,
    Topology,
    TopologyLevel,
    TopologySpec,
)
from bosket.api.keys import POD_GROUP_ANNOTATION, SCHEDULER_NAME, TOPOLOGY_ANNOTATION, TOPOLOGY_PREFERRED_ANNOTATION
from bosket.api.object import KubeObject, ObjectMeta
from bosket.kube.client import Client
from bosket.kube.errors import NotFound
from bosket.kube.informer import Change, Informers

T = TypeVar("T")

NAMESPACE = "stack"
#: Owed nothing, and so may lose everything; owed GPUs.
FILLING, OWED = "stack-filling", "stack-owed"
TOPOLOGY = "stack"
JOB_LABEL = "batch.kubernetes.io/job-name"
PATIENCE_SECONDS = 900.0
#: Requests that are made at the same time.
AT_ONCE = 16
MIN_MEMBER_ANNOTATION = "kai.scheduler/batch-min-member"


@dataclass
class _Waiting:
    """What is waited for, judged pod by pod as they change: a look at all of them each time would be a load itself."""

    holds: Callable[[Pod], bool]
    count: int
    found: dict[str, None] = field(default_factory=dict)
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    def look(self, name: str, pod: Pod | None) -> None:
        if pod is not None and self.holds(pod):
            self.found[name] = None
        else:
            self.found.pop(name, None)
        if len(self.found) >= self.count:
            self.reached.set()


@dataclass
class Scene:
    """The namespace in which everything happens, as a watch shows it."""

    client: Client
    pods: dict[str, Pod] = field(default_factory=dict)
    seen_at: dict[str, float] = field(default_factory=dict)
    bound_at: dict[str, float] = field(default_factory=dict)
    waiting: _Waiting | None = None

    def note(self, change: Change[Pod]) -> None:
        now = time.monotonic()
        pod = change.new or change.old
        if pod is None:
            return
        name = pod.metadata.name
        if change.new is None:
            self.pods.pop(name, None)
        else:
            self.pods[name] = change.new
            self.seen_at.setdefault(name, now)
            if change.new.spec.nodeName:
                self.bound_at.setdefault(name, now)
        if self.waiting is not None:
            self.waiting.look(name, change.new)

    async def until(self, holds: Callable[[Pod], bool], count: int, what: str) -> list[Pod]:
        """Waits until that many pods are so; returns them."""
        waiting = self.waiting = _Waiting(holds, count)
        for name, pod in self.pods.items():
            waiting.look(name, pod)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await waiting.reached.wait()
        except TimeoutError:
            found = len(waiting.found)
            raise NotMeasured(f"after {PATIENCE_SECONDS:.0f} s {found} of {count} pods are {what}") from None
        finally:
            self.waiting = None
        return [self.pods[name] for name in waiting.found]

    def waits(self) -> list[float]:
        """From being seen to being bound, of every pod."""
        return [self.bound_at[name] - self.seen_at[name] for name in self.pods if name in self.bound_at]

    async def submit(self, jobs: Iterable[dict[str, Any]]) -> None:
        await _for_each(jobs, lambda each: self.client.create(each, NAMESPACE))

    async def delete_job(self, name: str) -> None:
        await self._delete(Job, name, propagation="Background")

    async def set_quota(self, queue: str, gpus: float) -> None:
        """Changes what a queue is owed."""
        patch = {"spec": {"resources": {"gpu": {"quota": gpus}}}}
        await self.client.patch(Queue, queue, patch)

    async def clear(self) -> None:
        """Everything goes, and is gone. One by one: a collection of so many takes longer than a request may."""
        jobs = [each.metadata.name for each in (await self.client.list(Job, NAMESPACE)).items]
        await _for_each(jobs, self.delete_job)
        await _for_each(list(self.pods), lambda name: self._delete(Pod, name, grace_seconds=0))

        async def gone() -> bool:
            pages = [await self.client.list(kind, NAMESPACE) for kind in (Job, Pod, PodGroup, BindRequest)]
            return not any(page.items for page in pages)

        await eventually(gone, "everything is gone")
        self.pods.clear()
        self.seen_at.clear()
        self.bound_at.clear()

    async def _delete(self, kind: type[KubeObject], name: str, **options: Any) -> None:
        with suppress(NotFound):
            await self.client.delete(kind, name, NAMESPACE, **options)


async def _for_each(items: Iterable[T], act: Callable[[T], Awaitable[object]]) -> None:
    """Several at a time."""
    waiting = iter(items)

    async def work() -> None:
        for each in waiting:
            await act(each)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


@asynccontextmanager
async def enter_scene(client: Client, owed_gpus: int) -> AsyncIterator[Scene]:
    """The namespace, its queues and the nodes' topology, watched for the length of the block."""
    await client.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
    free = QueueResource(quota=-1, overQuotaWeight=1, limit=-1)
    for name, parent, gpus in (("stack", "", -1.0), (FILLING, "stack", 0.0), (OWED, "stack", float(owed_gpus))):
        resources = QueueResources(gpu=QueueResource(quota=gpus, overQuotaWeight=1, limit=-1), cpu=free, memory=free)
        await client.create(
            Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(parentQueue=parent, resources=resources))
        )
    levels = tuple(TopologyLevel(nodeLabel=label) for label in (*TOPOLOGY_LABELS, "kubernetes.io/hostname"))
    await client.create(Topology(metadata=ObjectMeta(name=TOPOLOGY), spec=TopologySpec(levels=levels)))

    async def pods_are_accepted() -> bool:
        try:
            await client.get(ServiceAccount, "default", NAMESPACE)
        except NotFound:
            return False
        return True

    await eventually(pods_are_accepted, "pods are accepted")
    async with AsyncExitStack() as stack:
        scene = Scene(client)
        informers = Informers(client)
        pods = informers.of(Pod, namespace=NAMESPACE)
        pods.subscribe(scene.note)
        running = asyncio.create_task(informers.run())
        stack.callback(running.cancel)
        await pods.wait_synced()
        yield scene


async def eventually(holds: Callable[[], Awaitable[bool]], what: str, pause_seconds: float = 0.5) -> None:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await holds():
                await asyncio.sleep(pause_seconds)
    except TimeoutError:
        raise NotMeasured(f"not after {PATIENCE_SECONDS:.0f} s: {what}") from None


# ── what pods are ──


def is_grouped(pod: Pod) -> bool:
    return POD_GROUP_ANNOTATION in pod.metadata.annotations


def is_bound(pod: Pod) -> bool:
    return bool(pod.spec.nodeName)


def is_told(pod: Pod) -> bool:
    """Whether a pod says of itself that there is no room for it."""
    return any(each.type == "PodScheduled" and each.reason == "Unschedulable" for each in pod.status.conditions)


def of_job(names: Collection[str], holds: Callable[[Pod], bool]) -> Callable[[Pod], bool]:
    """Whether a pod belongs to one of these Jobs, and is so."""
    return lambda pod: pod.metadata.labels.get(JOB_LABEL) in names and holds(pod)


def jobs_by_node(pods: Iterable[Pod]) -> dict[str, list[str]]:
    """Names of the Jobs with a pod on each node."""
    found: dict[str, list[str]] = {}
    for pod in pods:
        if pod.spec.nodeName:
            found.setdefault(pod.spec.nodeName, []).append(pod.metadata.labels[JOB_LABEL])
    return found


def job(name: str, *, pods: int = 1, gpus: int = 1, queue: str = FILLING, preferred_level: str = "") -> dict[str, Any]:
    """A Job whose pods start all at once or not at all.

    `preferred_level`: the topology level in one domain of which they are best placed; empty: anywhere.
    """
    preference = {TOPOLOGY_ANNOTATION: TOPOLOGY, TOPOLOGY_PREFERRED_ANNOTATION: preferred_level}
    topology = preference if preferred_level else {}
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": str(gpus)}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": {"kai.scheduler/queue": queue},
            "annotations": {MIN_MEMBER_ANNOTATION: str(pods), **topology},
        },
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {
                "metadata": {"labels": {"kai.scheduler/queue": queue}},
                "spec": {
                    "schedulerName": SCHEDULER_NAME,
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "example.com/work", "resources": resources}],
                },
            },
        },
    }


def median(values: list[float]) -> float:
    return statistics.median(values) if values else 0.0
