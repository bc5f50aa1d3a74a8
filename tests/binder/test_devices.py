"""Claims of a pod that is bound: reserved with their devices, and as before when the bind fails."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bosket.api.core import ContainerExtendedResourceRequest, Pod, PodResourceClaim
from bosket.api.kai import BindRequest, ExtendedResourceClaimAllocation, ResourceClaimAllocation
from bosket.api.keys import DEVICE_CLAIM_FINALIZER
from bosket.api.object import ObjectMeta
from bosket.api.resource_k8s import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from bosket.testing.device import claim_spec, device_request
from bosket.testing.faults import Chaos, FaultyTransport, hang_up, matching, refuse
from tests.binder.scene import Ledger, ask, binder, end_state, finished, pod, scene
from tests.binder.test_faults import Mortal
from tests.rig import NAMESPACE, Rig

pytestmark = pytest.mark.looptime

BINDING = matching("POST", "/binding")
CLAIM_STATUS = matching("PATCH", "/resourceclaims/c/status")
MAPPING = ContainerExtendedResourceRequest(containerName="main", resourceName="example.com/gpu", requestName="r")


def allocation(*devices: str) -> AllocationResult:
    results = tuple(
        DeviceRequestAllocationResult(request="r", driver="gpu.example.com", pool="n", device=each)
        for each in devices or ("d0",)
    )
    return AllocationResult(devices=DeviceAllocationResult(results=results))


def claiming(name: str = "a") -> Pod:
    plain = pod(name)
    return replace(plain, spec=replace(plain.spec, resourceClaims=(PodResourceClaim(name="x", resourceClaimName="c"),)))


async def with_claim(*pods: Pod) -> Rig:
    rig = await scene(*(pods or (claiming(),)))
    await rig.client.create(ResourceClaim(metadata=ObjectMeta(name="c", namespace=NAMESPACE), spec=claim_spec()))
    return rig


async def ask_for(rig: Rig, name: str = "a", *devices: str, limit: int | None = None, extended: bool = False) -> None:
    """A request for a claim's devices, or for those of an extended resource."""
    request = await ask(rig, name, limit=limit)
    await rig.client.delete(BindRequest, name, NAMESPACE)
    given = allocation(*devices)
    spec = replace(request.spec, resourceClaimAllocations=(ResourceClaimAllocation(name="x", allocation=given),))
    if extended:
        claim = ExtendedResourceClaimAllocation(
            allocation=given, deviceRequests=(device_request(),), containerMappings=(MAPPING,)
        )
        spec = replace(request.spec, extendedResourceClaimAllocation=claim)
    metadata = ObjectMeta(name=name, namespace=NAMESPACE, ownerReferences=request.metadata.ownerReferences)
    await rig.client.create(replace(request, metadata=metadata, spec=spec))


async def the_claim(rig: Rig) -> ResourceClaim:
    return await rig.client.get(ResourceClaim, "c", NAMESPACE)


async def state(rig: Rig, name: str = "c") -> tuple[list[str], list[str], list[str]]:
    """Devices, users and finalizers of a claim."""
    claim = await rig.client.get(ResourceClaim, name, NAMESPACE)
    results = claim.status.allocation.devices.results if claim.status.allocation is not None else ()
    users = [each.name for each in claim.status.reservedFor]
    return [each.device for each in results], sorted(users), list(claim.metadata.finalizers)


async def set_status(rig: Rig, given: AllocationResult, *users: str) -> None:
    claim = await the_claim(rig)
    reserved = tuple(ResourceClaimConsumerReference(resource="pods", name=each, uid=each) for each in users)
    status = replace(claim.status, allocation=given, reservedFor=reserved)
    await rig.client.modify(claim, replace(claim, status=status), subresource="status")


TAKEN = (["d0"], ["a"], [DEVICE_CLAIM_FINALIZER])
FREE: tuple[list[str], list[str], list[str]] = ([], [], [])


async def test_a_claim_gets_its_devices_and_the_pod_as_user() -> None:
    rig = await with_claim()
    await ask_for(rig)
    async with rig.running(binder()):
        await finished(rig)
    assert await state(rig) == TAKEN


async def test_a_claim_that_others_use_gets_one_more_user() -> None:
    rig = await with_claim()
    await set_status(rig, allocation(), "other")
    await ask_for(rig)
    async with rig.running(binder()):
        await finished(rig)
    assert (await state(rig))[:2] == (["d0"], ["a", "other"])


REFUSED = {"forbidden": lambda: refuse(BINDING, 403, reason="Forbidden", times=None)}


async def test_a_failed_bind_leaves_the_claim_as_it_was() -> None:
    rig = await with_claim()
    await ask_for(rig)
    async with rig.running(binder(), FaultyTransport(rig.server.transport(), [REFUSED["forbidden"]()])):
        await finished(rig, phase="Failed")
    assert await state(rig) == FREE


async def test_a_failed_bind_takes_only_its_own_user_back() -> None:
    rig = await with_claim()
    await set_status(rig, allocation(), "other")
    await ask_for(rig)
    async with rig.running(binder(), FaultyTransport(rig.server.transport(), [REFUSED["forbidden"]()])):
        await finished(rig, phase="Failed")
    assert (await state(rig))[:2] == (["d0"], ["other"])


async def test_devices_that_the_claim_had_before_stay() -> None:
    rig = await with_claim()
    await set_status(rig, allocation())
    await ask_for(rig)
    async with rig.running(binder(), FaultyTransport(rig.server.transport(), [REFUSED["forbidden"]()])):
        await finished(rig, phase="Failed")
    assert (await state(rig))[:2] == (["d0"], [])


