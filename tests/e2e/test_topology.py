"""Gangs close together, on nodes with labels."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from bosket.api.core import Pod
from bosket.api.kai import PodGroup, Topology, TopologyLevel, TopologySpec
from bosket.api.object import ObjectMeta
from bosket.cli.main import main
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import job, pod

ZONE, RACK = "example.com/zone", "example.com/rack"


async def add_topology(cluster: Cluster, name: str, *labels: str) -> None:
    levels = tuple(TopologyLevel(nodeLabel=label) for label in labels)
    await cluster.add(Topology(metadata=ObjectMeta(name=name), spec=TopologySpec(levels=levels)))


async def racks(cluster: Cluster, *sizes: tuple[str, str, int]) -> dict[str, str]:
    """A topology named after the test's namespace, and nodes in (zone, rack, GPUs); node → rack."""
    await add_topology(cluster, cluster.namespace, ZONE, RACK)
    found: dict[str, str] = {}
    for zone, rack, gpus in sizes:
        (name,) = await cluster.add_nodes(1, gpus=gpus, labels={ZONE: zone, RACK: rack})
        found[name] = f"{zone}/{rack}"
    return found


def within(topology: str, level: str, manifest: dict[str, Any]) -> dict[str, Any]:
    manifest["metadata"]["annotations"] |= {
        "kai.scheduler/topology": topology,
        "kai.scheduler/topology-required-placement": level,
    }
    return manifest


def within_a_rack(cluster: Cluster, manifest: dict[str, Any]) -> dict[str, Any]:
    return within(cluster.namespace, RACK, manifest)


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
        amounts = "All in all 2 of 5 GPUs are free, 3 are asked for."
        return any(amounts in text and f"requirement {RACK} couldn't be satisfied" in text for text in texts)

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


def gang_of(cluster: Cluster, queue: str, level: str, *gpus: int) -> list[dict[str, Any]]:
    """A pod group in one domain of a level, of pods with so many GPUs each: pod-0, pod-1 …"""
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": {
            "queue": queue,
            "minMember": len(gpus),
            "topologyConstraint": {"topology": cluster.namespace, "requiredTopologyLevel": level},
        },
    }
    annotations = {"pod-group-name": "gang"}
    return [group, *[pod(f"pod-{i}", queue=queue, annotations=annotations, gpus=each) for i, each in enumerate(gpus)]]


async def where_they_run(cluster: Cluster, count: int) -> list[str]:
    """The nodes of pod-0, pod-1 …, when all of them run."""

    async def all_run() -> list[str] | None:
        pods = [await cluster.client.get(Pod, f"pod-{i}", cluster.namespace) for i in range(count)]
        return [each.spec.nodeName for each in pods] if all(each.status.phase == "Running" for each in pods) else None

    found = await cluster.eventually(all_run)
    assert found is not None
    return found


@pytest.mark.parametrize("gpus", [(4, 4, 8), (8, 4, 4)])
async def test_a_gang_of_different_pods_runs_in_the_one_rack_that_has_room_for_it(
    cluster: Cluster, gpus: tuple[int, ...]
) -> None:
    rack_of = await racks(cluster, ("a", "r1", 8), ("a", "r1", 4), ("a", "r2", 8), ("a", "r2", 8))
    queue = await cluster.add_queue(gpu_quota=28)
    await cluster.start_services("scheduler", "binder")
    for manifest in gang_of(cluster, queue, RACK, *gpus):
        await cluster.client.create(manifest, cluster.namespace)
    assert {rack_of[node] for node in await where_they_run(cluster, 3)} == {"a/r2"}


async def test_a_gang_of_different_pods_gets_its_rack_by_reclaim(cluster: Cluster) -> None:
    rack_of = await racks(cluster, ("a", "r1", 4), ("a", "r2", 4), ("a", "r2", 4))
    poor, rich = await cluster.add_queue(gpu_quota=0), await cluster.add_queue(gpu_quota=8)
    await cluster.start_services("podgrouper", "scheduler", "binder")
    for number in range(3):
        manifest = job(f"filler-{number}", pods=1, gpus=4, queue=poor, priority="train")
        await cluster.client.create(manifest, cluster.namespace)
    for number in range(3):
        await nodes_of(cluster, f"filler-{number}", 1)
    for manifest in gang_of(cluster, rich, RACK, 2, 4, 2):
        await cluster.client.create(manifest, cluster.namespace)
    assert {rack_of[node] for node in await where_they_run(cluster, 3)} == {"a/r2"}


