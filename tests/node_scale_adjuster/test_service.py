"""The node scale adjuster on a cluster, with an autoscaler that a test plays."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bosket.api.core import Namespace, Pod, PodCondition, ServiceAccount
from bosket.api.keys import SCALE_ADJUST_NAMESPACE
from bosket.api.object import ObjectMeta
from bosket.kube.errors import NotFound
from bosket.services.node_scale import service
from bosket.testing.build import pod
from bosket.testing.faults import FaultyTransport, hang_up, matching
from tests.rig import NAMESPACE, Rig, make_rig

pytestmark = pytest.mark.looptime


async def scene() -> Rig:
    account = ObjectMeta(name="scaling-pod", namespace=SCALE_ADJUST_NAMESPACE)
    return await make_rig(
        [Namespace(metadata=ObjectMeta(name=SCALE_ADJUST_NAMESPACE)), ServiceAccount(metadata=account)]
    )


async def wait_for_gpu(rig: Rig, name: str, portion: str = "0.5", devices: int = 1) -> None:
    """A pod that the scheduler found no node for."""
    await rig.client.create(pod(name, NAMESPACE).shares_gpu(portion, devices).build())
    await say(rig, name, NAMESPACE, "False", "Unschedulable")


async def say(rig: Rig, name: str, namespace: str, status: str, reason: str = "", **fields: Any) -> None:
    found = await rig.client.get(Pod, name, namespace)
    condition = PodCondition(type="PodScheduled", status=status, reason=reason)
    after = msgspec.structs.replace(found.status, conditions=(condition,), **fields)
    await rig.client.modify(found, msgspec.structs.replace(found, status=after), subresource="status")


async def scaling_pods(rig: Rig) -> dict[str, Pod]:
    found = await rig.client.list(Pod, SCALE_ADJUST_NAMESPACE)
    return {each.metadata.name: each for each in found.items}


async def test_a_pod_without_room_gets_a_scaling_pod_that_autoscalers_see_at_once() -> None:
    rig = await scene()
    async with rig.running(service):
        await wait_for_gpu(rig, "a")

        async def seen() -> Any:
            return [each for each in (await scaling_pods(rig)).values() if each.status.conditions]

        (made,) = await rig.until(seen)
    condition = made.status.conditions[0]
    assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable")


async def test_when_the_node_came_the_scaling_pod_goes_and_for_a_minute_no_other_comes() -> None:
    rig = await scene()
    async with rig.running(service):
        await wait_for_gpu(rig, "a")
        await rig.until(lambda: scaling_pods(rig))
        await say(rig, f"{NAMESPACE}-a", SCALE_ADJUST_NAMESPACE, "True", phase="Succeeded")

        async def gone() -> bool:
            return not await scaling_pods(rig)

        await rig.until(gone)
        went = rig.clock.monotonic()
        await wait_for_gpu(rig, "b")
        made = await rig.until(lambda: scaling_pods(rig))
        assert 55 < rig.clock.monotonic() - went < 65
    assert list(made) == [f"{NAMESPACE}-a"]  # still unschedulable; with b, one GPU is enough


@pytest.mark.parametrize("end", ["deleted", "placed"])
async def test_a_scaling_pod_goes_with_the_need_for_it(end: str) -> None:
    rig = await scene()
    async with rig.running(service):
        await wait_for_gpu(rig, "a")
        await rig.until(lambda: scaling_pods(rig))
        if end == "deleted":
            await rig.client.delete(Pod, "a", NAMESPACE, grace_seconds=0)
        else:
            await say(rig, "a", NAMESPACE, "True")

        async def gone() -> bool:
            return not await scaling_pods(rig)

        await rig.until(gone)


async def test_what_another_process_left_half_done_is_finished() -> None:
    rig = await scene()
    await wait_for_gpu(rig, "a")
    lost = FaultyTransport(rig.server.transport(), [hang_up(matching("PATCH", "/status"), times=None)])
    async with rig.running(service, lost):
        await rig.until(lambda: scaling_pods(rig))
    assert not (await scaling_pods(rig))[f"{NAMESPACE}-a"].status.conditions
    async with rig.running(service):

        async def marked() -> bool:
            return bool((await scaling_pods(rig))[f"{NAMESPACE}-a"].status.conditions)

        await rig.until(marked)


async def test_what_a_scheduler_said_about_a_scaling_pod_is_left_as_it_is() -> None:
    rig = await scene()
    async with rig.running(service):
        await wait_for_gpu(rig, "a")
        await rig.until(lambda: scaling_pods(rig))
        await say(rig, f"{NAMESPACE}-a", SCALE_ADJUST_NAMESPACE, "True")
        await rig.clock.sleep(120)
    assert (await scaling_pods(rig))[f"{NAMESPACE}-a"].status.conditions[0].status == "True"


async def test_a_burst_of_pods_costs_one_scaling_pod_for_each_gpu_that_they_fill() -> None:
    rig = await scene()
    transport = FaultyTransport(rig.server.transport())
    async with rig.running(service, transport):
        for number in range(20):
            await wait_for_gpu(rig, f"p{number}", "0.1")
        await rig.until(lambda: scaling_pods(rig))
        await rig.clock.sleep(300)
    assert len(await scaling_pods(rig)) == 2
    writes = [each for each in transport.requests if each.method != "GET"]
    assert len(writes) == 4  # each is created and marked


async def test_other_pods_in_the_namespace_are_nobodys_business() -> None:
    rig = await scene()
    await rig.client.create(pod("mine", SCALE_ADJUST_NAMESPACE).build())
    async with rig.running(service):
        await rig.clock.sleep(120)
    try:
        await rig.client.get(Pod, "mine", SCALE_ADJUST_NAMESPACE)
    except NotFound:
        pytest.fail("a pod that is no scaling pod was deleted")
