"""What happens in a reservation pod: its device is written onto it once, and then it waits for its end."""

from __future__ import annotations

import asyncio

import pytest

from bosket.api.core import Container, Pod, PodSpec
from bosket.api.keys import RESERVED_GPU_ANNOTATION
from bosket.api.object import ObjectMeta
from bosket.kube.client import Client
from bosket.kube.errors import NotFound
from bosket.services.reservation import DeviceNotFound, NotInPod, OwnPod, hold_device, own_pod, report_device
from tests.rig import NAMESPACE, Rig, make_rig

pytestmark = pytest.mark.looptime

OWN = OwnPod(NAMESPACE, "reservation")


async def rig_with_pod(**annotations: str) -> Rig:
    pod = Pod(
        metadata=ObjectMeta(name=OWN.name, namespace=NAMESPACE, annotations=annotations, labels={"kept": "yes"}),
        spec=PodSpec(containers=(Container(name="main", image="img"),)),
    )
    return await make_rig([pod])


async def device_of(rig: Rig) -> str | None:
    pod = await rig.client.get(Pod, OWN.name, NAMESPACE)
    assert pod.metadata.labels == {"kept": "yes"}
    return pod.metadata.annotations.get(RESERVED_GPU_ANNOTATION)


async def test_the_device_is_written_onto_the_pod_and_held_until_the_end() -> None:
    rig = await rig_with_pod()
    own = Client(rig.server.transport(), clock=rig.clock)
    holding = asyncio.create_task(hold_device(own, OWN, lambda: "GPU-1"))
    await asyncio.sleep(3600)
    assert not holding.done()
    assert await device_of(rig) == "GPU-1"
    holding.cancel()
    await asyncio.wait([holding], timeout=0.1)
    assert holding.cancelled()


async def test_a_pod_that_says_its_device_is_believed() -> None:
    """After a restart of the container NVML is not asked again."""
    rig = await rig_with_pod(**{RESERVED_GPU_ANNOTATION: "GPU-1"})

    def find() -> str:
        raise AssertionError("asked")

    assert await report_device(rig.client, OWN, find) == "GPU-1"


async def test_without_a_device_the_program_ends_and_the_pod_says_nothing() -> None:
    rig = await rig_with_pod()

    def find() -> str:
        raise DeviceNotFound("found 0 devices")

    with pytest.raises(DeviceNotFound):
        await hold_device(rig.client, OWN, find)
    assert await device_of(rig) is None


async def test_a_pod_that_is_not_there_is_an_error() -> None:
    rig = await make_rig()
    with pytest.raises(NotFound):
        await report_device(rig.client, OWN, lambda: "GPU-1")


def test_the_environment_says_which_pod_it_is() -> None:
    assert own_pod({"POD_NAME": "a", "POD_NAMESPACE": "b"}) == OwnPod("b", "a")
    with pytest.raises(NotInPod, match="POD_NAME is not set"):
        own_pod({"POD_NAMESPACE": "b"})
    with pytest.raises(NotInPod, match="POD_NAMESPACE is not set"):
        own_pod({"POD_NAME": "a", "POD_NAMESPACE": ""})
