"""Claims and volumes in the embedded cluster: who gets what, what becomes of it, and what is protected."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bosket.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from bosket.embedded.controllers.simulated_storage import DRIVER
from bosket.kube.errors import NotFound
from bosket.testing.faults import Chaos, FaultyTransport
from tests.embedded.workloads import NODE, Workloads, workloads

pytestmark = pytest.mark.looptime

HOSTNAME = "kubernetes.io/hostname"


def storage_class(name: str, provisioner: str = DRIVER, *, mode: str = "Immediate", policy: str = "Delete") -> Any:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        "reclaimPolicy": policy,
    }


def claim(name: str = "data", storage_class: str | None = "fast", *, size: str = "1Gi", **spec: Any) -> Any:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def volume(name: str, *, size: str = "1Gi", policy: str = "Retain", claim: str = "", **spec: Any) -> Any:
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "persistentVolumeReclaimPolicy": policy,
        "hostPath": {"path": "/disk"},
        **spec,
    }
    if claim:
        spec["claimRef"] = {"namespace": "default", "name": claim}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def user(name: str = "user", **source: Any) -> Any:
    volumes = [{"name": "data", **(source or {"persistentVolumeClaim": {"claimName": "data"}})}]
    spec = {"nodeName": NODE, "containers": [{"name": "main", "image": "img"}], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def phase(world: Workloads, name: str = "data") -> str:
    return (await world.get(PersistentVolumeClaim, name)).status.phase


async def volume_phase(world: Workloads, name: str) -> str:
    try:
        return (await world.client.get(PersistentVolume, name)).status.phase
    except NotFound:
        return "gone"


def has(world: Workloads, name: str, expected: str) -> Any:
    async def look() -> bool:
        return await phase(world, name) == expected

    return look


def volume_has(world: Workloads, name: str, expected: str) -> Any:
    async def look() -> bool:
        return await volume_phase(world, name) == expected

    return look


async def settle() -> None:
    await asyncio.sleep(2)


async def test_a_claim_is_bound_to_the_smallest_volume_that_suits_it() -> None:
    async with workloads() as world:
        for each in (volume("large", size="9Gi"), volume("small", size="1Mi"), volume("right", size="2Gi")):
            await world.client.create(each)
        await world.client.create(claim())
        await world.until(has(world, "data", "Bound"))
        found = await world.get(PersistentVolumeClaim, "data")
        assert (found.spec.volumeName, found.status.capacity) == ("right", {"storage": "2Gi"})
        assert found.metadata.annotations["pv.kubernetes.io/bind-completed"] == "yes"
        await world.until(volume_has(world, "right", "Bound"))
        assert await volume_phase(world, "large") == "Available"


async def test_claims_never_share_a_volume() -> None:
    async with workloads() as world:
        for number in range(5):
            await world.client.create(claim(f"c{number}"))
        for number in range(3):
            await world.client.create(volume(f"v{number}"))
        await settle()
        claims = (await world.client.list(PersistentVolumeClaim)).items
        names = [each.spec.volumeName for each in claims if each.spec.volumeName]
        assert sorted(names) == ["v0", "v1", "v2"]
        assert [each.status.phase for each in claims].count("Pending") == 2


async def test_a_volume_that_names_a_claim_waits_for_it_and_a_claim_that_names_a_volume_gets_no_other() -> None:
    async with workloads() as world:
        await world.client.create(volume("promised", claim="data"))
        await world.client.create(volume("other"))
        await world.client.create(claim("first"))
        await world.client.create(claim("data"))
        await world.client.create(claim("picky", volumeName="third"))
        await world.until(has(world, "data", "Bound"))
        assert (await world.get(PersistentVolumeClaim, "data")).spec.volumeName == "promised"
        assert (await world.get(PersistentVolumeClaim, "first")).spec.volumeName == "other"
        assert await phase(world, "picky") == "Pending"
        await world.client.create(volume("third"))
        await world.until(has(world, "picky", "Bound"))


async def test_volumes_are_made_for_claims_that_do_not_wait() -> None:
    async with workloads() as world:
        await world.client.create(storage_class("fast"))
        await world.client.create(claim())
        await world.until(has(world, "data", "Bound"))
        (made,) = (await world.client.list(PersistentVolume)).items
        assert (made.spec.csi.driver if made.spec.csi else "") == DRIVER
        assert made.spec.nodeAffinity is None


async def test_a_claim_that_waits_gets_a_volume_on_the_node_that_is_selected() -> None:
    async with workloads() as world:
        await world.client.create(storage_class("fast", mode="WaitForFirstConsumer"))
        await world.client.create(volume("free"))
        await world.client.create(claim())
        await settle()
        assert await phase(world) == "Pending"
        patch = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": NODE}}}
        await world.client.patch(PersistentVolumeClaim, "data", patch, namespace="default")
        await world.until(has(world, "data", "Bound"))
        bound = await world.get(PersistentVolumeClaim, "data")
        made = await world.client.get(PersistentVolume, bound.spec.volumeName)
        assert made.spec.nodeAffinity is not None
        assert made.spec.nodeAffinity.required is not None
        (term,) = made.spec.nodeAffinity.required.nodeSelectorTerms
        assert [(each.key, each.values) for each in term.matchExpressions] == [(HOSTNAME, (NODE,))]


async def test_a_volume_for_pods_on_several_nodes_is_tied_to_none() -> None:
    async with workloads() as world:
        await world.client.create(storage_class("fast", mode="WaitForFirstConsumer"))
        wanted = claim(accessModes=["ReadWriteMany"])
        wanted["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": NODE}
        await world.client.create(wanted)
        await world.until(has(world, "data", "Bound"))
        (made,) = (await world.client.list(PersistentVolume)).items
        assert made.spec.nodeAffinity is None


async def test_a_node_that_is_not_there_is_rejected() -> None:
    async with workloads() as world:
        await world.client.create(storage_class("fast", mode="WaitForFirstConsumer"))
        wanted = claim()
        wanted["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "nowhere"}
        await world.client.create(wanted)
        await settle()
        found = await world.get(PersistentVolumeClaim, "data")
        assert "volume.kubernetes.io/selected-node" not in found.metadata.annotations
        assert await world.events("ProvisioningFailed") == ['node "nowhere" was not found']


async def test_a_claim_that_names_no_class_gets_the_default_one() -> None:
    async with workloads() as world:
        await world.client.create(claim(storage_class=None))
        await settle()
        assert await phase(world) == "Pending"
        default = storage_class("fast")
        default["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
        await world.client.create(default)
        await world.until(has(world, "data", "Bound"))
        assert (await world.get(PersistentVolumeClaim, "data")).spec.storageClassName == "fast"


@pytest.mark.parametrize(
    ("provisioner", "policy", "end"),
    [(DRIVER, "Delete", "gone"), (DRIVER, "Retain", "Released"), ("", "Retain", "Released"), ("", "Delete", "Failed")],
)
async def test_what_becomes_of_a_volume_whose_claim_goes(provisioner: str, policy: str, end: str) -> None:
    async with workloads() as world:
        if provisioner:
            await world.client.create(storage_class("fast", policy=policy))
        else:
            await world.client.create(volume("disk", policy=policy))
        await world.client.create(claim())
        await world.until(has(world, "data", "Bound"))
        name = (await world.get(PersistentVolumeClaim, "data")).spec.volumeName
        await world.client.delete(PersistentVolumeClaim, "data", "default")
        await world.until(volume_has(world, name, end))
        await world.client.create(claim("next", volumeName=name))
        await settle()
        assert await phase(world, "next") == "Pending", "a volume with somebody's data was given away"


async def test_a_claim_in_use_stays_until_its_last_pod_is_gone() -> None:
    async with workloads() as world:
        await world.client.create(volume("disk"))
        await world.client.create(claim())
        await world.until(has(world, "data", "Bound"))
        await world.client.create(user())
        await world.until(lambda: _runs(world, "user"))
        await world.client.delete(PersistentVolumeClaim, "data", "default")
        await world.client.delete(PersistentVolume, "disk")
        await settle()
        assert (await world.get(PersistentVolumeClaim, "data")).metadata.deletionTimestamp is not None
        assert await volume_phase(world, "disk") == "Bound"
        await world.client.delete(Pod, "user", "default")
        await world.until(volume_has(world, "disk", "gone"))
        with pytest.raises(NotFound):
            await world.get(PersistentVolumeClaim, "data")


async def _runs(world: Workloads, name: str) -> bool:
    return (await world.get(Pod, name)).status.phase == "Running"


async def test_a_claim_whose_volume_is_taken_away_is_lost() -> None:
    async with workloads() as world:
        await world.client.create(volume("disk"))
        await world.client.create(claim())
        await world.until(has(world, "data", "Bound"))
        await world.client.delete(PersistentVolume, "disk")
        await world.client.patch(PersistentVolume, "disk", {"metadata": {"finalizers": None}})
        await world.until(has(world, "data", "Lost"))


async def test_a_pod_may_bring_a_claim_of_its_own_which_goes_with_it() -> None:
    async with workloads() as world:
        await world.client.create(storage_class("fast"))
        template = {"metadata": {"labels": {"mine": "yes"}}, "spec": claim()["spec"]}
        await world.client.create(user(ephemeral={"volumeClaimTemplate": template}))
        await world.until(lambda: _exists(world, "user-data"))
        await world.until(has(world, "user-data", "Bound"))
        own = await world.get(PersistentVolumeClaim, "user-data")
        assert own.metadata.labels == {"mine": "yes"}
        assert [each.kind for each in own.metadata.ownerReferences] == ["Pod"]
        await world.client.delete(Pod, "user", "default")
        await world.until(volume_has(world, own.spec.volumeName, "gone"))


async def _exists(world: Workloads, name: str) -> bool:
    try:
        await world.get(PersistentVolumeClaim, name)
    except NotFound:
        return False
    return True


async def test_a_claim_that_is_another_ones_is_no_pods_own() -> None:
    async with workloads() as world:
        await world.client.create(claim("user-data"))
        await world.client.create(user(ephemeral={"volumeClaimTemplate": {"spec": claim()["spec"]}}))
        await settle()
        assert await world.events("FailedBinding") == [
            "PVC default/user-data was not created for pod default/user (pod is not owner)"
        ]


@pytest.mark.parametrize("seed", range(3))
async def test_in_chaos_every_claim_gets_one_volume(seed: int) -> None:
    world = Workloads()
    chaos = Chaos(seed, refuse_rate=0.1, hang_up_rate=0.1, lost_answer_rate=0.1)
    async with (
        world.with_node(),
        world.controlling(lambda inner: FaultyTransport(inner, chaos=chaos, clock=world.clock)),
    ):
        await world.client.create(storage_class("fast"))
        for number in range(6):
            await world.client.create(volume(f"v{number}") if number % 2 else claim(f"w{number}"))
            await world.client.create(claim(f"c{number}"))

        async def all_bound() -> bool:
            return all(each.status.phase == "Bound" for each in (await world.client.list(PersistentVolumeClaim)).items)

        await world.until(all_bound, seconds=300)
        claims = (await world.client.list(PersistentVolumeClaim)).items
        assert len({each.spec.volumeName for each in claims}) == len(claims)
