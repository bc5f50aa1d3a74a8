"""Jobs are preempted by jobs with a better right, by the rules only, and events say why.

What they say is quoted in docs/eviction-story.md.
"""

from __future__ import annotations

from typing import Any

from bosket.api.core import Event, Pod
from bosket.api.kai import PodGroup, Queue
from bosket.api.policy import PodDisruptionBudget
from bosket.api.time import parse_time
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import QUEUE_LABEL, job, pod

SERVICES = ("podgrouper", "scheduler", "binder")
MIN_RUNTIME_SECONDS = 4


async def submit(cluster: Cluster, name: str, **work: Any) -> None:
    """A Job that makes new pods for those that are evicted."""
    manifest = job(name, **work)
    manifest["spec"]["backoffLimit"] = 6
    await cluster.client.create(manifest, cluster.namespace)


async def pods(cluster: Cluster, *workloads: str) -> list[Pod]:
    chosen = f"workload in ({','.join(workloads)})"
    return (await cluster.client.list(Pod, cluster.namespace, labels=chosen)).items


async def until_running(cluster: Cluster, count: int, *workloads: str) -> list[Pod]:
    """So many pods of these run, and nothing of them is on its way out."""

    async def so_many_run() -> list[Pod]:
        found = await pods(cluster, *workloads)
        states = [(each.status.phase, bool(each.metadata.deletionTimestamp)) for each in found]
        assert states.count(("Running", False)) == count, f"{workloads}: {states}"
        assert not any(going for _, going in states)
        return [each for each in found if each.status.phase == "Running"]

    return await cluster.eventually(so_many_run)


async def group_of(cluster: Cluster, workload: str) -> PodGroup:
    groups = (await cluster.client.list(PodGroup, cluster.namespace)).items
    found = [each for each in groups if each.metadata.name.startswith(f"pg-{workload}-")]
    assert found, f"{workload} has no pod group"
    return found[0]


async def until_told(cluster: Cluster, workload: str, text: str) -> None:
    """The workload's condition says why it waits."""

    async def told() -> bool:
        conditions = (await group_of(cluster, workload)).status.schedulingConditions
        messages = [each.message for each in conditions]
        assert any(text in message for message in messages), messages
        return True

    await cluster.eventually(told)


async def evictions(cluster: Cluster, count: int) -> list[Event]:
    """The events on pods that were evicted, as soon as there are so many."""

    async def so_many() -> list[Event]:
        events = (await cluster.client.list(Event, cluster.namespace)).items
        found = [each for each in events if each.reason == "Evict" and each.involvedObject.kind == "Pod"]
        assert len(found) == count, [each.message for each in found]
        return found

    return await cluster.eventually(so_many)


async def guard(cluster: Cluster, queue: str, *, min_available: int) -> None:
    manifest = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": min_available, "selector": {"matchLabels": {QUEUE_LABEL: queue}}},
    }
    await cluster.client.create(manifest, cluster.namespace)


async def test_a_queue_takes_back_its_quota_while_min_runtime_and_disruption_budgets_hold(cluster: Cluster) -> None:
    await cluster.add_nodes(1, gpus=4)
    both = await cluster.add_queue(gpu_quota=4)
    theirs, ours = [await cluster.add_queue(parent=both, gpu_quota=2) for _ in range(2)]
    await cluster.client.patch(Queue, theirs, {"spec": {"reclaimMinRuntime": f"{MIN_RUNTIME_SECONDS}s"}})
    await cluster.start_services(*SERVICES)
    borrowers = [f"borrower-{number}" for number in range(4)]
    for name in borrowers:
        await submit(cluster, name, pods=1, gpus=1, queue=theirs)
    running = await until_running(cluster, 4, *borrowers)
    await guard(cluster, theirs, min_available=4)

    await submit(cluster, "owner", pods=2, gpus=1, queue=ours)
    await until_told(cluster, "owner", f"is refused by PodDisruptionBudget {cluster.namespace}/keep")
    assert {each.key for each in await until_running(cluster, 4, *borrowers)} == {each.key for each in running}

    await cluster.client.patch(PodDisruptionBudget, "keep", {"spec": {"minAvailable": 2}}, namespace=cluster.namespace)
    await until_running(cluster, 2, "owner")
    await until_running(cluster, 2, *borrowers)
    for event in await evictions(cluster, 2):
        assert f"was preempted by workload {cluster.namespace}/pg-owner-" in event.message
        assert f"{theirs} uses <GPU: 4, " in event.message
        assert f"{ours} stays within its quota and takes it back from {theirs}" in event.message
        assert event.metadata.annotations["evictor-action-type"] == "reclaim"
        assert event.metadata.annotations["num-evicted-pods"] == "2"
        group = await group_of(cluster, event.involvedObject.name.rpartition("-")[0])
        times = group.metadata.annotations
        ran = parse_time(times["kai.scheduler/last-eviction-timestamp"]) - parse_time(
            times["kai.scheduler/last-start-timestamp"]
        )
        assert ran >= MIN_RUNTIME_SECONDS


