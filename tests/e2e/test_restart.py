"""Processes die at any moment; work goes on as if they had not."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from contextlib import AsyncExitStack, aclosing

from bosket.api.batch import Job
from bosket.api.core import Pod
from bosket.api.kai import BindRequest
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import job

GANGS = 32
GANG_SIZE = 4
DEATHS = 6


async def record_nodes(cluster: Cluster, version: str, nodes: dict[str, set[str]]) -> None:
    """Every node that each pod was ever seen on."""
    changes = cluster.client.watch(Pod, cluster.namespace, resource_version=version, timeout_seconds=600)
    async with aclosing(changes):
        async for change in changes:
            if change.object is not None and change.object.spec.nodeName:
                nodes[change.key.name].add(change.object.spec.nodeName)


async def finished_gangs(cluster: Cluster) -> int:
    jobs = (await cluster.client.list(Job, cluster.namespace)).items
    return sum(each.status is not None and (each.status.succeeded or 0) == GANG_SIZE for each in jobs)


async def test_scheduler_and_binder_are_killed_while_gangs_arrive_and_every_gang_runs_once(cluster: Cluster) -> None:
    await cluster.add_nodes(3)  # room for six gangs at a time
    await cluster.start_services("podgrouper")
    nodes: dict[str, set[str]] = defaultdict(set)
    start = await cluster.client.list(Pod, cluster.namespace)
    recorder = asyncio.create_task(record_nodes(cluster, start.resource_version, nodes))
    choice = random.Random(7)
    try:
        async with AsyncExitStack() as stack:
            processes = {
                name: await stack.enter_async_context(cluster.service_process(name)) for name in ("scheduler", "binder")
            }
            arrivals = asyncio.create_task(arrive(cluster))
            for death in range(1, DEATHS + 1):

                async def some_have_finished(count: int = death * GANGS // (DEATHS + 2)) -> bool:
                    return await finished_gangs(cluster) >= count

                await cluster.eventually(some_have_finished, timeout_seconds=60)
                victim = choice.choice(sorted(processes))
                processes[victim].kill()
                await processes[victim].wait()
                processes[victim] = await stack.enter_async_context(cluster.service_process(victim))
            await arrivals

            async def all_have_finished() -> bool:
                return await finished_gangs(cluster) == GANGS

            await cluster.eventually(all_have_finished, timeout_seconds=60)
    finally:
        recorder.cancel()
    members = (await cluster.client.list(Pod, cluster.namespace)).items
    assert len(members) == GANGS * GANG_SIZE, "pods were lost and made again"
    assert {each.status.phase for each in members} == {"Succeeded"}
    assert {name: len(seen) for name, seen in nodes.items()} == {each.metadata.name: 1 for each in members}
    requests = (await cluster.client.list(BindRequest, cluster.namespace)).items
    assert {each.status.phase for each in requests} == {"Succeeded"}


async def arrive(cluster: Cluster) -> None:
    for index in range(GANGS):
        await cluster.client.create(
            job(f"gang-{index}", pods=GANG_SIZE, gpus=1, run_duration="300ms"), cluster.namespace
        )
