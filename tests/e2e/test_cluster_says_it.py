"""What people read with kubectl alone: why a job waits, what queues hold, who was evicted and by whom."""

from __future__ import annotations

from tests.e2e.cluster import Cluster
from tests.e2e.manifest import job

SERVICES = ("podgrouper", "podgroup-controller", "queue-controller", "scheduler", "binder")


async def rows(cluster: Cluster, *arguments: str) -> dict[str, dict[str, str]]:
    """A table of kubectl's: by name, the cells by column. Columns begin where their titles do."""
    header, *lines = (await cluster.kubectl("get", *arguments)).splitlines()
    titles = header.split()
    starts = [header.index(f" {title}") + 1 if number else 0 for number, title in enumerate(titles)]
    ends = [*starts[1:], None]
    cells = [[line[start:end].strip() for start, end in zip(starts, ends, strict=True)] for line in lines]
    return {each[0]: dict(zip(titles, each, strict=True)) for each in cells}


async def phases(cluster: Cluster) -> dict[str, str]:
    """Phases of pod groups, by workload."""
    found = await rows(cluster, "podgroups")
    return {name.split("-")[1]: cells["PHASE"] for name, cells in found.items()}


async def test_kubectl_shows_why_jobs_wait_what_queues_hold_and_who_was_evicted(cluster: Cluster) -> None:
    await cluster.add_nodes(2, gpus=4)
    both = await cluster.add_queue()
    ours, theirs = [await cluster.add_queue(parent=both, gpu_quota=4) for _ in range(2)]
    await cluster.start_services(*SERVICES)
    for name in ("one", "two"):
        await cluster.client.create(job(name, pods=1, gpus=4, queue=ours), cluster.namespace)

    async def both_run() -> bool:
        return await phases(cluster) == {"one": "Running", "two": "Running"}

    await cluster.eventually(both_run)
    await cluster.client.create(job("huge", pods=1, gpus=5, queue=ours), cluster.namespace)
    await cluster.client.create(job("more", pods=2, gpus=3, queue=ours), cluster.namespace)

    async def events_say_why() -> bool:
        events = await cluster.kubectl("get", "events")
        assert "needs 5 GPUs on one node; the largest has 4..." in events
        assert "needs 6 GPUs on 2 nodes; none is free; " in events
        wide = await cluster.kubectl("get", "podgroups", "-o", "wide")
        return "needs 5 GPUs on one node; the largest has 4..." in wide

    await cluster.eventually(events_say_why)

    async def queues_say_what_they_hold() -> bool:
        queue = (await rows(cluster, "queue", ours, "-o", "wide"))[ours]
        shown = {title: queue[title] for title in ("GPUS", "FAIR-SHARE", "QUOTA", "WAITING", "RUNNING")}
        assert shown == {"GPUS": "8", "FAIR-SHARE": "8", "QUOTA": "4", "WAITING": "2", "RUNNING": "2"}
        return True

    await cluster.eventually(queues_say_what_they_hold)
    await cluster.client.create(job("owner", pods=1, gpus=4, queue=theirs), cluster.namespace)

    async def one_is_evicted() -> bool:
        found = await phases(cluster)
        assert sorted(found[name] for name in ("one", "two")) == ["Evicted", "Running"], found
        described = await cluster.kubectl("describe", "podgroups")
        assert "1 pod evicted at 2" in described
        assert f"by reclaim for {cluster.namespace}/pg-owner-" in described
        assert f"{theirs} stays within its quota and takes it back from {ours}, which is over its own" in described
        return True

    await cluster.eventually(one_is_evicted)
