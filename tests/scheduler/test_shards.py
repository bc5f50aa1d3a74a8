"""A scheduler sees the nodes, queues and pod groups of its shard, and writes in its name."""

from __future__ import annotations

from typing import TypeVar

import msgspec
import pytest

from bosket.api.core import Event, Node, Pod
from bosket.api.kai import BindRequest, PodGroup
from bosket.api.keys import NODE_POOL_LABEL
from bosket.api.object import KubeObject
from bosket.runtime.service import Environment, Service
from bosket.scheduler.loop import service
from bosket.scheduler.options import Options
from bosket.testing.build import gang, node, pod_group, queue
from tests.rig import NAMESPACE, Rig, make_rig

T = TypeVar("T", bound=KubeObject)


def scheduler_of(pool: str) -> type:
    def make(env: Environment) -> Service:
        return service(env, Options(node_pool=pool))

    return make  # type: ignore[return-value]


def of(pool: str, obj: T) -> T:
    """The object in a shard."""
    labels = {**obj.metadata.labels, NODE_POOL_LABEL: pool}
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, labels=labels))


async def two_shards() -> Rig:
    return await make_rig(
        [
            node("default-node", gpus=8),
            of("a", node("a-node", gpus=8)),
            queue("q"),
            of("a", queue("q-a")),
            pod_group("plain", queue="q", min_member=1, namespace=NAMESPACE),
            of("a", pod_group("special", queue="q-a", min_member=1, namespace=NAMESPACE)),
            *gang("plain", 1, gpus=1, namespace=NAMESPACE),
            *gang("special", 1, gpus=1, namespace=NAMESPACE),
        ]
    )


async def requests(rig: Rig) -> dict[str, BindRequest]:
    return {each.spec.selectedNode: each for each in (await rig.client.list(BindRequest, NAMESPACE)).items}


@pytest.mark.looptime
async def test_a_shard_decides_for_its_own_and_says_so() -> None:
    rig = await two_shards()
    async with rig.running(scheduler_of("a")):

        async def decided() -> dict[str, BindRequest]:
            return await requests(rig)

        await rig.until(decided)
        await rig.clock.sleep(5)
        made = await requests(rig)
        assert list(made) == ["a-node"]
        assert made["a-node"].metadata.labels[NODE_POOL_LABEL] == "a"
        (event,) = await rig.events("Scheduled")
        assert event.message.endswith("to node a-node at node-pool a")
        pod = await rig.client.get(Pod, made["a-node"].spec.podName, NAMESPACE)
        assert pod.metadata.labels[NODE_POOL_LABEL] == "a"


@pytest.mark.looptime
async def test_shards_leave_each_others_requests_alone() -> None:
    rig = await two_shards()
    async with rig.running(scheduler_of("a")), rig.running(scheduler_of("")):

        async def both() -> bool:
            return len(await requests(rig)) == 2

        await rig.until(both)
        first = {name: each.metadata.uid for name, each in (await requests(rig)).items()}
        assert NODE_POOL_LABEL not in (await requests(rig))["default-node"].metadata.labels
        await rig.clock.sleep(30)
        assert {name: each.metadata.uid for name, each in (await requests(rig)).items()} == first


@pytest.mark.looptime
async def test_a_node_and_a_group_that_change_shards_are_followed() -> None:
    rig = await two_shards()
    await rig.client.patch(Node, "a-node", {"metadata": {"labels": {NODE_POOL_LABEL: "b"}}})
    async with rig.running(scheduler_of("a")):

        async def reported() -> bool:
            group = await rig.client.get(PodGroup, "special", NAMESPACE)
            return any(each.nodePool == "a" for each in group.status.schedulingConditions)

        await rig.until(reported)
        await rig.client.patch(Node, "a-node", {"metadata": {"labels": {NODE_POOL_LABEL: "a"}}})

        async def placed() -> bool:
            return list(await requests(rig)) == ["a-node"]

        await rig.until(placed)
        assert [each for each in (await rig.client.list(Event, NAMESPACE)).items if each.reason == "Scheduled"]


def test_the_lease_is_named_after_scheduler_and_shard() -> None:
    given = (Options(), Options(node_pool="a"), Options(scheduler_name="mine", node_pool="a"))
    assert [each.lease_name for each in given] == ["kai-scheduler", "kai-scheduler-a", "mine-a"]
