"""A cluster in which PodCliqueSets run: Bosket's services, in virtual time, on nodes that hold one pod each."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from bosket.api.core import Namespace, Node, Pod
from bosket.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet
from bosket.api.grove.naming import CLIQUE_LABEL
from bosket.api.kai import Queue, QueueResource, QueueResources, QueueSpec
from bosket.api.object import KubeObject, ObjectMeta
from bosket.embedded.cluster import EmbeddedCluster
from bosket.kube.client import Client
from bosket.runtime.clock import LoopClock
from tests.grove.kubelet import TestKubelet
from tests.grove.sets import NAMESPACE, QUEUE

SERVICES: Final = (
    "podgroup-controller",
    "queue-controller",
    "scheduler",
    "binder",
    "grove-admission",
    "grove-operator",
    "grove-backends",
)
_PATIENCE_SECONDS: Final = 300
_SETTLE_SECONDS: Final = 15
_NODE_LABEL: Final = "kubernetes.io/hostname"


class World:
    """What tests do to the cluster, and see in it."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.client: Client = cluster.client("test")
        self.clock = cluster.clock

    # --- doing

    async def apply(self, *objects: KubeObject) -> None:
        for each in objects:
            await self.client.create(each)

    async def free(self, count: int) -> None:
        """Uncordon that many nodes."""
        cordoned = [node for node in (await self.client.list(Node)).items if node.spec.unschedulable]
        for node in cordoned[:count]:
            await self.client.patch(Node, node.metadata.name, {"spec": {"unschedulable": None}})

    async def cordon(self, *names: str) -> None:
        for name in names:
            await self.client.patch(Node, name, {"spec": {"unschedulable": True}})

    async def scale(self, kind: type[KubeObject], name: str, replicas: int) -> None:
        await self.client.scale(kind, name, NAMESPACE, replicas)

    async def change_image(self, name: str, *cliques: str, image: str) -> None:
        """Another image for these cliques of a set."""
        owner = await self.client.get(PodCliqueSet, name, NAMESPACE)
        positions = [index for index, each in enumerate(owner.spec.template.cliques) if each.name in cliques]
        path = f"/apis/grove.io/v1alpha1/namespaces/{NAMESPACE}/podcliquesets/{name}"
        patch = [
            {
                "op": "replace",
                "path": f"/spec/template/cliques/{index}/spec/podSpec/containers/0/image",
                "value": image,
            }
            for index in positions
        ]
        headers = {"Content-Type": "application/json-patch+json"}
        await self.client.raw("PATCH", path, body=patch, headers=headers)

    async def delete_pod(self, pod: Pod) -> None:
        await self.client.delete(Pod, pod.metadata.name, NAMESPACE)

    async def kill(self, pod: Pod) -> None:
        """The pod's node fails, and with it the pod."""
        await self.cordon(pod.spec.nodeName)
        await self.delete_pod(pod)

    # --- seeing

    async def pods(self, clique: str = "") -> list[Pod]:
        labels = f"{CLIQUE_LABEL}={clique}" if clique else None
        found = (await self.client.list(Pod, NAMESPACE, labels=labels)).items
        return sorted((each for each in found if not each.metadata.deletionTimestamp), key=lambda pod: pod.key)

    async def running(self) -> list[Pod]:
        return [each for each in await self.pods() if each.status.phase == "Running"]

    async def clique(self, name: str) -> PodClique:
        return await self.client.get(PodClique, name, NAMESPACE)

    async def group(self, name: str) -> PodCliqueScalingGroup:
        return await self.client.get(PodCliqueScalingGroup, name, NAMESPACE)

    async def set(self, name: str) -> PodCliqueSet:
        return await self.client.get(PodCliqueSet, name, NAMESPACE)

    async def until(self, what: str, condition: Callable[[], Any], seconds: int = _PATIENCE_SECONDS) -> Any:
        """Wait until a coroutine function gives something true."""
        for _ in range(seconds):
            found = await condition()
            if found:
                return found
            await self.clock.sleep(1)
        raise AssertionError(f"waited in vain for {what}: {await self.summary()}")

    async def summary(self) -> dict[str, int]:
        """Pods by PodClique and phase, for people who read failures."""
        pods = await self.pods()
        return dict(Counter(f"{each.metadata.labels.get(CLIQUE_LABEL)} {each.status.phase}" for each in pods))

    async def settle(self, seconds: float = _SETTLE_SECONDS) -> None:
        await self.clock.sleep(seconds)

    async def expect(self, total: int, running: int) -> None:
        """So many pods there are in the end, so many of them run, and it stays so."""

        async def reached() -> bool:
            return len(await self.pods()) == total and len(await self.running()) == running

        await self.until(f"{running} of {total} pods", reached)
        await self.settle()
        assert await reached(), f"no longer {running} of {total} pods: {await self.summary()}"

    async def expect_distinct(self) -> None:
        """Every pod has a node of its own."""
        nodes = [each.spec.nodeName for each in await self.running()]
        assert len(nodes) == len(set(nodes))

    async def uids(self, clique: str = "") -> set[str]:
        return {each.metadata.uid for each in await self.pods(clique)}


def _node(index: int, labels: Mapping[str, str], memory: str) -> dict[str, Any]:
    name = f"node-{index:02}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {_NODE_LABEL: name, **labels}},
    }


@asynccontextmanager
async def world(
    nodes: int,
    *,
    cordoned: int = 0,
    memory: str = "150Mi",
    node_labels: Sequence[Mapping[str, str]] = (),
    services: Sequence[str] = SERVICES,
    options: Mapping[str, object] | None = None,
) -> AsyncIterator[World]:
    """A cluster with so many nodes, of which some are cordoned."""
    cluster = EmbeddedCluster(
        nodes=0,
        services=services,
        clock=LoopClock(),
        more_services=(TestKubelet,),
        service_options=options,
    )
    async with cluster:
        client = cluster.client("test")
        amounts = {"cpu": "64", "memory": memory, "pods": "500", "nvidia.com/gpu": "8"}
        status = {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Test"}],
        }
        headers = {"Content-Type": "application/merge-patch+json"}
        for index in range(nodes):
            node = _node(index, node_labels[index] if node_labels else {}, memory)
            if index >= nodes - cordoned:
                node["spec"] = {"unschedulable": True}
            await client.create(node)
            path = f"/api/v1/nodes/{node['metadata']['name']}/status"
            await client.raw("PATCH", path, body={"status": status}, headers=headers)
        unlimited = QueueResource(quota=-1, limit=-1, overQuotaWeight=1)
        resources = QueueResources(cpu=unlimited, gpu=unlimited, memory=unlimited)
        parent = Queue(metadata=ObjectMeta(name="parent"), spec=QueueSpec(resources=resources))
        child = Queue(metadata=ObjectMeta(name=QUEUE), spec=QueueSpec(parentQueue="parent", resources=resources))
        for each in (parent, child, Namespace(metadata=ObjectMeta(name=NAMESPACE))):
            await client.create(each)
        await cluster.wait_ready()
        yield World(cluster)
