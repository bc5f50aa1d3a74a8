"""Simulated GPUs: each has a UUID of its own, and nobody gets one that somebody else has."""

from __future__ import annotations

import pytest

from bosket.api import keys
from bosket.api.core import Container, Namespace, Pod, PodSpec, ResourceRequirements
from bosket.api.object import ObjectMeta
from bosket.embedded.gpu_devices import DeviceLedger, GpuDevices, device_uuid
from bosket.embedded.kubelet import Kubelet
from bosket.embedded.node import Layout, NodeShape, simulated_node
from tests.rig import Rig, make_rig

pytestmark = pytest.mark.looptime

NODE = "node-000"
DEVICES = [device_uuid(NODE, index) for index in range(4)]


def pod(name: str, gpus: int = 1, *, on: str = NODE, reserves: bool = False, device: str = "") -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=keys.RESERVATION_NAMESPACE,
            uid=f"uid-of-{name}",
            labels={keys.APP_LABEL: keys.RESERVATION_APP} if reserves else {},
            annotations={keys.RESERVED_GPU_ANNOTATION: device} if device else {},
        ),
        spec=PodSpec(
            nodeName=on,
            containers=(
                Container(
                    name="main", image="img", resources=ResourceRequirements(limits={"nvidia.com/gpu": str(gpus)})
                ),
            ),
        ),
    )


def test_devices_are_the_same_as_long_as_their_node_has_its_name() -> None:
    assert [device_uuid(NODE, index) for index in range(4)] == DEVICES
    assert len({*DEVICES, *(device_uuid("other", index) for index in range(4))}) == 8
    assert all(each.startswith("GPU-") for each in DEVICES)


def test_every_pod_has_devices_of_its_own_and_keeps_them() -> None:
    ledger = DeviceLedger()
    first = dict(ledger.divide(NODE, 4, [pod("b", 2), pod("c")]))
    second = ledger.divide(NODE, 4, [pod("a"), pod("b", 2), pod("c")])
    assert {uid: second[uid] for uid in first} == first
    assert sorted(device for held in second.values() for device in held) == sorted(DEVICES)


def test_a_device_that_a_pod_names_is_taken_from_those_who_were_thought_to_have_it() -> None:
    ledger = DeviceLedger()
    ledger.divide(NODE, 4, [pod("whole", 2)])
    held = ledger.divide(NODE, 4, [pod("whole", 2), pod("r", device=DEVICES[0])])
    assert held["uid-of-r"] == (DEVICES[0],)
    assert len(held["uid-of-whole"]) == 2
    assert DEVICES[0] not in held["uid-of-whole"]


def test_there_are_no_more_devices_than_there_are() -> None:
    held = DeviceLedger().divide(NODE, 1, [pod("a"), pod("b")])
    assert sorted(map(len, held.values())) == [0, 1]


async def started(*pods: Pod, gpus: int = 4) -> Rig:
    node = simulated_node(0, Layout(1), NodeShape(gpus=gpus), 0.0)
    rig = await make_rig([Namespace(metadata=ObjectMeta(name=keys.RESERVATION_NAMESPACE)), node])
    await rig.apply(*pods)
    return rig


async def reported(rig: Rig) -> dict[str, str]:
    pods = (await rig.client.list(Pod, keys.RESERVATION_NAMESPACE)).items
    return {
        pod.metadata.name: pod.metadata.annotations[keys.RESERVED_GPU_ANNOTATION]
        for pod in pods
        if keys.RESERVED_GPU_ANNOTATION in pod.metadata.annotations
    }


async def test_reservation_pods_say_which_device_they_have_and_others_say_nothing() -> None:
    rig = await started(pod("whole", 2), pod("r1", reserves=True), pod("r2", reserves=True))
    async with rig.running(Kubelet), rig.running(GpuDevices):
        await rig.clock.sleep(5)
    found = await reported(rig)
    assert set(found) == {"r1", "r2"}
    assert len(set(found.values())) == 2
    assert set(found.values()) < set(DEVICES)


async def test_after_a_restart_devices_are_where_they_were() -> None:
    rig = await started(pod("r1", reserves=True))
    async with rig.running(Kubelet), rig.running(GpuDevices):
        await rig.clock.sleep(5)
    before = await reported(rig)
    async with rig.running(Kubelet), rig.running(GpuDevices):
        await rig.apply(*(pod(f"q{index}", reserves=True) for index in range(3)))
        await rig.clock.sleep(5)
    after = await reported(rig)
    assert after["r1"] == before["r1"]
    assert sorted(after.values()) == sorted(DEVICES)


async def test_a_device_is_free_again_when_its_pod_is_gone() -> None:
    rig = await started(pod("r1", reserves=True), gpus=1)
    async with rig.running(Kubelet), rig.running(GpuDevices):
        await rig.clock.sleep(5)
        first = (await reported(rig))["r1"]
        await rig.client.delete(Pod, "r1", keys.RESERVATION_NAMESPACE, grace_seconds=0)
        await rig.clock.sleep(1)
        await rig.apply(pod("r2", reserves=True))
        await rig.clock.sleep(5)
        assert await reported(rig) == {"r2": first}
