"""Dynamic resource allocation: devices that drivers offer, claimed by pods, given back when these are gone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bosket.api.core import Pod
from bosket.api.kai import BindRequest
from bosket.api.resource_k8s import DeviceClass, ResourceClaim, ResourceSlice
from bosket.kube.errors import NotFound
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import QUEUE_LABEL, Manifest, pod

SERVICES = ("podgrouper", "scheduler", "binder")
DRIVER = "gpu.example.com"
API = "resource.k8s.io/v1"


def requests(class_name: str, count: int = 1, **asked: Any) -> Manifest:
    return {
        "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": class_name, "count": count, **asked}}]}
    }


def claim(name: str, spec: Manifest, *, queue: str) -> Manifest:
    metadata = {"name": name, "labels": {QUEUE_LABEL: queue}}
    return {"apiVersion": API, "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def template(name: str, spec: Manifest) -> Manifest:
    return {"apiVersion": API, "kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": {"spec": spec}}


def claiming(name: str, **source: str) -> Manifest:
    made = pod(name, resourceClaims=[{"name": "device", **source}])
    made["spec"]["containers"][0]["resources"]["claims"] = [{"name": "device"}]
    return made


class Devices:
    """Slices and classes of one test; these have no namespace, so they are named after the test's."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.class_name = f"{cluster.namespace}-gpu"
        self._made: list[tuple[type[Any], str]] = []

    async def offer(self, node: str, *models: str) -> None:
        name = f"{self.cluster.namespace}-{node}"
        capacity = {"memory": {"value": "80Gi"}}
        devices = [
            {"name": f"gpu-{number}", "attributes": {"model": {"string": model}}, "capacity": capacity}
            for number, model in enumerate(models)
        ]
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": devices}
        await self.cluster.client.create(
            {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
        )
        self._made.append((ResourceSlice, name))

    async def add_class(self, **spec: Any) -> None:
        selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
        await self.cluster.client.create(
            {
                "apiVersion": API,
                "kind": "DeviceClass",
                "metadata": {"name": self.class_name},
                "spec": {"selectors": selectors, **spec},
            }
        )
        self._made.append((DeviceClass, self.class_name))

    async def remove(self) -> None:
        for kind, name in self._made:
            await self.cluster.client.delete(kind, name)


@asynccontextmanager
async def devices(cluster: Cluster) -> AsyncIterator[Devices]:
    found = Devices(cluster)
    try:
        yield found
    finally:
        await found.remove()


async def running(cluster: Cluster, name: str) -> Pod:
    found = await cluster.client.get(Pod, name, cluster.namespace)
    assert found.status.phase == "Running"
    return found


async def allocated(cluster: Cluster, name: str, *users: str) -> list[str]:
    """The claim's devices; it is reserved for these pods."""
    found = await cluster.client.get(ResourceClaim, name, cluster.namespace)
    assert found.status.allocation is not None, f"{name} has no devices"
    assert sorted(each.name for each in found.status.reservedFor) == sorted(users)
    return [f"{each.pool}/{each.device}" for each in found.status.allocation.devices.results]


async def test_a_claim_from_a_template_gets_a_device_and_goes_with_its_pod(cluster: Cluster) -> None:
    async with devices(cluster) as offered:
        (node,) = await cluster.add_nodes(1, gpus=0)
        await offered.add_class()
        await offered.offer(node, "A100", "H100")
        await cluster.start_services(*SERVICES)
        wanted = requests(
            offered.class_name,
            selectors=[{"cel": {"expression": f'device.attributes["{DRIVER}"].model == "H100"'}}],
        )
        await cluster.client.create(template("one", wanted), cluster.namespace)
        await cluster.client.create(claiming("first", resourceClaimTemplateName="one"), cluster.namespace)
        first = await cluster.eventually(lambda: running(cluster, "first"))
        (made,) = first.status.resourceClaimStatuses
        assert made.resourceClaimName is not None
        assert await allocated(cluster, made.resourceClaimName, "first") == [f"{node}/gpu-1"]

        await cluster.client.create(claiming("second", resourceClaimTemplateName="one"), cluster.namespace)

        async def says_why() -> bool:
            found = await cluster.client.get(Pod, "second", cluster.namespace)
            said = [each.message for each in found.status.conditions if each.type == "PodScheduled"]
            return any("node(s) can't allocate all resource claims" in each for each in said)

        await cluster.eventually(says_why)
        await cluster.client.delete(Pod, "first", cluster.namespace)
        second = await cluster.eventually(lambda: running(cluster, "second"))
        (its,) = second.status.resourceClaimStatuses
        assert its.resourceClaimName is not None
        assert await allocated(cluster, its.resourceClaimName, "second") == [f"{node}/gpu-1"]
        with pytest.raises(NotFound):
            await cluster.client.get(ResourceClaim, made.resourceClaimName, cluster.namespace)


async def test_pods_share_a_named_claim_and_the_last_one_frees_it(cluster: Cluster) -> None:
    async with devices(cluster) as offered:
        nodes = await cluster.add_nodes(2, gpus=0)
        await offered.add_class()
        for node in nodes:
            await offered.offer(node, "A100")
        await cluster.start_services(*SERVICES)
        shared = claim("shared", requests(offered.class_name), queue="default-queue")
        await cluster.client.create(shared, cluster.namespace)
        for name in ("a", "b"):
            await cluster.client.create(claiming(name, resourceClaimName="shared"), cluster.namespace)
        a = await cluster.eventually(lambda: running(cluster, "a"))
        b = await cluster.eventually(lambda: running(cluster, "b"))
        assert a.spec.nodeName == b.spec.nodeName, "one device was given to pods of two nodes"
        assert await allocated(cluster, "shared", "a", "b") == [f"{a.spec.nodeName}/gpu-0"]

        await cluster.client.delete(Pod, "a", cluster.namespace)

        async def is_left_to_b() -> bool:
            return await allocated(cluster, "shared", "b") == [f"{a.spec.nodeName}/gpu-0"]

        await cluster.eventually(is_left_to_b)
        await cluster.client.delete(Pod, "b", cluster.namespace)

        async def is_free() -> bool:
            found = await cluster.client.get(ResourceClaim, "shared", cluster.namespace)
            return found.status.allocation is None and not found.status.reservedFor

        await cluster.eventually(is_free)


async def test_an_extended_resource_is_served_by_devices_where_nodes_have_none_of_it(cluster: Cluster) -> None:
    async with devices(cluster) as offered:
        (node,) = await cluster.add_nodes(1, gpus=0)
        resource = f"example.com/{offered.class_name}"
        await offered.add_class(extendedResourceName=resource)
        await offered.offer(node, "A100")
        await cluster.start_services(*SERVICES)
        asking = pod("asking")
        for amounts in asking["spec"]["containers"][0]["resources"].values():
            amounts[resource] = "1"
        await cluster.client.create(asking, cluster.namespace)

        async def has_a_claim() -> Pod:
            found = await cluster.client.get(Pod, "asking", cluster.namespace)
            assert found.spec.nodeName == node
            return found

        found = await cluster.eventually(has_a_claim)
        claims = (await cluster.client.list(ResourceClaim, cluster.namespace)).items
        assert [each.metadata.ownerReferences[0].uid for each in claims] == [found.metadata.uid]
        assert await allocated(cluster, claims[0].metadata.name, "asking") == [f"{node}/gpu-0"]
        status = found.status.extendedResourceClaimStatus
        # Kubernetes keeps this field only where the feature is on.
        assert status is None or status.resourceClaimName == claims[0].metadata.name


async def test_what_is_wrong_with_a_claim_is_said_and_others_go_on(cluster: Cluster) -> None:
    async with devices(cluster) as offered:
        (node,) = await cluster.add_nodes(1, gpus=0)
        await offered.add_class()
        await offered.offer(node, "A100")
        await cluster.start_services(*SERVICES)
        await cluster.client.create(template("wrong", requests("no-such-class")), cluster.namespace)
        await cluster.client.create(template("right", requests(offered.class_name)), cluster.namespace)
        await cluster.client.create(claiming("lost", resourceClaimName="nowhere"), cluster.namespace)
        await cluster.client.create(claiming("odd", resourceClaimTemplateName="wrong"), cluster.namespace)
        await cluster.client.create(claiming("good", resourceClaimTemplateName="right"), cluster.namespace)
        await cluster.eventually(lambda: running(cluster, "good"))

        async def says(name: str, text: str) -> bool:
            found = await cluster.client.get(Pod, name, cluster.namespace)
            said = [each.message for each in found.status.conditions if each.type == "PodScheduled"]
            assert any(text in each for each in said), said
            return True

        await cluster.eventually(lambda: says("lost", f"ResourceClaim {cluster.namespace}/nowhere was not found"))
        await cluster.eventually(lambda: says("odd", 'deviceClassName: DeviceClass "no-such-class" was not found'))
        assert not [
            each
            for each in (await cluster.client.list(BindRequest, cluster.namespace)).items
            if each.metadata.name in ("lost", "odd")
        ]
