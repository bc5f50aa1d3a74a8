"""Clusters in which PodCliqueSets run: Bosket's services, on nodes that hold one pod each.

A scenario of Grove's list is a test that is given `world`, and enters it to have a cluster. The one here is embedded,
in virtual time; `tests.e2e.grove_world` has the other, on a real control plane.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Protocol, TypeVar

from msgspec.structs import replace

from bosket.api.core import Event, Namespace, Node, NodeCondition, NodeSpec, NodeStatus, Pod
from bosket.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet
from bosket.api.grove.naming import CLIQUE_LABEL
from bosket.api.kai import Queue, QueueResource, QueueResources, QueueSpec
from bosket.api.keys import SCHEDULER_NAME
from bosket.api.object import KubeObject, ObjectMeta
from bosket.embedded.cluster import EmbeddedCluster
from bosket.kube.client import Client, PatchType
from bosket.runtime.clock import Clock, LoopClock
from tests.grove.kubelet import TestKubelet
from tests.grove.sets import NAMESPACE, QUEUE

T = TypeVar("T")
Json = dict[str, Any]

SERVICES: Final = (
    "podgroup-controller",
    "queue-controller",
    "scheduler",
    "binder",
    "grove-admission",
    "grove-operator",
    "grove-backends",
)
_PATIENCE_SECONDS: Final = 300.0
_LOOK_SECONDS: Final = 1.0
_SETTLE_SECONDS: Final = 15.0
_HOST_LABEL: Final = "kubernetes.io/hostname"


class World:
    """What tests do to the cluster, and see in it."""

    #: Whether waiting costs nothing, so that it may be seen that even what is complete stays as it is.
    time_is_free = True
    #: How long sets bear it to be below their minimum, where a test is about that.
    termination_delay_seconds = 10

    def __init__(self, client: Client, clock: Clock, *, namespace: str = NAMESPACE, nodes: Sequence[str] = ()) -> None:
        self.client = client
        self.clock = clock
        #: Where the sets are.
        self.namespace = namespace
        self.nodes = nodes

    # --- doing

    async def apply(self, *objects: KubeObject) -> None:
        for each in objects:
            await self.create(self._placed(each))

    async def create(self, made: KubeObject) -> None:
        await self.client.create(made)

    def _placed(self, made: KubeObject) -> KubeObject:
        """The object in this world's namespace, if it is in that of the tests."""
        if made.metadata.namespace != NAMESPACE:
            return made
        return replace(made, metadata=replace(made.metadata, namespace=self.namespace))

    async def free(self, count: int) -> None:
        """Uncordon that many nodes."""
        nodes = (await self.client.list(Node)).items
        cordoned = {node.metadata.name for node in nodes if node.spec.unschedulable}
        for name in [each for each in self.nodes if each in cordoned][:count]:
            await self.client.patch(Node, name, {"spec": {"unschedulable": None}})

    async def cordon(self, *names: str) -> None:
        for name in names:
            await self.client.patch(Node, name, {"spec": {"unschedulable": True}})

    async def scale(self, kind: type[KubeObject], name: str, replicas: int) -> None:
        await self.client.scale(kind, name, self.namespace, replicas)

    async def change_image(self, name: str, *cliques: str, image: str) -> None:
        """Another image for these cliques of a set."""
        owner = await self.client.get(PodCliqueSet, name, self.namespace)
        positions = [index for index, each in enumerate(owner.spec.template.cliques) if each.name in cliques]
        await self.patch_set(
            name,
            *(
                {
                    "op": "replace",
                    "path": f"/spec/template/cliques/{index}/spec/podSpec/containers/0/image",
                    "value": image,
                }
                for index in positions
            ),
        )

    async def patch_set(self, name: str, *operations: Json) -> None:
        await self.client.patch(PodCliqueSet, name, operations, namespace=self.namespace, type=PatchType.JSON)

    async def delete_pod(self, pod: Pod) -> None:
        await self.client.delete(Pod, pod.metadata.name, self.namespace)

    async def kill(self, pod: Pod) -> None:
        """The pod's node fails, and with it the pod."""
        await self.cordon(pod.spec.nodeName)
        await self.delete_pod(pod)

    # --- seeing

    async def pods(self, clique: str = "") -> list[Pod]:
        labels = f"{CLIQUE_LABEL}={clique}" if clique else None
        found = (await self.client.list(Pod, self.namespace, labels=labels)).items
        return sorted((each for each in found if not each.metadata.deletionTimestamp), key=lambda pod: pod.key)

    async def running(self) -> list[Pod]:
        return [each for each in await self.pods() if each.status.phase == "Running"]

    async def clique(self, name: str) -> PodClique:
        return await self.client.get(PodClique, name, self.namespace)

    async def group(self, name: str) -> PodCliqueScalingGroup:
        return await self.client.get(PodCliqueScalingGroup, name, self.namespace)

    async def clique_set(self, name: str) -> PodCliqueSet:
        return await self.client.get(PodCliqueSet, name, self.namespace)

    async def until(self, what: str, condition: Callable[[], Awaitable[T]]) -> T:
        """Wait until a coroutine function gives something true, and return that."""
        deadline = self.clock.monotonic() + _PATIENCE_SECONDS
        while not (found := await condition()):
            if self.clock.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {what}: {await self.summary()}")
            await self.clock.sleep(_LOOK_SECONDS)
        return found

    async def summary(self) -> dict[str, int]:
        """Pods by PodClique and phase, for people who read failures."""
        pods = await self.pods()
        return dict(Counter(f"{each.metadata.labels.get(CLIQUE_LABEL)} {each.status.phase}" for each in pods))

    async def settle(self, after: float = 0) -> None:
        """Wait until nothing more is to be expected, at the earliest after so many seconds."""
        await self.clock.sleep(after + _SETTLE_SECONDS)

    async def stays(self, what: str, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait until it is so, and see that it stays so."""
        await self.until(what, condition)
        await self.settle()
        assert await condition(), f"no longer {what}: {await self.summary()}"

    async def expect(self, total: int, running: int) -> None:
        """So many pods there are in the end, so many of them run, and no more of them."""

        async def reached() -> bool:
            phases = [each.status.phase for each in await self.pods()]
            return (len(phases), phases.count("Running")) == (total, running)

        what = f"{running} of {total} pods"
        await (self.stays if running < total or self.time_is_free else self.until)(what, reached)

    async def expect_distinct(self) -> None:
        """Every pod has a node of its own."""
        nodes = [each.spec.nodeName for each in await self.running()]
        assert len(nodes) == len(set(nodes))

    async def expect_unschedulable(self, count: int) -> None:
        """So many pods have an event that they find no place."""

        async def are_told() -> bool:
            events = (await self.client.list(Event, self.namespace)).items
            told = {each.involvedObject.uid for each in events if each.reason == "Unschedulable"}
            return len(told & await self.uids()) == count

        await self.until(f"{count} unschedulable pods", are_told)

    async def uids(self, clique: str = "") -> set[str]:
        return {each.metadata.uid for each in await self.pods(clique)}


class EmbeddedWorld(World):
    """A world whose server is in this process, so that a test may run services of its own beside it."""

    def __init__(self, cluster: EmbeddedCluster, nodes: Sequence[str]) -> None:
        super().__init__(cluster.client("test"), cluster.clock, nodes=nodes)
        self.cluster = cluster


class Worlds(Protocol):
    """How a test has a world: with so many nodes, of which the last are cordoned, and with these services."""

    def __call__(
        self,
        nodes: int,
        *,
        cordoned: int = 0,
        node_labels: Sequence[Mapping[str, str]] = (),
        services: Sequence[str] = SERVICES,
        options: Mapping[str, object] | None = None,
        definitions: Sequence[Json] = (),
    ) -> AbstractAsyncContextManager[World]:
        """`options` are other than the usual ones, by service; `definitions` are kinds that the cluster has besides."""


@asynccontextmanager
async def world(
    nodes: int,
    *,
    cordoned: int = 0,
    node_labels: Sequence[Mapping[str, str]] = (),
    services: Sequence[str] = SERVICES,
    options: Mapping[str, object] | None = None,
    definitions: Sequence[Json] = (),
) -> AsyncIterator[EmbeddedWorld]:
    """An embedded cluster, in virtual time; see `Worlds`."""
    cluster = EmbeddedCluster(
        nodes=0,
        services=services,
        clock=LoopClock(),
        default_scheduler=SCHEDULER_NAME,
        more_services=(TestKubelet,),
        service_options=options,
    )
    async with cluster:
        client = cluster.client("test")
        names = [f"node-{index:02}" for index in range(nodes)]
        namespace = Namespace(metadata=ObjectMeta(name=NAMESPACE))
        for each in (*nodes_named(names, cordoned, node_labels), *queues(), namespace, *definitions):
            await client.create(each)
        await cluster.wait_ready()
        yield EmbeddedWorld(cluster, names)


def nodes_named(names: Sequence[str], cordoned: int, labels: Sequence[Mapping[str, str]] = ()) -> list[Node]:
    """Nodes as large as one pod of Grove's workloads, of which the last are cordoned; nobody simulates them."""
    amounts: dict[str, str | int | float] = {"cpu": "64", "memory": "150Mi", "pods": "500", "nvidia.com/gpu": "8"}
    ready = NodeCondition(type="Ready", status="True", reason="Test")
    status = NodeStatus(capacity=amounts, allocatable=amounts, conditions=(ready,))
    return [
        Node(
            metadata=ObjectMeta(name=name, labels={_HOST_LABEL: name, **(labels[index] if labels else {})}),
            spec=NodeSpec(unschedulable=index >= len(names) - cordoned),
            status=status,
        )
        for index, name in enumerate(names)
    ]


def queues() -> tuple[Queue, Queue]:
    """A queue that may use everything, after its parent."""
    unlimited = QueueResource(quota=-1, limit=-1, overQuotaWeight=1)
    resources = QueueResources(cpu=unlimited, gpu=unlimited, memory=unlimited)
    parent = Queue(metadata=ObjectMeta(name="parent"), spec=QueueSpec(resources=resources))
    return parent, Queue(metadata=ObjectMeta(name=QUEUE), spec=QueueSpec(parentQueue="parent", resources=resources))