@pytest.mark.parametrize("level", [ZONE, RACK])
async def test_a_level_that_there_is_one_domain_of_is_fulfilled_by_it(cluster: Cluster, level: str) -> None:
    """One node in one rack in one zone; without room there, the gang waits for that, and for nothing else."""
    rack_of = await racks(cluster, ("a", "r1", 3))
    queue = await cluster.add_queue(gpu_quota=3)
    await cluster.start_services("podgrouper", "scheduler", "binder")
    await cluster.client.create(pod("pod-0", gpus=2, queue=queue), cluster.namespace)
    await where_they_run(cluster, 1)
    await cluster.client.create(
        within(cluster.namespace, level, job("gang", pods=2, gpus=1, queue=queue)), cluster.namespace
    )

    async def is_told_what_is_free() -> bool:
        pods = (await cluster.client.list(Pod, cluster.namespace, labels="job-name=gang")).items
        texts = [condition.message for each in pods for condition in each.status.conditions]
        return any("1 of 3 GPUs are free, 2 are asked for" in text for text in texts)

    await cluster.eventually(is_told_what_is_free)
    await cluster.client.delete(Pod, "pod-0", cluster.namespace)
    assert await nodes_of(cluster, "gang", 2) == set(rack_of)


async def test_two_sub_groups_run_in_two_racks_of_one_zone(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    rack_of = await racks(cluster, ("a", "r1", 2), ("a", "r2", 1), ("b", "r3", 2), ("b", "r4", 2))
    queue = await cluster.add_queue(gpu_quota=8)
    rack = {"topology": cluster.namespace, "requiredTopologyLevel": RACK}
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": {
            "queue": queue,
            "minMember": 4,
            "topologyConstraint": {"topology": cluster.namespace, "requiredTopologyLevel": ZONE},
            "subGroups": [{"name": name, "minMember": 2, "topologyConstraint": rack} for name in ("left", "right")],
        },
    }
    await cluster.client.create(group, cluster.namespace)
    names = [f"{side}-{number}" for side in ("left", "right") for number in range(2)]
    for name in names:
        member = pod(name, queue=queue, annotations={"pod-group-name": "gang"}, gpus=1)
        member["metadata"]["labels"]["kai.scheduler/subgroup-name"] = name.split("-")[0]
        await cluster.client.create(member, cluster.namespace)
    await cluster.start_services("scheduler", "binder")

    async def all_run() -> dict[str, str] | None:
        pods = [await cluster.client.get(Pod, name, cluster.namespace) for name in names]
        run = all(each.status.phase == "Running" for each in pods)
        return {each.metadata.name: rack_of[each.spec.nodeName] for each in pods} if run else None

    found = await cluster.eventually(all_run)
    assert found["left-0"] == found["left-1"] != found["right-0"] == found["right-1"]
    assert set(found.values()) == {"b/r3", "b/r4"}

    command = ["topology", "--kubeconfig", str(cluster.kubeconfig), "--topology", cluster.namespace, "--json"]
    assert await asyncio.to_thread(main, command) == 0
    (shown,) = json.loads(capsys.readouterr().out)["topologies"]
    gangs = {zone["name"]: [rack["gang"] for rack in zone["domains"]] for zone in shown["root"]["domains"]}
    assert gangs == {"a": [2, 1], "b": [0, 0]}


async def test_constraints_that_make_no_sense_are_named_and_the_rest_goes_on(cluster: Cluster) -> None:
    own = cluster.namespace
    await racks(cluster, ("a", "r1", 1), ("b", "r1", 1))
    await add_topology(cluster, f"{own}-unlabelled", ZONE, "example.com/row")
    queue = await cluster.add_queue(gpu_quota=8)
    constraints = {
        "nowhere": (f"{own}-missing", RACK, f"topologyConstraint.topology: there is no Topology '{own}-missing'"),
        "odd-level": (own, "example.com/row", "requiredTopologyLevel: 'example.com/row' isn't a level of Topology"),
        "unlabelled": (f"{own}-unlabelled", "example.com/row", f"labels of all its levels: {ZONE}, example.com/row"),
        # The rack's name occurs in two zones: these are two racks, and neither has two GPUs.
        "crossing": (own, RACK, f"None of 2 domains of level {RACK} can hold the pods together"),
    }
    for name, (topology, level, _) in constraints.items():
        manifest = within(topology, level, job(name, pods=2, gpus=1, queue=queue))
        await cluster.client.create(manifest, cluster.namespace)
    await cluster.client.create(job("good", pods=1, queue=queue), cluster.namespace)
    await cluster.start_services("podgrouper", "scheduler", "binder")
    await nodes_of(cluster, "good", 1)
    for name, (_, _, text) in constraints.items():

        async def is_told_why(name: str = name, text: str = text) -> bool:
            groups = (await cluster.client.list(PodGroup, cluster.namespace)).items
            told = [
                condition.message
                for group in groups
                if f"-{name}-" in group.metadata.name
                for condition in group.status.schedulingConditions or ()
            ]
            assert any(text in message for message in told), told
            return True

        await cluster.eventually(is_told_why)
