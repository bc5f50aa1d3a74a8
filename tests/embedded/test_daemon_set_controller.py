"""DaemonSets: a pod on every node that suits, and on no other; updated one by one; told of in the status."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bosket.api.apps import ControllerRevision, DaemonSet
from bosket.api.core import Node, Pod
from bosket.embedded.cluster import EmbeddedCluster
from bosket.kube.client import Client
from bosket.runtime.clock import LoopClock

pytestmark = pytest.mark.looptime


class World:
    """A cluster of three nodes with all that runs on it, and one DaemonSet."""

    def __init__(self, client: Client, clock: LoopClock) -> None:
        self.client, self._clock = client, clock

    async def create(self, *, strategy: dict[str, Any] | None = None, **spec: Any) -> None:
        template = {
            "metadata": {"labels": {"app": "d"}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "c", "image": "i"}], **spec},
        }
        whole = {"selector": {"matchLabels": {"app": "d"}}, "template": template}
        if strategy is not None:
            whole["updateStrategy"] = strategy
        metadata = {"name": "d", "namespace": "default"}
        await self.client.create({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": whole})

    async def pods(self) -> list[Pod]:
        return (await self.client.list(Pod, "default")).items

    async def running(self) -> Counter[str]:
        """How many pods run, by node."""
        return Counter(
            pod.spec.nodeName
            for pod in await self.pods()
            if pod.status.phase == "Running" and pod.metadata.deletionTimestamp is None
        )

    async def until(self, holds: Callable[[Counter[str]], bool]) -> None:
        async with asyncio.timeout(120):
            while not holds(await self.running()):
                await self._clock.sleep(0.25)

    async def daemon_set(self) -> DaemonSet:
        await self._clock.sleep(2)
        return await self.client.get(DaemonSet, "d", "default")

    async def set_image(self, image: str) -> None:
        await self.client.patch(
            DaemonSet,
            "d",
            {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}},
            namespace="default",
        )


@asynccontextmanager
async def world(nodes: int = 3) -> AsyncIterator[World]:
    clock = LoopClock()
    async with EmbeddedCluster(nodes=nodes, services=("binder",), clock=clock) as cluster:
        await cluster.wait_ready()
        yield World(cluster.client(), clock)


EACH_OF_THREE = Counter({f"node-00{index}": 1 for index in range(3)})


async def test_every_node_runs_one_pod_and_a_new_node_too() -> None:
    async with world() as w:
        await w.create()
        await w.until(EACH_OF_THREE.__eq__)
        status = (await w.daemon_set()).status
        assert (status.desiredNumberScheduled, status.currentNumberScheduled, status.numberAvailable) == (3, 3, 3)
        assert (status.updatedNumberScheduled, status.numberUnavailable, status.numberMisscheduled) == (3, 0, 0)
        first = await w.client.get(Node, "node-000")
        labels = {**first.metadata.labels, "kubernetes.io/hostname": "node-new"}
        await w.client.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "node-new", "labels": labels, "annotations": first.metadata.annotations},
                "status": {"allocatable": first.status.allocatable, "capacity": first.status.capacity},
            }
        )
        await w.until(lambda running: running["node-new"] == 1)


async def test_nodes_that_do_not_match_have_none_and_lose_theirs_when_they_stop_to() -> None:
    async with world() as w:
        for name in ("node-000", "node-001"):
            await w.client.patch(Node, name, {"metadata": {"labels": {"role": "storage"}}})
        await w.create(nodeSelector={"role": "storage"})
        await w.until(Counter({"node-000": 1, "node-001": 1}).__eq__)
        await w.client.patch(Node, "node-001", {"metadata": {"labels": {"role": None}}})
        await w.until(Counter({"node-000": 1}).__eq__)
        assert (await w.daemon_set()).status.desiredNumberScheduled == 1


async def test_taints_keep_daemons_off_unless_they_tolerate_them() -> None:
    async with world() as w:
        taint = {"key": "reserved", "effect": "NoSchedule"}
        await w.client.patch(Node, "node-000", {"spec": {"taints": [taint]}})
        await w.client.patch(Node, "node-001", {"spec": {"unschedulable": True}})
        await w.create()
        await w.until(Counter({"node-001": 1, "node-002": 1}).__eq__)  # cordoned nodes need their daemons
        await w.client.patch(
            DaemonSet,
            "d",
            {"spec": {"template": {"spec": {"tolerations": [{"key": "reserved", "operator": "Exists"}]}}}},
            namespace="default",
        )
        await w.until(EACH_OF_THREE.__eq__)


async def test_a_taint_that_comes_later_leaves_what_runs_and_the_status_says_so() -> None:
    async with world() as w:
        await w.create()
        await w.until(EACH_OF_THREE.__eq__)
        await w.client.patch(Node, "node-000", {"spec": {"taints": [{"key": "reserved", "effect": "NoSchedule"}]}})
        status = (await w.daemon_set()).status
        assert (status.desiredNumberScheduled, status.numberMisscheduled) == (2, 1)
        assert await w.running() == EACH_OF_THREE


async def test_a_pod_that_goes_comes_back() -> None:
    async with world() as w:
        await w.create()
        await w.until(EACH_OF_THREE.__eq__)
        gone = (await w.pods())[0]
        await w.client.delete(Pod, gone.metadata.name, "default")
        await w.until(lambda running: sum(running.values()) == 2)
        await w.until(EACH_OF_THREE.__eq__)


@pytest.mark.parametrize(
    ("rolling", "fewest", "most"), [({"maxUnavailable": 1}, 2, 3), ({"maxUnavailable": 0, "maxSurge": 1}, 3, 4)]
)
async def test_an_update_replaces_pods_as_the_strategy_allows(rolling: dict[str, int], fewest: int, most: int) -> None:
    async with world() as w:
        await w.create(strategy={"type": "RollingUpdate", "rollingUpdate": rolling})
        await w.until(EACH_OF_THREE.__eq__)
        await w.daemon_set()
        old = {pod.metadata.uid for pod in await w.pods()}
        await w.set_image("new")
        seen: list[int] = []

        def note(running: Counter[str]) -> bool:
            seen.append(sum(running.values()))
            return True

        async with asyncio.timeout(120):
            while {pod.metadata.uid for pod in await w.pods()} & old or await w.running() != EACH_OF_THREE:
                await w.until(note)
                await asyncio.sleep(0.1)
        assert min(seen) >= fewest
        assert max(seen) <= most
        assert {pod.spec.containers[0].image for pod in await w.pods()} == {"new"}
        assert (await w.daemon_set()).status.updatedNumberScheduled == 3
        revisions = (await w.client.list(ControllerRevision, "default")).items
        assert sorted(each.revision for each in revisions) == [1, 2]


async def test_with_on_delete_nothing_is_replaced_until_it_is_deleted() -> None:
    async with world() as w:
        await w.create(strategy={"type": "OnDelete"})
        await w.until(EACH_OF_THREE.__eq__)
        await w.set_image("new")
        assert (await w.daemon_set()).status.updatedNumberScheduled == 0
        first = (await w.pods())[0]
        await w.client.delete(Pod, first.metadata.name, "default")
        await w.until(lambda running: sum(running.values()) == 2)
        await w.until(EACH_OF_THREE.__eq__)
        assert (await w.daemon_set()).status.updatedNumberScheduled == 1


async def test_the_pods_go_with_their_daemon_set() -> None:
    async with world() as w:
        await w.create()
        await w.until(EACH_OF_THREE.__eq__)
        await w.client.delete(DaemonSet, "d", "default")
        await w.until(lambda running: not running)
