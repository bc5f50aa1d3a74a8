"""The pod group controller on a cluster: what it writes, and how often."""

from __future__ import annotations

import pytest

from bosket.api import keys
from bosket.api.core import Container, Pod, PodSpec, ResourceRequirements
from bosket.api.kai import PodGroup, PodGroupSpec, SchedulingCondition
from bosket.api.object import ObjectMeta
from bosket.api.scheduling_k8s import PriorityClass
from bosket.podgroup_controller import service
from bosket.testing.faults import FaultyTransport, matching, refuse
from tests.rig import NAMESPACE, Rig, make_rig

pytestmark = pytest.mark.looptime


async def gang(size: int) -> Rig:
    rig = await make_rig([PriorityClass(metadata=ObjectMeta(name="train"), value=50)])
    spec = PodGroupSpec(minMember=size, priorityClassName="train", queue="q")
    await rig.client.create(PodGroup(metadata=ObjectMeta(name="g", namespace=NAMESPACE), spec=spec))
    for number in range(size):
        metadata = ObjectMeta(name=f"p{number}", namespace=NAMESPACE, annotations={keys.POD_GROUP_ANNOTATION: "g"})
        resources = ResourceRequirements(requests={"nvidia.com/gpu": "1"}, limits={"nvidia.com/gpu": "1"})
        container = Container(name="c", image="i", resources=resources)
        await rig.client.create(Pod(metadata=metadata, spec=PodSpec(containers=(container,))))
    return rig


async def run_pods(rig: Rig, size: int) -> None:
    for number in range(size):
        pod = await rig.client.get(Pod, f"p{number}", NAMESPACE)
        patch = {"status": {"phase": "Running"}}
        await rig.client.patch(Pod, pod.metadata.name, patch, namespace=NAMESPACE, subresource="status")


async def group(rig: Rig) -> PodGroup:
    return await rig.client.get(PodGroup, "g", NAMESPACE)


async def test_a_gang_that_starts_is_written_once_for_all_its_pods() -> None:
    rig = await gang(20)
    transport = FaultyTransport(rig.server.transport())
    writes = matching("PATCH", "/podgroups/g/status")
    async with rig.running(service, transport):

        async def has_phase(phase: str) -> bool:
            return (await group(rig)).status.phase == phase

        await rig.until(lambda: has_phase("Pending"))
        await run_pods(rig, 20)
        await rig.until(lambda: has_phase("Running"))
        await rig.clock.sleep(60)
    found = (await group(rig)).status
    assert (found.running, found.resourcesStatus.allocated) == (20, {"nvidia.com/gpu": "20"})
    assert sum(map(writes, transport.requests)) == 2


async def test_a_job_that_starts_at_once_is_written_once() -> None:
    """What is about to pass isn't told: that it waits, that it has nodes, that some of its pods run."""
    rig = await gang(4)
    transport = FaultyTransport(rig.server.transport())
    writes = matching("PATCH", "/podgroups/g/status")
    async with rig.running(service, transport):
        await rig.clock.sleep(1)
        await run_pods(rig, 2)
        await rig.clock.sleep(1)
        await run_pods(rig, 4)
        await rig.until(lambda: _running(rig))
        await rig.clock.sleep(60)
    assert sum(map(writes, transport.requests)) == 1


async def test_while_others_start_those_that_wait_are_told_later_but_not_for_ever() -> None:
    rig = await gang(1)
    busy = PodGroupSpec(minMember=1, queue="q")
    async with rig.running(service):
        for number in range(80):
            name = f"busy-{number}"
            await rig.client.create(PodGroup(metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=busy))
            meta = ObjectMeta(name=name, namespace=NAMESPACE, annotations={keys.POD_GROUP_ANNOTATION: name})
            await rig.client.create(Pod(metadata=meta, spec=PodSpec(containers=(Container(name="c", image="i"),))))
            patch = {"status": {"phase": "Running"}}
            await rig.client.patch(Pod, name, patch, namespace=NAMESPACE, subresource="status")
            await rig.clock.sleep(0.5)
            if number == 40:  # 20 seconds
                assert (await group(rig)).status.phase == ""
        assert (await group(rig)).status.phase == "Pending"


async def test_what_the_scheduler_wrote_stays() -> None:
    rig = await gang(1)
    told = SchedulingCondition(type="UnschedulableOnNodePool", nodePool="default", status="True")
    patch = {"status": {"schedulingConditions": [{"type": told.type, "nodePool": "default", "status": "True"}]}}
    await rig.client.patch(PodGroup, "g", patch, namespace=NAMESPACE, subresource="status")
    async with rig.running(service):

        async def told_phase() -> bool:
            return bool((await group(rig)).status.phase)

        await rig.until(told_phase)
    assert (await group(rig)).status.schedulingConditions == (told,)


async def test_a_write_that_is_refused_is_tried_again() -> None:
    rig = await gang(1)
    transport = FaultyTransport(rig.server.transport(), [refuse(matching("PATCH", "/status"), 503, times=3)])
    async with rig.running(service, transport):

        async def pending() -> bool:
            return (await group(rig)).status.phase == "Pending"

        await rig.until(pending)


async def test_a_priority_class_that_changes_makes_work_firm() -> None:
    rig = await gang(1)
    await run_pods(rig, 1)
    async with rig.running(service):

        async def firm() -> dict[str, object]:
            return dict((await group(rig)).status.resourcesStatus.allocatedNonPreemptible)

        await rig.until(lambda: _running(rig))
        assert await firm() == {}
        await rig.client.delete(PriorityClass, "train")
        await rig.client.create(PriorityClass(metadata=ObjectMeta(name="train"), value=125))
        assert await rig.until(firm) == {"nvidia.com/gpu": "1"}


async def _running(rig: Rig) -> bool:
    return (await group(rig)).status.phase == "Running"
