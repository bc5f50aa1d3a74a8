"""The queue controller on a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from bosket.api.kai import PodGroup, PodGroupSpec, Queue, QueueSpec
from bosket.api.object import ObjectMeta
from bosket.services.queue import service
from bosket.testing.faults import FaultyTransport, matching
from tests.rig import NAMESPACE, Rig, make_rig

pytestmark = pytest.mark.looptime


async def scene() -> Rig:
    tree = {"top": "", "mid": "top", "leaf": "mid"}
    return await make_rig(
        Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(parentQueue=parent)) for name, parent in tree.items()
    )


async def use(rig: Rig, name: str, gpus: int) -> None:
    metadata = ObjectMeta(name=name, namespace=NAMESPACE)
    await rig.client.create(PodGroup(metadata=metadata, spec=PodGroupSpec(queue="leaf", minMember=1)))
    patch = {"status": {"resourcesStatus": {"allocated": {"nvidia.com/gpu": str(gpus)}}}}
    await rig.client.patch(PodGroup, name, patch, namespace=NAMESPACE, subresource="status")


async def allocated(rig: Rig, name: str) -> dict[str, Any]:
    return (await rig.client.get(Queue, name)).status.allocated


async def test_what_is_used_below_is_seen_at_every_level_in_one_write_each() -> None:
    rig = await scene()
    transport = FaultyTransport(rig.server.transport())
    writes = matching("PATCH", "/queues/")
    async with rig.running(service, transport):
        await rig.clock.sleep(10)  # children follow
        before = sum(map(writes, transport.requests))
        for number in range(10):
            await use(rig, f"g{number}", 2)

        async def all_used() -> bool:
            return await allocated(rig, "top") == {"nvidia.com/gpu": "20"}

        await rig.until(all_used)
        await rig.clock.sleep(60)
    assert await allocated(rig, "leaf") == await allocated(rig, "mid") == {"nvidia.com/gpu": "20"}
    assert (await rig.client.get(Queue, "mid")).status.childQueues == ("leaf",)
    assert sum(map(writes, transport.requests)) - before == 3


async def test_what_went_while_nobody_looked_is_taken_off() -> None:
    rig = await scene()
    await use(rig, "g", 2)
    async with rig.running(service):

        async def used() -> bool:
            return bool(await allocated(rig, "top"))

        await rig.until(used)
    await rig.client.delete(PodGroup, "g", NAMESPACE)
    async with rig.running(service):

        async def free() -> bool:
            return not await allocated(rig, "top")

        await rig.until(free)


async def test_queues_whose_parent_is_deleted_are_told_and_told_again_when_it_is_back() -> None:
    rig = await scene()

    async def orphans() -> dict[str, str]:
        found = (await rig.client.list(Queue)).items
        return {each.metadata.name: c.status for each in found for c in each.status.conditions if c.type == "Orphan"}

    async with rig.running(service):
        await rig.client.delete(Queue, "top")

        async def both_told() -> bool:
            return await orphans() == {"mid": "True", "leaf": "True"}

        await rig.until(both_told)
        await rig.client.create(Queue(metadata=ObjectMeta(name="top")))

        async def both_back() -> bool:
            return await orphans() == {"mid": "False", "leaf": "False"}

        await rig.until(both_back)
