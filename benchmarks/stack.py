"""The whole stack beside the Go stack: from Job to bound pod, with every service a process of its own.

On a real control plane as the Go stack was measured (125 nodes, 1,000 one-pod Jobs), and on the embedded cluster (500
nodes, 4,000 pods). Times end when a watch shows what is waited for. CPU and writes are those of the fill while Jobs are
submitted, until nobody has anything left to write; writes are the API server's own record, on the embedded cluster
what each service counted.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from benchmarks.audit import AuditLog
from benchmarks.go_figure import read_stack_table
from benchmarks.report import Report, progress
from benchmarks.stack_cluster import GPUS_PER_NODE, SCHEDULER, SERVICES, StackCluster, embedded_cluster, real_cluster
from benchmarks.stack_report import Measured, report
from benchmarks.stack_scene import NAMESPACE, OWED, Scene, enter_scene, is_bound, is_grouped, is_told, job, median
from benchmarks.workload import NotMeasured, perf_folder
from bosket.api.kai import PodGroup
from bosket.runtime.service import stop_on_signals

UNSCHEDULABLE_PODS = 10
RECLAIMS = 3
#: When nobody has written for so long, everything is written.
QUIET_SECONDS = 2.0


@dataclass(frozen=True)
class Sizes:
    """How large the clusters are, and the gang."""

    real_nodes: int = 125
    embedded_nodes: int = 500
    gang: int = 512


def run(sizes: Sizes | None = None) -> Report:
    measured: list[Measured] = []
    asyncio.run(_run(sizes or Sizes(), measured))
    if len(measured) < 2:
        raise NotMeasured("stopped before the end")
    return report(measured[0], measured[1], read_stack_table(perf_folder() / "kai.md"))


async def _run(sizes: Sizes, measured: list[Measured]) -> None:
    """Stops early at a signal, and leaves no process behind."""
    with stop_on_signals():
        async with real_cluster(sizes.real_nodes) as cluster:
            measured.append(await _measure("real control plane", cluster, sizes.gang, before=True))
        async with embedded_cluster(sizes.embedded_nodes) as cluster:
            measured.append(await _measure("embedded cluster", cluster, sizes.gang, before=False))


async def _measure(title: str, cluster: StackCluster, gang: int, *, before: bool) -> Measured:
    progress(f"{title}: {cluster.nodes} nodes")
    async with enter_scene(cluster.client) as scene:
        found = Measured(cluster.nodes * GPUS_PER_NODE, gang)
        return await _Run(title, cluster, scene, found).all(before=before)


@dataclass
class _Run:
    """All scenes, one after the other, on one cluster."""

    title: str
    cluster: StackCluster
    scene: Scene
    found: Measured

    async def all(self, *, before: bool) -> Measured:
        await self.cluster.start(*(name for name in SERVICES if name != SCHEDULER))
        if before:
            await self._fill_before()
            await self.scene.clear()
        else:
            await self.cluster.start(SCHEDULER)
        await self._gang()
        await self.scene.clear()
        await self._fill()
        await self._unschedulable()
        for attempt in range(1, RECLAIMS + 1):
            await self._reclaim(attempt)
        return self.found

    def _say(self, scene: str, seconds: float) -> None:
        self.found.seconds[scene] = seconds
        progress(f"{self.title}: {scene}: {seconds:.1f} s")

    async def _fill_before(self) -> None:
        """Pods are there, and grouped, before the scheduler starts."""
        await self.scene.submit(job(f"early-{each}") for each in range(self.found.jobs))
        await self.scene.until(is_grouped, self.found.jobs, "grouped")
        started = time.monotonic()
        await self.cluster.start(SCHEDULER)
        await self.scene.until(is_bound, self.found.jobs, "bound")
        self._say("before", time.monotonic() - started)

    async def _gang(self) -> None:
        started = time.monotonic()
        await self.scene.submit([job("gang", pods=self.found.gang)])
        await self.scene.until(is_bound, self.found.gang, "bound")
        self._say("gang", time.monotonic() - started)

    async def _fill(self) -> None:
        """Jobs are submitted while others are bound already."""
        cluster, found = self.cluster, self.found
        log = AuditLog(cluster.audit_log) if cluster.audit_log is not None else None
        if log is not None:
            log.skip()
        cpu, counted = cluster.cpu(), cluster.counted_writes()
        started = time.monotonic()
        await self.scene.submit(job(f"late-{each}") for each in range(found.jobs))
        found.submitted_s = time.monotonic() - started
        await self.scene.until(is_bound, found.jobs, "bound")
        self._say("while", time.monotonic() - started)
        found.wait_s = median(self.scene.waits())
        await self._quiet()
        found.cpu_s = {name: spent - cpu[name] for name, spent in cluster.cpu().items()}
        found.memory_mib = cluster.memory()
        found.counted = {name: count - counted[name] for name, count in cluster.counted_writes().items()}
        if log is not None:
            found.writes = log.count()

    async def _quiet(self) -> None:
        """Until services write no more than their leases."""
        idle = len(SERVICES) * QUIET_SECONDS
        before = sum(self.cluster.counted_writes().values())
        while True:
            await asyncio.sleep(QUIET_SECONDS)
            now = sum(self.cluster.counted_writes().values())
            if now - before <= idle:
                return
            before = now

    async def _unschedulable(self) -> None:
        """Pods that want whole nodes of a full cluster: until each says so, and their group does."""
        started = time.monotonic()
        await self.scene.submit([job("hopeless", pods=UNSCHEDULABLE_PODS, gpus=GPUS_PER_NODE)])
        await self.scene.until(is_told, UNSCHEDULABLE_PODS, "told that there is no room")
        name = next(pod for pod in self.scene.pods.values() if is_told(pod)).metadata.annotations["pod-group-name"]
        while not (await self.cluster.client.get(PodGroup, name, NAMESPACE)).status.schedulingConditions:
            await asyncio.sleep(0.05)
        self._say("unschedulable", time.monotonic() - started)

    async def _reclaim(self, attempt: int) -> None:
        """A queue takes a GPU that it is owed: until its pod has it."""
        started = time.monotonic()
        await self.scene.submit([job(f"owed-{attempt}", queue=OWED)])
        await self.scene.until(
            lambda pod: pod.metadata.name.startswith(f"owed-{attempt}") and is_bound(pod), 1, "given its GPU"
        )
        self._say(f"reclaim {attempt}", time.monotonic() - started)
