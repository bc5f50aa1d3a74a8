"""Queues on several levels, gangs that wait for room, elastic jobs that grow into it, and the messages about them."""

from __future__ import annotations

from typing import Any

from bosket.api.batch import Job
from bosket.api.core import Pod
from bosket.api.kai import PodGroup, Queue, UnschedulableExplanation
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import job

SERVICES = ("podgrouper", "scheduler", "binder")


async def pods(cluster: Cluster, workload: str) -> list[Pod]:
    return (await cluster.client.list(Pod, cluster.namespace, labels=f"workload={workload}")).items


async def submit(cluster: Cluster, name: str, **work: Any) -> None:
    await cluster.client.create(job(name, **work), cluster.namespace)


async def until_running(cluster: Cluster, workload: str, count: int) -> None:
    async def so_many_run() -> bool:
        phases = [each.status.phase for each in await pods(cluster, workload)]
        assert phases.count("Running") == count, f"{workload}: {phases}"
        return True

    await cluster.eventually(so_many_run)


async def finish(cluster: Cluster, workload: str) -> None:
    """Its pods come to their end, as if their work were done."""
    for each in await pods(cluster, workload):
        done = {"status": {"phase": "Succeeded"}}
        await cluster.client.patch(Pod, each.metadata.name, done, namespace=cluster.namespace, subresource="status")

    async def complete() -> bool:
        found = await cluster.client.get(Job, workload, cluster.namespace)
        return found.status is not None and any(each.type == "Complete" for each in found.status.conditions)

    await cluster.eventually(complete)


async def group_of(cluster: Cluster, workload: str) -> PodGroup:
    groups = (await cluster.client.list(PodGroup, cluster.namespace)).items
    return next(each for each in groups if each.metadata.name.startswith(f"pg-{workload}-"))


async def until_told(cluster: Cluster, workload: str, code: str) -> UnschedulableExplanation:
    """Why the workload's pod group waits, as soon as its condition says so."""

    async def explanation() -> UnschedulableExplanation:
        groups = (await cluster.client.list(PodGroup, cluster.namespace)).items
        conditions = [
            condition
            for group in groups
            if group.metadata.name.startswith(f"pg-{workload}-")
            for condition in group.status.schedulingConditions
        ]
        assert [(each.type, each.status) for each in conditions] == [("UnschedulableOnNodePool", "True")]
        (told,) = conditions[0].reasons
        assert told.reason == code
        return told

    return await cluster.eventually(explanation)


async def until_nothing_is_told(cluster: Cluster, workload: str) -> None:
    async def silent() -> bool:
        return not (await group_of(cluster, workload)).status.schedulingConditions

    await cluster.eventually(silent)


async def set_gpus(cluster: Cluster, queue: str, **amounts: float) -> None:
    await cluster.client.patch(Queue, queue, {"spec": {"resources": {"gpu": amounts}}})


async def test_a_limit_in_the_middle_of_three_levels_holds_for_all_below_it_together(cluster: Cluster) -> None:
    await cluster.add_nodes(2)
    company = await cluster.add_queue(gpu_quota=16)
    research, products = [await cluster.add_queue(parent=company, gpu_limit=limit) for limit in (5, -1)]
    vision, speech = [await cluster.add_queue(parent=research, gpu_quota=8) for _ in range(2)]
    serving = await cluster.add_queue(parent=products)
    await cluster.start_services(*SERVICES)
    await submit(cluster, "vision", pods=3, gpus=1, queue=vision)
    await until_running(cluster, "vision", 3)

    await submit(cluster, "speech", pods=3, gpus=1, queue=speech)
    await submit(cluster, "serving", pods=2, gpus=4, queue=serving)
    await until_running(cluster, "serving", 2)
    told = await until_told(cluster, "speech", "OverLimit")
    assert told.message == (
        f"{research} quota has reached the allowable limit of GPUs. Limit is 5 GPUs, "
        "currently 3 GPUs allocated and workload requested 3 GPUs"
    )

    await finish(cluster, "vision")
    await until_running(cluster, "speech", 3)


