"""Gangs close together, on nodes with labels."""

from __future__ import annotations

from typing import Any

from bosket.api.core import Pod
from bosket.api.kai import Topology, TopologyLevel, TopologySpec
from bosket.api.object import ObjectMeta
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import job

ZONE, RACK = "example.com/zone", "example.com/rack"


async def racks(cluster: Cluster, *sizes: tuple[str, str, int]) -> dict[str, str]:
    """A topology named after the test's namespace, and nodes in (zone, rack, GPUs); node → rack."""
    levels = tuple(TopologyLevel(nodeLabel=label) for label in (ZONE, RACK))
    await cluster.client.create(Topology(metadata=ObjectMeta(name=cluster.namespace), spec=TopologySpec(levels=levels)))
    found: dict[str, str] = {}
    for zone, rack, gpus in sizes:
        (name,) = await cluster.add_nodes(1, gpus=gpus, labels={ZONE: zone, RACK: rack})
        found[name] = f"{zone}/{rack}"
    return found


def within_a_rack(cluster: Cluster, manifest: dict[str, Any]) -> dict[str, Any]:
    manifest["metadata"]["annotations"] |= {
        "kai.scheduler/topology": cluster.namespace,
        "kai.scheduler/topology-required-placement": RACK,
    }
    return manifest


async def nodes_of(cluster: Cluster, name: str, count: int) -> set[str]:
    """Where the job's pods run, when all of them do."""

    async def all_run() -> set[str] | None:
        pods = (await cluster.client.list(Pod, cluster.namespace, labels=f"job-name={name}")).items
        there = [each.spec.nodeName for each in pods if each.status.phase == "Running"]
        return set(there) if len(there) == count else None

    found = await cluster.eventually(all_run)
    assert found is not None
    return found


async def test_a_gang_runs_in_one_rack_and_one_that_fits_in_none_is_told_so(cluster: Cluster) -> None:
    rack_of = await racks(cluster, ("a", "r1", 1), ("a", "r1", 1), ("a", "r2", 2), ("a", "r2", 1))
    queue = await cluster.add_queue(gpu_quota=5)
    await cluster.start_services("podgrouper", "scheduler", "binder")
    await cluster.client.create(within_a_rack(cluster, job("fits", pods=3, gpus=1, queue=queue)), cluster.namespace)
    assert {rack_of[node] for node in await nodes_of(cluster, "fits", 3)} == {"a/r2"}
    await cluster.client.create(within_a_rack(cluster, job("too-wide", pods=3, gpus=1, queue=queue)), cluster.namespace)

    async def is_told_why() -> bool:
        pods = (await cluster.client.list(Pod, cluster.namespace, labels="job-name=too-wide")).items
        texts = [condition.message for each in pods for condition in each.status.conditions]
        return any(f"requirement {RACK} couldn't be satisfied" in text for text in texts)

    await cluster.eventually(is_told_why)


async def test_a_gang_that_needs_a_rack_gets_it_by_reclaim(cluster: Cluster) -> None:
    rack_of = await racks(cluster, ("a", "r1", 2), ("a", "r2", 2))
    poor, rich = await cluster.add_queue(gpu_quota=0), await cluster.add_queue(gpu_quota=2)
    await cluster.start_services("podgrouper", "scheduler", "binder")
    for number in range(4):
        manifest = job(f"filler-{number}", pods=1, gpus=1, queue=poor, priority="train")
        await cluster.client.create(manifest, cluster.namespace)
    for number in range(4):
        await nodes_of(cluster, f"filler-{number}", 1)
    await cluster.client.create(within_a_rack(cluster, job("gang", pods=2, gpus=1, queue=rich)), cluster.namespace)
    assert len({rack_of[node] for node in await nodes_of(cluster, "gang", 2)}) == 1
