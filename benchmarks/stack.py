"""The whole stack beside the Go stack: from Job to bound pod, with every service a process of its own.

On a real control plane as the Go stack was measured (125 nodes, 1,000 one-pod Jobs), and on the embedded cluster (500
nodes, 4,000 pods). Times end when a watch shows what is waited for. CPU and writes are those of the fill while Jobs are
submitted, until nobody has anything left to write; writes are the API server's own record, on the embedded cluster
what each service counted.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from benchmarks.go_figure import STACK_HEADING, read_results
from benchmarks.report import Report, progress
from benchmarks.stack_cluster import GPUS_PER_NODE, StackCluster, embedded_cluster, real_cluster
from benchmarks.stack_report import report
from benchmarks.stack_run import Measured, StackRun
from benchmarks.stack_scene import enter_scene
from benchmarks.workload import NotMeasured, perf_folder
from bosket.runtime.service import stop_on_signals

RECLAIMS = 3
OWED_GPUS = 64


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
    return report(measured[0], measured[1], read_results(perf_folder() / "kai.md", STACK_HEADING))


async def _run(sizes: Sizes, measured: list[Measured]) -> None:
    """Stops early at a signal, and leaves no process behind."""
    with stop_on_signals():
        async with real_cluster(sizes.real_nodes) as cluster:
            measured.append(await _measure("real control plane", cluster, sizes.gang, before=True))
        async with embedded_cluster(sizes.embedded_nodes) as cluster:
            measured.append(await _measure("embedded cluster", cluster, sizes.gang, before=False))


async def _measure(title: str, cluster: StackCluster, gang: int, *, before: bool) -> Measured:
    progress(f"{title}: {cluster.nodes} nodes")
    async with enter_scene(cluster.client, OWED_GPUS) as scene:
        found = Measured(cluster.nodes * GPUS_PER_NODE, gang)
        run = StackRun(title, cluster, scene, found)
        await run.start_without_scheduler()
        if before:
            await run.fill_before()
            await scene.clear()
        else:
            await run.start_scheduler()
        await run.gang()
        await scene.clear()
        await run.fill()
        await run.unschedulable()
        for attempt in range(1, RECLAIMS + 1):
            await run.reclaim(f"reclaim {attempt}")
        return found
