"""Reclaims whose scheduler dies right after its first eviction: as many pods go as must, and nobody takes turns.

A queue without a claim holds all GPUs of two nodes with one-GPU pods; another one asks for the half that it is owed, as
one gang. When the first pod is being evicted, all schedulers are killed. In the end the gang runs, exactly as many pods
were evicted as it has, and it stays so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from benchmarks.chaos.judge import Json, is_active, label, told
from benchmarks.chaos.load import GPUS_PER_NODE, node, queue
from benchmarks.chaos.watcher import Watcher
from benchmarks.chaos.world import World
from bosket.api.apps import Deployment
from bosket.api.batch import Job
from bosket.kube.errors import KubeError, NotFound
from tests.e2e.manifest import deployment, job

NAMESPACE: Final = "restart"
POOL: Final = "restart"
HOLDER, OWED = "restart-holder", "restart-owed"
NODES: Final = 2
OWED_GPUS: Final = GPUS_PER_NODE
_PATIENCE_SECONDS: Final = 240.0
#: How long nobody may be evicted again after the gang runs.
_REST_SECONDS: Final = 10.0


@dataclass
class Restarts:
    """Runs such reclaims one after the other; each leaves its verdict."""

    world: World
    watcher: Watcher
    done: int = 0
    broken: list[str] = field(default_factory=list)

    async def prepare(self) -> None:
        client = self.world.client
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        await client.create(queue("restart", "", NODES * GPUS_PER_NODE))
        await client.create(queue(HOLDER, "restart", NODES * GPUS_PER_NODE - OWED_GPUS))
        await client.create(queue(OWED, "restart", OWED_GPUS))
        for number in range(NODES):
            await client.create(node(f"restart-{number}", POOL))

    async def reclaim_once(self) -> None:
        name = f"reclaim-{self.done}"
        selector = {"pool": POOL}
        holder = deployment(name, replicas=NODES * GPUS_PER_NODE, gpus=1, queue=HOLDER, nodeSelector=selector)
        holder["metadata"]["labels"]["priorityClassName"] = "train"  # by default a Deployment can't be preempted
        gang = job(f"{name}-gang", pods=OWED_GPUS, gpus=1, queue=OWED, nodeSelector=selector)
        await self._create(holder)
        if not await self._until(lambda: len(self._active(name)) == NODES * GPUS_PER_NODE):
            waits = next((told(pod) for pod in self._pods() if not is_active(pod)), "there are no others")
            filled_by = len(self._active(name))
            self.broken.append(f"{name}: {filled_by} of {NODES * GPUS_PER_NODE} pods filled the nodes: {waits}")
            return await self._clear(name)
        filled = {pod["metadata"]["uid"] for pod in self._active(name)}
        await self._create(gang)
        if await self._until(lambda: len(self._staying(filled)) < len(filled)):
            for scheduler in self.world.of("scheduler"):
                await scheduler.kill()
                await scheduler.start()
        served = await self._until(lambda: len(self._active(f"{name}-gang")) == OWED_GPUS)
        if not served:
            self.broken.append(f"{name}: the gang doesn't run {_PATIENCE_SECONDS:.0f} s after its scheduler was killed")
        await asyncio.sleep(_REST_SECONDS)
        evicted = len(filled) - len(self._staying(filled))
        if evicted != OWED_GPUS:
            self.broken.append(f"{name}: {evicted} pods were evicted for a gang of {OWED_GPUS}")
        if served and len(self._active(f"{name}-gang")) != OWED_GPUS:
            self.broken.append(f"{name}: the gang that others were evicted for lost its place again")
        self.done += 1
        return await self._clear(name)

    def _pods(self) -> list[Json]:
        with self.watcher.lock:
            pods = list(self.watcher.judge.pods.values())
        return [pod for pod in pods if pod["metadata"]["namespace"] == NAMESPACE]

    def _active(self, workload: str) -> list[Json]:
        pods = [pod for pod in self._pods() if label(pod, "workload") == workload]
        return [pod for pod in pods if is_active(pod) and not pod["metadata"].get("deletionTimestamp")]

    def _staying(self, uids: set[str]) -> list[Json]:
        pods = [pod for pod in self._pods() if pod["metadata"]["uid"] in uids]
        return [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]

    async def _create(self, manifest: Json) -> None:
        async def create() -> None:
            await self.world.client.create(manifest, NAMESPACE)

        await retried(create)

    async def _clear(self, name: str) -> None:
        async def delete() -> None:
            for kind, each in ((Deployment, name), (Job, f"{name}-gang")):
                try:
                    await self.world.client.delete(kind, each, NAMESPACE, propagation="Background")
                except NotFound:
                    continue

        await retried(delete)
        await self._until(lambda: not self._pods())

    async def _until(self, holds: Callable[[], bool]) -> bool:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while not holds():
                    await asyncio.sleep(0.05)
        except TimeoutError:
            return False
        return True


async def retried(act: Callable[[], Awaitable[object]]) -> None:
    """Try until it succeeds: webhooks and servers are down now and then."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while True:
            try:
                await act()
            except (KubeError, OSError):
                await asyncio.sleep(1.0)
            else:
                return
