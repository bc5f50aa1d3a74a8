"""The pod group controller on a cluster: what it writes, and how often."""

from __future__ import annotations

import dataclasses

import pytest
from prometheus_client import CollectorRegistry

from bosket.api import keys
from bosket.api.core import Container, Pod, PodResourceClaim, PodSpec, ResourceRequirements
from bosket.api.kai import PodGroup, PodGroupSpec, SchedulingCondition
from bosket.api.object import ObjectMeta
from bosket.api.resource_k8s import DeviceClaim, DeviceRequest, ExactDeviceRequest, ResourceClaim, ResourceClaimSpec
from bosket.api.scheduling_k8s import PriorityClass
from bosket.kube.store import Store
from bosket.services.podgroup import service
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


async def test_a_group_is_looked_at_once_for_a_start_on_a_busy_cluster() -> None:
    """Neither while its pod is about to start, nor because of what was just written about it."""
    rig = await gang(1)
    registry = CollectorRegistry()
    spec = PodGroupSpec(minMember=1, queue="q")

    def looks() -> float:
        return sum(
            sample.value
            for family in registry.collect()
            for sample in family.samples
            if sample.name == "controller_runtime_reconcile_total"
        )

    async with rig.running(lambda environment: service(dataclasses.replace(environment, metrics=registry))):
        await run_pods(rig, 1)
        await rig.until(lambda: _running(rig))  # from here on the cluster is busy for a while
        await rig.clock.sleep(1.0)  # what was seen at the start is looked at
        before = looks()
        await rig.client.create(PodGroup(metadata=ObjectMeta(name="h", namespace=NAMESPACE), spec=spec))
        meta = ObjectMeta(name="h", namespace=NAMESPACE, annotations={keys.POD_GROUP_ANNOTATION: "h"})
        await rig.client.create(Pod(metadata=meta, spec=PodSpec(containers=(Container(name="c", image="i"),))))
        await rig.clock.sleep(1.0)
        await rig.client.patch(Pod, "h", {"status": {"phase": "Running"}}, namespace=NAMESPACE, subresource="status")
        await rig.clock.sleep(60)
        assert (await rig.client.get(PodGroup, "h", NAMESPACE)).status.phase == "Running"
        assert looks() == before + 1


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


async def test_a_device_that_pods_share_counts_once_whichever_of_their_groups_ends_first() -> None:
    """Pods of two groups use one claim, and one of them names it twice."""
    requests = (DeviceRequest(name="gpu", exactly=ExactDeviceRequest(deviceClassName="gpu.example.com", count=2)),)
    claim = ResourceClaim(
        metadata=ObjectMeta(name="shared", namespace=NAMESPACE),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=requests)),
    )
    rig = await make_rig([claim])
    for name in ("a", "b"):
        spec = PodGroupSpec(minMember=1, queue="q")
        await rig.client.create(PodGroup(metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=spec))
        for number in range(2):
            meta = ObjectMeta(
                name=f"{name}-{number}", namespace=NAMESPACE, annotations={keys.POD_GROUP_ANNOTATION: name}
            )
            claims = tuple(PodResourceClaim(name=each, resourceClaimName="shared") for each in ("x", "y"))
            container = Container(name="c", image="i")
            await rig.client.create(Pod(metadata=meta, spec=PodSpec(containers=(container,), resourceClaims=claims)))

    async def amounts() -> dict[str, tuple[str, str]]:
        found = {each.metadata.name: each.status for each in (await rig.client.list(PodGroup, NAMESPACE)).items}
        return {
            name: (
                str(status.resourcesStatus.requested.get("gpu.example.com", "0")),
                str(status.resourcesStatus.allocated.get("gpu.example.com", "0")),
            )
            for name, status in found.items()
            if status.phase
        }

    async def become(wanted: dict[str, tuple[str, str]]) -> bool:
        return await amounts() == wanted

    async def change(name: str, phase: str) -> None:
        patch = {"status": {"phase": phase}}
        await rig.client.patch(Pod, name, patch, namespace=NAMESPACE, subresource="status")

    async with rig.running(service):
        await rig.until(lambda: become({"a": ("2", "0"), "b": ("0", "0")}))
        await change("b-1", "Running")
        await rig.until(lambda: become({"a": ("2", "0"), "b": ("0", "2")}))
        await change("a-0", "Running")
        await rig.until(lambda: become({"a": ("2", "2"), "b": ("0", "0")}))
        for name in ("a-0", "a-1"):
            await change(name, "Succeeded")
        await rig.until(lambda: become({"a": ("0", "0"), "b": ("2", "2")}))


@pytest.mark.parametrize("groups", [1, 60])
async def test_a_claim_that_many_pods_share_costs_no_more_than_the_pods_themselves(
    groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in objects that are looked up: pods times a small number, of one group or of as many as there are pods;
    pods end in the order of their names, so that each of them is charged with the claim once."""
    size, walked = 60, 0
    look_up = Store.by_index

    def counted(store: Store[object], index: str, value: str) -> list[object]:
        nonlocal walked
        found = look_up(store, index, value)
        walked += len(found)
        return found

    monkeypatch.setattr(Store, "by_index", counted)
    requests = (DeviceRequest(name="gpu", exactly=ExactDeviceRequest(deviceClassName="gpu.example.com", count=2)),)
    claim = ResourceClaim(
        metadata=ObjectMeta(name="shared", namespace=NAMESPACE),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=requests)),
    )
    rig = await make_rig([claim])
    for number in range(groups):
        meta = ObjectMeta(name=f"g{number}", namespace=NAMESPACE)
        await rig.client.create(PodGroup(metadata=meta, spec=PodGroupSpec(minMember=1, queue="q")))
    names = [f"p{number:02}" for number in range(size)]
    for number, name in enumerate(names):
        annotations = {keys.POD_GROUP_ANNOTATION: f"g{number % groups}"}
        spec = PodSpec(
            containers=(Container(name="c", image="i"),),
            resourceClaims=(PodResourceClaim(name="x", resourceClaimName="shared"),),
        )
        meta = ObjectMeta(name=name, namespace=NAMESPACE, annotations=annotations)
        await rig.client.create(Pod(metadata=meta, spec=spec))

    async def held() -> dict[str, str]:
        found = (await rig.client.list(PodGroup, NAMESPACE)).items
        return {
            each.metadata.name: str(amount)
            for each in found
            for amount in each.status.resourcesStatus.allocated.values()
        }

    async def is_held_by(group: str) -> bool:
        return await held() == {group: "2"}

    async with rig.running(service):
        for name in names:
            await rig.client.patch(
                Pod, name, {"status": {"phase": "Running"}}, namespace=NAMESPACE, subresource="status"
            )
        await rig.until(lambda: is_held_by("g0"))
        for name in names[:-1]:
            patch = {"status": {"phase": "Succeeded"}}
            await rig.client.patch(Pod, name, patch, namespace=NAMESPACE, subresource="status")
        await rig.until(lambda: is_held_by(f"g{(size - 1) % groups}"))
        await rig.client.patch(ResourceClaim, "shared", {"metadata": {"labels": {"a": "b"}}}, namespace=NAMESPACE)
        await rig.clock.sleep(60)
    assert 0 < walked <= 20 * size
