"""KAI's own scale suite on Bosket: 500 simulated nodes of 8 GPUs on a real control plane, every service a process.

The scenes are those of KAI's `test/e2e/scale`: fill the cluster with one-GPU Jobs that are there before the scheduler,
consolidation for gangs, a gang of 512 pods with and without a preferred topology, fill while Jobs are submitted, a gang
for which there is no room, one for which reclaiming fails at its last pod, reclaim of single GPUs, reclaim for a gang
that takes half of the cluster.
CPU and writes are those of the fill while Jobs are submitted. `--nodes` runs it smaller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from benchmarks.go_figure import SCALE_HEADING, STACK_HEADING, read_results
from benchmarks.report import Report, progress
from benchmarks.scale_report import report
from benchmarks.stack_cluster import GPUS_PER_NODE, RACK, StackCluster, embedded_cluster, real_cluster
from benchmarks.stack_run import UNSCHEDULABLE_PODS, Measured, StackRun, job_name
from benchmarks.stack_scene import FILLING, OWED, enter_scene
from benchmarks.workload import NotMeasured, perf_folder
from bosket.runtime.service import stop_on_signals

NODES = 500
GANG = 512
#: How often a short scene is repeated.
REPEATS = 5

Cluster = Callable[[int], AbstractAsyncContextManager[StackCluster]]
CLUSTERS: dict[str, Cluster] = {"real": real_cluster, "embedded": embedded_cluster}


def run(nodes: int = NODES, server: str = "real", *, only_fill: bool = False) -> Report:
    """`only_fill`: the fill while Jobs are submitted, with its CPU and writes, and nothing else."""
    measured: list[Measured] = []
    asyncio.run(_run(nodes, CLUSTERS[server], measured, only_fill=only_fill))
    if not measured:
        raise NotMeasured("stopped before the end")
    figures = perf_folder() / "kai.md"
    return report(nodes, measured[0], read_results(figures, SCALE_HEADING), read_results(figures, STACK_HEADING))


async def _run(nodes: int, cluster_of: Cluster, measured: list[Measured], *, only_fill: bool) -> None:
    """Stops early at a signal, and leaves no process behind."""
    with stop_on_signals():
        async with cluster_of(nodes) as cluster, enter_scene(cluster.client, nodes * GPUS_PER_NODE) as scene:
            progress(f"scale: {nodes} nodes")
            gpus = nodes * GPUS_PER_NODE
            run = StackRun("scale", cluster, scene, Measured(gpus, min(GANG, gpus // 2)))
            await run.start_without_scheduler()
            if only_fill:
                await run.start_scheduler()
                await run.fill()
            else:
                await _all(run)
            measured.append(run.found)


async def _all(run: StackRun) -> None:
    scene, gpus = run.scene, run.found.jobs
    await run.fill_before()
    await run.consolidate("consolidation")
    await scene.clear()
    await run.gang()
    await scene.clear()
    await run.gang("gang topology", preferred_level=RACK)
    await scene.clear()
    await run.fill()
    await run.quiet()
    await _unschedulable(run, "unschedulable", FILLING)
    # So many of the cluster's GPUs are protected that one is missing for the last pod of the gang.
    await scene.set_quota(FILLING, gpus - UNSCHEDULABLE_PODS * GPUS_PER_NODE + 1)
    await _unschedulable(run, "failed reclaim", OWED)
    await scene.set_quota(FILLING, 0)
    await run.quiet()
    for attempt in range(1, REPEATS + 1):
        await run.reclaim(f"reclaim {attempt}")
    await run.quiet()
    await run.reclaim("large reclaim", pods=run.cluster.nodes // 2, gpus=GPUS_PER_NODE)


async def _unschedulable(run: StackRun, scene: str, queue: str) -> None:
    for attempt in range(1, REPEATS + 1):
        name = f"{scene} {attempt}"
        await run.unschedulable(name, queue=queue)
        await run.scene.delete_job(job_name(name))
        await run.quiet()
