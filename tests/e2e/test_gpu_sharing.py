"""Shared GPUs from a BindRequest to the container's environment, and back to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bosket.api.core import ConfigMap, Pod
from bosket.api.kai import BindRequest, BindRequestSpec, ReceivedGPU
from bosket.api.keys import RESERVATION_NAMESPACE, RESERVED_GPU_ANNOTATION
from bosket.api.object import ObjectMeta, OwnerReference
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import pod, sharing_pod

Manifest = dict[str, Any]


async def decide(cluster: Cluster, manifest: Manifest, node: str, groups: Sequence[str], portion: str = "0.25") -> None:
    """Create the pod and what the scheduler would decide about it."""
    created = await cluster.client.create(manifest, cluster.namespace)
    name = created["metadata"]["name"]
    owner = OwnerReference(apiVersion="v1", kind="Pod", name=name, uid=created["metadata"]["uid"])
    await cluster.client.create(
        BindRequest(
            metadata=ObjectMeta(name=name, namespace=cluster.namespace, ownerReferences=(owner,)),
            spec=BindRequestSpec(
                podName=name,
                selectedNode=node,
                receivedResourceType="Fraction",
                receivedGPU=ReceivedGPU(count=len(groups), portion=portion),
                selectedGPUGroups=tuple(groups),
            ),
        )
    )


async def reservations(cluster: Cluster, node: str) -> list[Pod]:
    return (await cluster.client.list(Pod, RESERVATION_NAMESPACE, fields=f"spec.nodeName={node}")).items


async def running(cluster: Cluster, *names: str) -> None:
    async def all_run() -> bool:
        pods = [await cluster.client.get(Pod, name, cluster.namespace) for name in names]
        return all(each.status.phase == "Running" for each in pods)

    await cluster.eventually(all_run)


async def none_left(cluster: Cluster, node: str) -> None:
    async def nothing_is_there() -> bool:
        maps = (await cluster.client.list(ConfigMap, cluster.namespace)).items
        own = [each.metadata.name for each in maps if "shared-gpu" in each.metadata.name]
        return not await reservations(cluster, node) and not own

    await cluster.eventually(nothing_is_there)


async def visible_devices(cluster: Cluster, name: str) -> str:
    found = await cluster.client.get(ConfigMap, f"{name}-shared-gpu-0-evar", cluster.namespace)
    return found.data["NVIDIA_VISIBLE_DEVICES"]


async def test_four_quarters_share_one_gpu_with_one_reservation_which_goes_when_the_last_one_does(
    cluster: Cluster,
) -> None:
    (node,) = await cluster.add_nodes(1, gpus=2)
    await cluster.start_services("binder")
    names = ["a", "b", "c", "d"]
    for name in names:
        await decide(cluster, sharing_pod(name), node, ["one-gpu"])
    await running(cluster, *names)
    (reservation,) = await reservations(cluster, node)
    device = reservation.metadata.annotations[RESERVED_GPU_ANNOTATION]
    assert device.startswith("GPU-")
    for name in names:
        found = await cluster.client.get(Pod, name, cluster.namespace)
        assert found.metadata.labels["runai-gpu-group"] == "one-gpu"
        assert found.metadata.annotations["received-resource-type"] == "Fraction"
        assert await visible_devices(cluster, name) == device
    for name in names[:-1]:
        await cluster.client.delete(Pod, name, cluster.namespace, grace_seconds=0)
    # Another one joins: had the reservation gone, it would be another one now.
    await decide(cluster, sharing_pod("e"), node, ["one-gpu"])
    await running(cluster, "e")
    assert [each.metadata.uid for each in await reservations(cluster, node)] == [reservation.metadata.uid]
    for name in ("d", "e"):
        await cluster.client.delete(Pod, name, cluster.namespace, grace_seconds=0)
    await none_left(cluster, node)


async def test_parts_of_two_gpus_are_two_devices(cluster: Cluster) -> None:
    (node,) = await cluster.add_nodes(1, gpus=2)
    await cluster.start_services("binder")
    await decide(cluster, sharing_pod("a", devices=2), node, ["first", "second"])
    await running(cluster, "a")
    devices = {each.metadata.annotations[RESERVED_GPU_ANNOTATION] for each in await reservations(cluster, node)}
    assert len(devices) == 2
    assert set((await visible_devices(cluster, "a")).split(",")) == devices
    labels = (await cluster.client.get(Pod, "a", cluster.namespace)).metadata.labels
    assert (labels["runai-gpu-group/first"], labels["runai-gpu-group/second"]) == ("first", "second")
    await cluster.client.delete(Pod, "a", cluster.namespace, grace_seconds=0)
    await none_left(cluster, node)


async def test_a_pod_whose_reservation_somebody_deleted_is_deleted_too(cluster: Cluster) -> None:
    (node,) = await cluster.add_nodes(1, gpus=1)
    await cluster.start_services("binder")
    await decide(cluster, sharing_pod("a"), node, ["lost"])
    await running(cluster, "a")
    (reservation,) = await reservations(cluster, node)
    await cluster.client.delete(Pod, reservation.metadata.name, RESERVATION_NAMESPACE, grace_seconds=0)

    async def no_pods() -> bool:
        return not (await cluster.client.list(Pod, cluster.namespace)).items

    await cluster.eventually(no_pods)
    await none_left(cluster, node)


async def test_a_bind_that_fails_leaves_nothing_behind(cluster: Cluster) -> None:
    (node,) = await cluster.add_nodes(1, gpus=1)
    await cluster.start_services("binder")
    manifest = sharing_pod("a")
    # The bind itself is refused: what went before it has to be taken back.
    manifest["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    await decide(cluster, manifest, node, ["in-vain"])

    async def failed() -> bool:
        request = await cluster.client.get(BindRequest, "a", cluster.namespace)
        return request.status.phase == "Failed"

    await cluster.eventually(failed)
    await none_left(cluster, node)
    left = await cluster.client.get(Pod, "a", cluster.namespace)
    assert "runai-gpu-group" not in left.metadata.labels
    assert not left.spec.nodeName


async def test_the_scheduler_puts_four_quarters_on_one_gpu_and_a_whole_one_where_they_were(cluster: Cluster) -> None:
    (node,) = await cluster.add_nodes(1, gpus=1)
    queue = await cluster.add_queue(gpu_quota=1)
    await cluster.start_services("podgrouper", "scheduler", "binder")
    names = ["a", "b", "c", "d"]
    for name in names:
        await cluster.client.create(sharing_pod(name, queue=queue), cluster.namespace)
    await running(cluster, *names)
    (reservation,) = await reservations(cluster, node)
    device = reservation.metadata.annotations[RESERVED_GPU_ANNOTATION]
    assert {await visible_devices(cluster, name) for name in names} == {device}
    await cluster.client.create(pod("whole", queue=queue, gpus=1), cluster.namespace)
    for name in names:
        await cluster.client.delete(Pod, name, cluster.namespace, grace_seconds=0)
    await running(cluster, "whole")
    await none_left(cluster, node)


async def test_memory_is_a_larger_part_of_a_smaller_gpu(cluster: Cluster) -> None:
    (small,) = await cluster.add_nodes(1, gpus=1, labels={"nvidia.com/gpu.memory": "16384"})
    (large,) = await cluster.add_nodes(1, gpus=1, labels={"nvidia.com/gpu.memory": "81920"})
    queue = await cluster.add_queue(gpu_quota=2)
    await cluster.start_services("podgrouper", "scheduler", "binder")
    for name, node in (("on-small", small), ("on-large", large)):
        where = {"kubernetes.io/hostname": node}
        manifest = sharing_pod(name, memory_mib=12_000, queue=queue, nodeSelector=where)
        await cluster.client.create(manifest, cluster.namespace)
    await running(cluster, "on-small", "on-large")
    portions = [await portion(cluster, name) for name in ("on-small", "on-large")]
    assert portions == ["0.74", "0.15"]
    await cluster.client.create(sharing_pod("second", memory_mib=12_000, queue=queue), cluster.namespace)
    await running(cluster, "second")
    found = await cluster.client.get(Pod, "second", cluster.namespace)
    assert found.spec.nodeName == large, "there is no room for it on the small one"
    await cluster.client.create(sharing_pod("greedy", memory_mib=90_000, queue=queue), cluster.namespace)

    async def is_told_why() -> bool:
        waiting = await cluster.client.get(Pod, "greedy", cluster.namespace)
        return any("GPU memory" in condition.message for condition in waiting.status.conditions)

    await cluster.eventually(is_told_why)


async def portion(cluster: Cluster, name: str) -> str:
    """The part of a GPU in the environment of the pod's container."""
    found = await cluster.client.get(ConfigMap, f"{name}-shared-gpu-0", cluster.namespace)
    return found.data["GPU_PORTION"]


async def test_a_running_pod_that_takes_its_label_off_keeps_its_gpu_and_gets_the_label_back(cluster: Cluster) -> None:
    (node,) = await cluster.add_nodes(1, gpus=2)
    await cluster.start_services("binder")
    await decide(cluster, sharing_pod("a"), node, ["one-gpu"])
    await running(cluster, "a")
    (before,) = await reservations(cluster, node)
    changes = {"metadata": {"labels": {"runai-gpu-group": None}, "annotations": {"gpu-fraction": "0.01"}}}
    await cluster.client.patch(Pod, "a", changes, namespace=cluster.namespace)

    async def is_back() -> bool:
        found = (await cluster.client.get(Pod, "a", cluster.namespace)).metadata
        return found.labels.get("runai-gpu-group") == "one-gpu" and found.annotations["gpu-fraction"] == "0.25"

    await cluster.eventually(is_back)
    (after,) = await reservations(cluster, node)
    assert after.metadata.uid == before.metadata.uid
    await cluster.client.delete(Pod, "a", cluster.namespace, grace_seconds=0)
    await none_left(cluster, node)
