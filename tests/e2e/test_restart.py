"""Processes die at any moment; work goes on as if they had not."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from contextlib import AsyncExitStack

from bosket.api.batch import Job
from bosket.api.core import Pod
from bosket.api.kai import BindRequest
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import job

WAVES = 10
GANGS_IN_A_WAVE = 20
GANG_SIZE = 4


async def test_scheduler_and_binder_are_killed_while_gangs_arrive_and_every_gang_runs_once(cluster: Cluster) -> None:
    await cluster.add_nodes(WAVES * GANGS_IN_A_WAVE * GANG_SIZE // 8)  # just enough
    await cluster.start_services("podgrouper")
    nodes: dict[str, set[str]] = defaultdict(set)
    start = await cluster.client.list(Pod, cluster.namespace)
    recorder = asyncio.create_task(cluster.record_nodes(start.resource_version, nodes))
    choice = random.Random(7)
    async with AsyncExitStack() as stack:
        stack.callback(recorder.cancel)
        processes = {
            name: await stack.enter_async_context(cluster.service_process(name)) for name in ("scheduler", "binder")
        }
        for wave in range(WAVES):
            decided = len((await cluster.client.list(BindRequest, cluster.namespace)).items)
            for gang in range(GANGS_IN_A_WAVE):
                await cluster.client.create(job(f"gang-{wave}-{gang}", pods=GANG_SIZE, gpus=1), cluster.namespace)

            async def decisions_are_being_written(before: int = decided) -> bool:
                return len((await cluster.client.list(BindRequest, cluster.namespace)).items) > before

            await cluster.eventually(decisions_are_being_written)
            victim = choice.choice(sorted(processes))
            processes[victim].kill()
            await processes[victim].wait()
            processes[victim] = await stack.enter_async_context(cluster.service_process(victim))

        async def every_gang_runs() -> bool:
            if recorder.done():
                recorder.result()  # raises what ended it
            jobs = (await cluster.client.list(Job, cluster.namespace)).items
            ready = [each.status.ready or 0 for each in jobs if each.status is not None]
            assert ready == [GANG_SIZE] * WAVES * GANGS_IN_A_WAVE
            return len(nodes) >= sum(ready)  # the recorder has caught up

        await cluster.eventually(every_gang_runs, timeout_seconds=60)
    members = (await cluster.client.list(Pod, cluster.namespace)).items
    assert len(members) == WAVES * GANGS_IN_A_WAVE * GANG_SIZE, "pods were lost and made again"
    assert {name: len(seen) for name, seen in nodes.items()} == {each.metadata.name: 1 for each in members}

    async def every_decision_is_carried_out() -> bool:
        requests = (await cluster.client.list(BindRequest, cluster.namespace)).items
        assert {each.metadata.name for each in requests} == set(nodes)
        return {each.status.phase for each in requests} == {"Succeeded"}

    await cluster.start_services("binder")  # one that died between the binding and its report left that to the next
    await cluster.eventually(every_decision_is_carried_out)