async def test_a_job_of_higher_priority_takes_the_place_of_one_of_lower_priority(cluster: Cluster) -> None:
    await cluster.add_nodes(1, gpus=2)
    queue = await cluster.add_queue(gpu_quota=2)
    await cluster.start_services(*SERVICES)
    await submit(cluster, "patient", pods=2, gpus=1, queue=queue, priority="train")
    await until_running(cluster, 2, "patient")
    await submit(cluster, "urgent", pods=1, gpus=1, queue=queue, priority="build-preemptible")
    await until_running(cluster, 1, "urgent")
    for event in await evictions(cluster, 2):  # half a gang is none
        assert f"was preempted by higher priority workload {cluster.namespace}/pg-urgent-" in event.message
        assert f"priority 75 goes before 50 in queue {queue}" in event.message
    waiting = await cluster.eventually(lambda: replaced(cluster, "patient"))
    assert not any(each.spec.nodeName for each in waiting)


async def replaced(cluster: Cluster, workload: str) -> list[Pod]:
    """Two new pods, none of which has a place."""
    found = await pods(cluster, workload)
    assert [each.status.phase for each in found] == ["Pending", "Pending"]
    return found


async def test_a_fragmented_cluster_is_consolidated_for_a_pod_that_needs_a_whole_node(cluster: Cluster) -> None:
    await cluster.add_nodes(2, gpus=8)
    queue = await cluster.add_queue(gpu_quota=16)
    await cluster.start_services(*SERVICES)
    for number in range(2):  # packed: each node gets a large one and a small one
        await submit(cluster, f"large-{number}", pods=1, gpus=5, queue=queue)
        await until_running(cluster, 1, f"large-{number}")
        await submit(cluster, f"small-{number}", pods=1, gpus=3, queue=queue)
        await until_running(cluster, 1, f"small-{number}")
    assert len({each.spec.nodeName for each in await pods(cluster, "small-0", "small-1")}) == 2
    for number in range(2):
        await cluster.kubectl("delete", f"job/large-{number}", "--wait=true")

    await submit(cluster, "whole", pods=1, gpus=8, queue=queue)
    (whole,) = await until_running(cluster, 1, "whole")
    small = await until_running(cluster, 2, "small-0", "small-1")
    assert {each.spec.nodeName for each in small} == {each.spec.nodeName for each in small} - {whole.spec.nodeName}
    (event,) = await evictions(cluster, 1)
    assert "was preempted and rescheduled due to bin packing (resource consolidation) procedure" in event.message
    assert f"fits when the pod moves to node {small[0].spec.nodeName}" in event.message


async def test_a_gang_that_lost_a_member_goes_after_its_grace(cluster: Cluster) -> None:
    await cluster.add_nodes(1, gpus=4)
    queue = await cluster.add_queue(gpu_quota=4)
    await cluster.start_services(*SERVICES)
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "fragile"},
        "spec": {"minMember": 3, "queue": queue, "stalenessGracePeriod": "3s"},
    }
    await cluster.client.create(group, cluster.namespace)
    for number in range(3):
        member = pod(f"fragile-{number}", gpus=1, queue=queue, annotations={"pod-group-name": "fragile"})
        member["metadata"]["labels"]["workload"] = "fragile"
        await cluster.client.create(member, cluster.namespace)
    await until_running(cluster, 3, "fragile")
    await cluster.client.delete(Pod, "fragile-2", cluster.namespace, grace_seconds=0)

    async def marked() -> str | None:
        found = await cluster.client.get(PodGroup, "fragile", cluster.namespace)
        return found.metadata.annotations.get("kai.scheduler/stale-podgroup-timestamp")

    since = parse_time(await cluster.eventually(marked))

    async def gone() -> bool:
        return not await pods(cluster, "fragile")

    await cluster.eventually(gone)
    for event in await evictions(cluster, 2):
        assert "Workload doesn't meet the minimum required number of pods (3), evicting remaining pod" in event.message
        assert event.lastTimestamp is not None
        assert parse_time(event.lastTimestamp) - since >= 3
        assert event.metadata.annotations["evictor-action-type"] == "stalegangeviction"
