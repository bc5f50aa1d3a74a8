"""Pods with parts of GPUs in an embedded cluster, as a user submits them: with nothing but an annotation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bosket.api.core import ConfigMap, Container, Pod, PodSpec
from bosket.api.keys import RESERVATION_NAMESPACE, RESERVED_GPU_ANNOTATION, SCHEDULER_NAME
from bosket.api.object import ObjectMeta
from bosket.embedded.cluster import EmbeddedCluster
from bosket.embedded.node import NodeShape
from bosket.kube.client import Client
from bosket.runtime.clock import LoopClock

pytestmark = pytest.mark.looptime

CLOCK = LoopClock()


def pod(name: str, **annotations: str) -> Pod:
    said = {key.replace("_", "-"): value for key, value in annotations.items()}
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", annotations=said),
        spec=PodSpec(schedulerName=SCHEDULER_NAME, containers=(Container(name="main", image="i"),)),
    )


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(300):
        while not await condition():
            await CLOCK.sleep(0.2)


async def until_running(client: Client, count: int) -> list[Pod]:
    async def run() -> bool:
        pods = (await client.list(Pod, "default")).items
        return sum(each.status.phase == "Running" for each in pods) == count

    await until(run)
    return (await client.list(Pod, "default")).items


async def devices(client: Client, each: Pod) -> set[str]:
    """What the pod's container sees."""
    (main,) = each.spec.containers
    (reference,) = [
        variable.valueFrom.configMapKeyRef
        for variable in main.env
        if variable.name == "NVIDIA_VISIBLE_DEVICES" and variable.valueFrom is not None
    ]
    assert reference is not None
    found = await client.get(ConfigMap, reference.name, "default")
    return set(found.data[reference.key].split(","))


async def reserved(client: Client) -> set[str]:
    pods = (await client.list(Pod, RESERVATION_NAMESPACE)).items
    return {each.metadata.annotations[RESERVED_GPU_ANNOTATION] for each in pods}


async def test_four_quarters_fill_one_gpu_and_give_it_back() -> None:
    async with EmbeddedCluster(nodes=1, shape=NodeShape(gpus=2), clock=CLOCK) as cluster:
        await cluster.wait_ready()
        client = cluster.client()
        for name in ("a", "b", "c", "d"):
            await client.create(pod(name, gpu_fraction="0.25"))
        pods = await until_running(client, 4)
        held = await reserved(client)
        assert len(held) == 1
        for each in pods:
            assert await devices(client, each) == held
        for each in pods:
            await client.delete(Pod, each.metadata.name, "default", grace_seconds=0)

        async def nothing_is_reserved() -> bool:
            return not (await client.list(Pod, RESERVATION_NAMESPACE)).items

        await until(nothing_is_reserved)


async def test_parts_of_memory_and_of_several_gpus_are_shared_as_well() -> None:
    shape = NodeShape(gpus=2, gpu_memory_mib=40_000)
    async with EmbeddedCluster(nodes=1, shape=shape, clock=CLOCK) as cluster:
        await cluster.wait_ready()
        client = cluster.client()
        await client.create(pod("both", gpu_fraction="0.5", gpu_fraction_num_devices="2"))
        await client.create(pod("memory", gpu_memory="10000"))
        both, memory = await until_running(client, 2)
        held = await reserved(client)
        assert len(held) == 2
        assert await devices(client, both) == held
        assert len(await devices(client, memory) & held) == 1