async def test_a_job_in_a_queue_with_children_is_told_that_only_leaves_hold_jobs(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    top = await cluster.add_queue()
    middle = await cluster.add_queue(parent=top)
    leaf = await cluster.add_queue(parent=middle)
    await cluster.start_services(*SERVICES)
    await submit(cluster, "inner", pods=1, gpus=1, queue=middle)
    await submit(cluster, "leaf", pods=1, gpus=1, queue=leaf)
    await until_running(cluster, "leaf", 1)

    async def told() -> bool:
        conditions = (await group_of(cluster, "inner")).status.schedulingConditions
        return any(f"'{middle}' has child queues, only a leaf queue can hold jobs" in c.message for c in conditions)

    await cluster.eventually(told)


async def test_gangs_wait_as_a_whole_and_run_one_after_the_other_as_room_appears(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    await cluster.start_services(*SERVICES)
    await submit(cluster, "first", pods=3, gpus=2)
    await until_running(cluster, "first", 3)
    for name in ("second", "third"):
        await submit(cluster, name, pods=2, gpus=4)
        told = await until_told(cluster, name, "PodSchedulingErrors")
        assert "1 node(s) didn't have enough resources: GPUs" in told.message
        assert not any(each.spec.nodeName for each in await pods(cluster, name)), "a part of the gang was bound"

    await finish(cluster, "first")
    await until_running(cluster, "second", 2)
    assert not any(each.spec.nodeName for each in await pods(cluster, "third"))
    await until_nothing_is_told(cluster, "second")
    await finish(cluster, "second")
    await until_running(cluster, "third", 2)


async def test_an_elastic_job_starts_with_its_minimum_and_grows_when_room_appears(cluster: Cluster) -> None:
    await cluster.add_nodes(1, gpus=1)
    await cluster.start_services(*SERVICES)
    await submit(cluster, "elastic", pods=6, minimum=2, gpus=1)
    told = await until_told(cluster, "elastic", "PodSchedulingErrors")
    assert "Resources were found for 1 pods while 2 are required for gang scheduling" in told.message
    assert (await group_of(cluster, "elastic")).spec.minMember == 2
    assert not any(each.spec.nodeName for each in await pods(cluster, "elastic")), "less than the minimum was bound"

    await cluster.add_nodes(1, gpus=1)
    await until_running(cluster, "elastic", 2)
    await cluster.add_nodes(1, gpus=3)
    await until_running(cluster, "elastic", 5)
    await cluster.add_nodes(1, gpus=3)
    await until_running(cluster, "elastic", 6)


async def test_a_job_over_its_queues_limit_says_so_with_numbers_and_runs_when_the_limit_is_raised(
    cluster: Cluster,
) -> None:
    await cluster.add_nodes(1)
    parent = await cluster.add_queue()
    queue = await cluster.add_queue(parent=parent, gpu_quota=1, gpu_limit=3)
    await cluster.start_services(*SERVICES)
    await submit(cluster, "small", pods=1, gpus=1, queue=queue)
    await until_running(cluster, "small", 1)
    await submit(cluster, "large", pods=2, gpus=2, queue=queue)
    told = await until_told(cluster, "large", "OverLimit")
    assert told.message == (
        f"{queue} quota has reached the allowable limit of GPUs. Limit is 3 GPUs, "
        "currently 1 GPUs allocated and workload requested 4 GPUs"
    )

    await set_gpus(cluster, queue, limit=5)
    await until_running(cluster, "large", 2)
    await until_nothing_is_told(cluster, "large")


async def test_non_preemptible_work_over_quota_says_so_with_numbers_and_runs_when_the_quota_is_raised(
    cluster: Cluster,
) -> None:
    await cluster.add_nodes(1)
    parent = await cluster.add_queue(gpu_quota=8)
    queue = await cluster.add_queue(parent=parent, gpu_quota=2)
    await cluster.start_services(*SERVICES)
    await submit(cluster, "preemptible", pods=1, gpus=3, queue=queue)
    await until_running(cluster, "preemptible", 1)  # beyond the quota, because others may push it out
    await submit(cluster, "firm", pods=1, gpus=1, queue=queue, priority="build")
    await until_running(cluster, "firm", 1)
    await submit(cluster, "larger", pods=2, gpus=1, queue=queue, priority="build")
    told = await until_told(cluster, "larger", "NonPreemptibleOverQuota")
    assert told.message == (
        f"Non-preemptible workload is over quota. Workload requested 2 GPUs, but {queue} quota is 2 GPUs, "
        "while 1 GPUs are already allocated for non-preemptible pods. Use a preemptible workload to go over quota."
    )

    await set_gpus(cluster, queue, quota=3)
    await until_running(cluster, "larger", 2)
    await until_nothing_is_told(cluster, "larger")


async def test_groups_and_queues_say_how_gangs_fare_and_what_is_used(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    company = await cluster.add_queue()
    research = await cluster.add_queue(parent=company)
    await cluster.start_services(*SERVICES, "podgroup-controller", "queue-controller")

    async def fares(workload: str, phase: str) -> bool:
        status = (await group_of(cluster, workload)).status
        assert status.phase == phase, f"{workload}: {status.phase}, {status.conditions}"
        return True

    async def uses(queue: str, gpus: str) -> bool:
        used = (await cluster.client.get(Queue, queue)).status.allocated
        assert used.get("nvidia.com/gpu", "0") == gpus, f"{queue}: {used}"
        return True

    await submit(cluster, "runs", pods=3, gpus=2, queue=research)
    await until_running(cluster, "runs", 3)
    await submit(cluster, "waits", pods=2, gpus=4, queue=research)
    await cluster.eventually(lambda: fares("runs", "Running"))
    await cluster.eventually(lambda: fares("waits", "Pending"))
    await cluster.eventually(lambda: uses(research, "6"))
    await cluster.eventually(lambda: uses(company, "6"))
    assert (await cluster.client.get(Queue, company)).status.childQueues == (research,)
    waiting = (await group_of(cluster, "waits")).status
    assert waiting.conditions[0].message == "0 of 2 pods have a node; 2 must"
    assert waiting.resourcesStatus.requested["nvidia.com/gpu"] == "8"

    await finish(cluster, "runs")
    await cluster.eventually(lambda: fares("runs", "Succeeded"))
    await cluster.eventually(lambda: fares("waits", "Running"))
    await cluster.eventually(lambda: uses(company, "8"))