async def test_a_claim_that_the_pod_doesnt_have_fails_the_bind_by_name() -> None:
    rig = await with_claim(pod("a"))
    await ask_for(rig)
    async with rig.running(binder()):
        request = await finished(rig, phase="Failed")
    assert 'pod ml/a: spec.resourceClaims has no "x" with a ResourceClaim' in request.status.reason


@pytest.mark.parametrize(
    ("prepare", "text"),
    [
        ("other devices", "ResourceClaim ml/c has got other devices than were decided on"),
        ("no claim", "c"),
        ("full", "ResourceClaim ml/c has 256 users already"),
    ],
)
async def test_a_claim_that_cant_be_had_fails_the_bind_by_name(prepare: str, text: str) -> None:
    rig = await with_claim()
    if prepare == "other devices":
        await set_status(rig, allocation("d9"), "other")
    elif prepare == "full":
        await set_status(rig, allocation(), *(f"u{number}" for number in range(256)))
    else:
        await rig.client.delete(ResourceClaim, "c", NAMESPACE)
    await ask_for(rig)
    ledger = Ledger(rig.server.transport())
    async with rig.running(binder(), ledger):
        request = await finished(rig, phase="Failed")
    assert text in request.status.reason
    assert ledger.binds() == 0


PASSING = {
    "status, answer lost": lambda: hang_up(CLAIM_STATUS, after_effect=True),
    "status, conflict": lambda: refuse(CLAIM_STATUS, 409, reason="Conflict", times=3),
    "status, error": lambda: refuse(CLAIM_STATUS, 500),
    "status, error after it was done": lambda: refuse(CLAIM_STATUS, 500, after_effect=True),
    "finalizer, answer lost": lambda: hang_up(matching("PATCH", "/resourceclaims/c"), after_effect=True),
    "bind, answer lost": lambda: hang_up(BINDING, after_effect=True),
}


@pytest.mark.parametrize("kind", PASSING)
async def test_a_passing_error_changes_nothing_in_the_end(kind: str) -> None:
    rig = await with_claim()
    await ask_for(rig, limit=3)
    ledger = Ledger(rig.server.transport())
    fault = PASSING[kind]()
    async with rig.running(binder(), FaultyTransport(ledger, [fault])):
        await finished(rig)
    assert fault.struck > 0
    assert await state(rig) == TAKEN
    assert ledger.binds() == 1


@pytest.mark.parametrize("extended", [False, True], ids=["claim", "extended resource"])
@pytest.mark.parametrize("after_effect", [False, True], ids=["request lost", "answer lost"])
async def test_a_binder_killed_at_any_request_leaves_the_rest_to_the_next_one(
    extended: bool, after_effect: bool
) -> None:
    for last in range(1, 30):
        rig = await with_claim()
        await ask_for(rig, extended=extended)
        mortal = Mortal(rig.server.transport(), last, after_effect=after_effect)
        async with rig.running(binder(), mortal):

            async def dead_or_done(rig: Rig = rig, mortal: Mortal = mortal) -> bool:
                return mortal.is_dead or (await end_state(rig)).phase == "Succeeded"

            await rig.until(dead_or_done)
        async with rig.running(binder()):
            await finished(rig)
        claims = (await rig.client.list(ResourceClaim, NAMESPACE)).items
        if extended:
            (made,) = [each for each in claims if each.metadata.name != "c"]
            assert (await state(rig, made.metadata.name))[:2] == (["d0"], ["a"])
        else:
            assert await state(rig) == TAKEN
            assert len(claims) == 1
        if not mortal.is_dead:
            return
    pytest.fail("the binder never came to an end")


async def test_the_claim_for_extended_resources_is_owned_by_the_pod_which_knows_it() -> None:
    rig = await scene()
    await ask_for(rig, extended=True)
    async with rig.running(binder()):
        await finished(rig)
    (claim,) = (await rig.client.list(ResourceClaim, NAMESPACE)).items
    bound = await rig.client.get(Pod, "a", NAMESPACE)
    (owner,) = claim.metadata.ownerReferences
    assert (owner.uid, owner.controller) == (bound.metadata.uid, True)
    assert claim.metadata.name.startswith("a-extended-resources-")
    assert claim.metadata.annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert bound.status.extendedResourceClaimStatus is not None
    assert bound.status.extendedResourceClaimStatus.resourceClaimName == claim.metadata.name
    assert bound.status.extendedResourceClaimStatus.requestMappings == (MAPPING,)


async def test_the_claim_for_extended_resources_goes_with_a_failed_bind() -> None:
    rig = await scene()
    await ask_for(rig, extended=True)
    async with rig.running(binder(), FaultyTransport(rig.server.transport(), [REFUSED["forbidden"]()])):
        await finished(rig, phase="Failed")
    assert not (await rig.client.list(ResourceClaim, NAMESPACE)).items
    assert (await rig.client.get(Pod, "a", NAMESPACE)).status.extendedResourceClaimStatus is None


@pytest.mark.parametrize("seed", range(3))
async def test_in_chaos_every_claim_ends_with_its_user(seed: int) -> None:
    names = [f"pod-{number}" for number in range(6)]
    rig = await with_claim(*(claiming(name) for name in names))
    for name in names:
        await ask_for(rig, name, limit=1000)
    chaos = Chaos(seed, refuse_rate=0.1, hang_up_rate=0.1, lost_answer_rate=0.1, longest_delay_seconds=2.0)
    async with rig.running(binder(), FaultyTransport(rig.server.transport(), chaos=chaos, clock=rig.clock)):
        for name in names:
            await finished(rig, name)
    assert await state(rig) == (["d0"], names, [DEVICE_CLAIM_FINALIZER])
