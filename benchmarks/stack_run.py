"""The scenes that `stack` and `scale` are made of, and what each of them measured.

A `StackRun` plays scenes on one cluster; a benchmark chooses which, and in which order. Times end when a watch shows
what is waited for.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field

from benchmarks.audit import AuditLog, Write
from benchmarks.report import progress
from benchmarks.stack_cluster import GPUS_PER_NODE, SCHEDULER, SERVICES, StackCluster
from benchmarks.stack_scene import (
    FILLING,
    NAMESPACE,
    OWED,
    Scene,
    is_bound,
    is_grouped,
    is_told,
    job,
    jobs_by_node,
    median,
    of_job,
)
from bosket.api.kai import PodGroup
from bosket.api.keys import POD_GROUP_ANNOTATION

UNSCHEDULABLE_PODS = 10
#: What a moved or reclaimed gang consists of in KAI's scale suite.
GANG_PODS = 10
#: When nobody has written for so long, everything is written.
QUIET_SECONDS = 2.0


@dataclass
class Measured:
    """What came out on one cluster."""

    jobs: int
    gang: int  #: pods of the large one
    seconds: dict[str, float] = field(default_factory=dict)  #: by scene
    submitted_s: float = 0.0
    wait_s: float = 0.0  #: from being there to being bound, median
    cpu_s: dict[str, float] = field(default_factory=dict)  #: of each process, for the fill
    memory_mib: dict[str, float] = field(default_factory=dict)
    writes: Counter[Write] = field(default_factory=Counter)
    counted: dict[str, int] = field(default_factory=dict)  #: writes by service

    @property
    def writes_per_job(self) -> float:
        return sum(self.counted.values()) / self.jobs

    @property
    def services_cpu_ms_per_job(self) -> float:
        return sum(self.cpu_s[name] for name in SERVICES) / self.jobs * 1e3

    def cpu_share(self, *processes: str) -> float:
        """The fraction of the CPU time of all processes that these took."""
        return sum(self.cpu_s.get(name, 0.0) for name in processes) / sum(self.cpu_s.values())

    def named(self, scene: str) -> list[float]:
        """The seconds of all scenes whose names begin so."""
        return [seconds for name, seconds in self.seconds.items() if name.startswith(scene)]


@dataclass
class StackRun:
    """Scenes, one after the other, on one cluster."""

    title: str
    cluster: StackCluster
    scene: Scene
    found: Measured

    async def start_without_scheduler(self) -> None:
        await self.cluster.start(*(name for name in SERVICES if name != SCHEDULER))

    async def start_scheduler(self) -> None:
        await self.cluster.start(SCHEDULER)

    def _say(self, scene: str, seconds: float) -> None:
        self.found.seconds[scene] = seconds
        progress(f"{self.title}: {scene}: {seconds:.1f} s")

    async def fill_before(self) -> None:
        """Pods are there, and grouped, before the scheduler starts."""
        await self.scene.submit(job(f"early-{each}") for each in range(self.found.jobs))
        await self.scene.until(is_grouped, self.found.jobs, "grouped")
        started = time.monotonic()
        await self.start_scheduler()
        await self.scene.until(is_bound, self.found.jobs, "bound")
        self._say("before", time.monotonic() - started)

    async def gang(self, scene: str = "gang", *, preferred_level: str = "") -> None:
        """One Job of many pods: until all of them are bound."""
        started = time.monotonic()
        await self.scene.submit([job(job_name(scene), pods=self.found.gang, preferred_level=preferred_level)])
        await self.scene.until(is_bound, self.found.gang, "bound")
        self._say(scene, time.monotonic() - started)

    async def fill(self) -> None:
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
        await self.quiet()
        found.cpu_s = {name: spent - cpu[name] for name, spent in cluster.cpu().items()}
        found.memory_mib = cluster.memory()
        found.counted = {name: count - counted[name] for name, count in cluster.counted_writes().items()}
        if log is not None:
            found.writes = log.count()

    async def quiet(self) -> None:
        """Until services write no more than their leases."""
        idle = len(SERVICES) * QUIET_SECONDS
        before = sum(self.cluster.counted_writes().values())
        while True:
            await asyncio.sleep(QUIET_SECONDS)
            now = sum(self.cluster.counted_writes().values())
            if now - before <= idle:
                return
            before = now

    async def unschedulable(self, scene: str = "unschedulable", *, queue: str = FILLING) -> None:
        """Pods that want whole nodes of a full cluster: until each says so, and their group does."""
        name = job_name(scene)
        started = time.monotonic()
        await self.scene.submit([job(name, pods=UNSCHEDULABLE_PODS, gpus=GPUS_PER_NODE, queue=queue)])
        told = await self.scene.until(of_job({name}, is_told), UNSCHEDULABLE_PODS, "told that there is no room")
        group = told[0].metadata.annotations[POD_GROUP_ANNOTATION]
        while not (await self.cluster.client.get(PodGroup, group, NAMESPACE)).status.schedulingConditions:
            await asyncio.sleep(0.05)
        self._say(scene, time.monotonic() - started)

    async def reclaim(self, scene: str, *, pods: int = 1, gpus: int = 1) -> None:
        """A queue takes GPUs that it is owed: until its pods have them."""
        name = job_name(scene)
        started = time.monotonic()
        await self.scene.submit([job(name, pods=pods, gpus=gpus, queue=OWED)])
        await self.scene.until(of_job({name}, is_bound), pods, "given their GPUs")
        self._say(scene, time.monotonic() - started)

    async def consolidate(self, scene: str) -> None:
        """On each node five of eight one-GPU Jobs end; gangs whose pods want six GPUs then need some of the rest moved.

        The gangs are as many as the free GPUs could hold, and there before the first of them is served.
        """
        freed, wanted = GPUS_PER_NODE // 2 + 1, GPUS_PER_NODE // 2 + 2
        for names in jobs_by_node(self.scene.pods.values()).values():
            for name in names[:freed]:
                await self.scene.delete_job(name)
        await self.quiet()
        gangs = freed * self.cluster.nodes // (wanted * GANG_PODS)
        started = time.monotonic()
        names = [f"moved-for-{each}" for each in range(gangs)]
        await self.scene.submit(job(name, pods=GANG_PODS, gpus=wanted, queue=OWED) for name in names)
        await self.scene.until(of_job(set(names), is_bound), gangs * GANG_PODS, "given room")
        self._say(scene, time.monotonic() - started)


def job_name(scene: str) -> str:
    """What a scene's Job is called."""
    return scene.replace(" ", "-")
