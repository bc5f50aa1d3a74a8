"""Guaranteed pods land in NUMA zones that have room for them, and say in which."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import msgspec
import pytest

from bosket.api.apiextensions import CustomResourceDefinition
from bosket.api.core import Pod
from bosket.api.keys import NUMA_PREDICTED_ANNOTATION
from bosket.api.node_topology import NodeResourceTopology
from bosket.kube.errors import AlreadyExists
from bosket.scheduler.options import Options
from bosket.testing.build import numa_zones
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import pod
from tests.numa.definition import definition
from tests.numa.zoned import aligning


@pytest.fixture
async def zoned(cluster: Cluster) -> AsyncIterator[Cluster]:
    """A cluster that knows NodeResourceTopologies."""
    made = definition()
    is_ours = True
    try:
        await cluster.client.create(made)
    except AlreadyExists:
        is_ours = False  # somebody else's serves as well, and stays

    async def served() -> bool:
        await cluster.client.list(NodeResourceTopology)
        return True

    await cluster.eventually(served)
    yield cluster
    if is_ours:
        await cluster.client.delete(CustomResourceDefinition, made.metadata.name)


async def zone_of(cluster: Cluster, name: str) -> str | None:
    """Where a running pod was expected, if it says so."""
    found = await cluster.client.get(Pod, name, cluster.namespace)
    assert found.status.phase == "Running"
    placements = msgspec.json.decode(found.metadata.annotations[NUMA_PREDICTED_ANNOTATION])
    assert [each["amount"] for each in placements] == [{"cpu": "3"}]
    return str(placements[0]["zone"])


async def test_guaranteed_pods_fill_zone_after_zone_and_the_next_one_waits(zoned: Cluster) -> None:
    (name,) = await zoned.add_nodes(1)
    await zoned.client.create(numa_zones(name, {"cpu": "4"}, {"cpu": "4"}))
    await zoned.start_services("podgrouper", "binder")
    await zoned.start_services("scheduler", options=Options(configuration=aligning()))
    on_node = {"kubernetes.io/hostname": name}
    for number, zone in enumerate(("node-0", "node-1")):
        await zoned.client.create(pod(f"p{number}", cpu="3", nodeSelector=on_node), zoned.namespace)
        found = await zoned.eventually(partial(zone_of, zoned, f"p{number}"))
        assert found == zone
    await zoned.client.create(pod("p2", cpu="3", nodeSelector=on_node), zoned.namespace)

    async def is_told_why() -> bool:
        waiting = await zoned.client.get(Pod, "p2", zoned.namespace)
        return any("cannot NUMA-align" in each.message for each in waiting.status.conditions)

    await zoned.eventually(is_told_why)
    await zoned.client.delete(Pod, "p0", zoned.namespace)
    assert await zoned.eventually(lambda: zone_of(zoned, "p2")) == "node-0"
