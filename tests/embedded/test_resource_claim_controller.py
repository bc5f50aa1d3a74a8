"""Claims are made from templates, freed when their users are gone, and go with the pods they were made for."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from bosket.api.core import Container, Pod, PodResourceClaim, PodSpec, PodStatus
from bosket.api.keys import DEVICE_CLAIM_FINALIZER
from bosket.api.object import ObjectMeta
from bosket.api.resource_k8s import (
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from bosket.kube.errors import Invalid, NotFound
from bosket.testing.device import claim_spec, device_request
from tests.embedded.workloads import Workloads, workloads

pytestmark = pytest.mark.looptime


def template(name: str = "t") -> ResourceClaimTemplate:
    spec = ResourceClaimTemplateSpec(metadata=ObjectMeta(labels={"made": "yes"}), spec=claim_spec())
    return ResourceClaimTemplate(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


def claiming(name: str = "p", **source: str) -> Pod:
    source = source or {"resourceClaimTemplateName": "t"}
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodSpec(
            containers=(Container(name="main", image="i"),),
            schedulerName="nobody",
            resourceClaims=(PodResourceClaim(name="gpu", **source),),
        ),
    )


async def made_for(world: Workloads, name: str = "p") -> ResourceClaim:
    pod = await world.get(Pod, name)
    (status,) = pod.status.resourceClaimStatuses
    assert status.resourceClaimName is not None
    return await world.get(ResourceClaim, status.resourceClaimName)


async def reserve(world: Workloads, claim: ResourceClaim, *pods: Pod) -> None:
    users = tuple(
        ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid) for pod in pods
    )
    protected = replace(claim, metadata=replace(claim.metadata, finalizers=(DEVICE_CLAIM_FINALIZER,)))
    claim = await world.client.modify(claim, protected)
    status = ResourceClaimStatus(allocation=AllocationResult(), reservedFor=users)
    await world.client.modify(claim, replace(claim, status=status), subresource="status")


async def test_a_pod_with_a_template_gets_a_claim_of_its_own_and_is_told_its_name() -> None:
    async with workloads() as world:
        await world.client.create(template())
        pod = await world.client.create(claiming())
        await asyncio.sleep(1)
        claim = await made_for(world)
        assert claim.metadata.name.startswith("p-gpu-")
        assert claim.metadata.labels == {"made": "yes"}
        assert claim.metadata.annotations == {"resource.kubernetes.io/pod-claim-name": "gpu"}
        assert [each.uid for each in claim.metadata.ownerReferences] == [pod.metadata.uid]
        assert claim.spec == claim_spec()
        assert len((await world.client.list(ResourceClaim)).items) == 1


async def test_a_template_that_comes_later_is_used_and_its_absence_is_told() -> None:
    async with workloads() as world:
        await world.client.create(claiming())
        await asyncio.sleep(1)
        assert not (await world.get(Pod, "p")).status.resourceClaimStatuses
        told = await world.events("FailedResourceClaimCreation")
        assert told == ["PodResourceClaim gpu: resource claim template default/t was not found"]
        await world.client.create(template())
        await asyncio.sleep(1)
        await made_for(world)


async def test_the_claim_goes_with_its_pod_though_it_has_devices() -> None:
    async with workloads() as world:
        await world.client.create(template())
        pod = await world.client.create(claiming())
        await asyncio.sleep(1)
        claim = await made_for(world)
        await reserve(world, claim, pod)
        await world.client.delete(Pod, "p", "default")
        await asyncio.sleep(5)
        with pytest.raises(NotFound):
            await world.get(ResourceClaim, claim.metadata.name)


async def test_the_claim_of_a_pod_that_has_ended_goes() -> None:
    async with workloads() as world:
        await world.client.create(template())
        await world.client.create(claiming())
        await asyncio.sleep(1)
        claim, pod = await made_for(world), await world.get(Pod, "p")
        await reserve(world, claim, pod)
        await world.client.modify(pod, replace(pod, status=PodStatus(phase="Succeeded")), subresource="status")
        await asyncio.sleep(5)
        with pytest.raises(NotFound):
            await world.get(ResourceClaim, claim.metadata.name)


async def test_a_shared_claim_keeps_its_devices_until_its_last_user_is_gone() -> None:
    async with workloads() as world:
        await world.client.create(ResourceClaim(metadata=ObjectMeta(name="c", namespace="default"), spec=claim_spec()))
        pods = [await world.client.create(claiming(name, resourceClaimName="c")) for name in ("a", "b")]
        await reserve(world, await world.get(ResourceClaim, "c"), *pods)
        await world.client.delete(Pod, "a", "default")
        await asyncio.sleep(5)
        claim = await world.get(ResourceClaim, "c")
        assert [each.name for each in claim.status.reservedFor] == ["b"]
        assert claim.status.allocation is not None
        await world.client.delete(Pod, "b", "default")
        await asyncio.sleep(5)
        claim = await world.get(ResourceClaim, "c")
        assert claim.status == ResourceClaimStatus()
        assert claim.metadata.finalizers == ()


async def test_a_claim_without_users_is_left_alone() -> None:
    async with workloads() as world:
        await world.client.create(ResourceClaim(metadata=ObjectMeta(name="c", namespace="default"), spec=claim_spec()))
        await reserve(world, await world.get(ResourceClaim, "c"))
        await asyncio.sleep(5)
        assert (await world.get(ResourceClaim, "c")).status.allocation is not None


async def test_the_server_knows_the_rules_of_claims() -> None:
    async with workloads() as world:
        bare = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        }
        await world.client.create(bare)
        claim = await world.get(ResourceClaim, "c")
        assert claim.spec == claim_spec(device_request()), "one device, exactly, is what is meant"
        with pytest.raises(Invalid, match="field is immutable"):
            await world.client.modify(claim, replace(claim, spec=claim_spec(device_request(count=2))))
        user = ResourceClaimConsumerReference(resource="pods", name="p", uid="u")
        unallocated = replace(claim, status=ResourceClaimStatus(reservedFor=(user,)))
        with pytest.raises(Invalid, match=r"status.reservedFor"):
            await world.client.modify(claim, unallocated, subresource="status")
