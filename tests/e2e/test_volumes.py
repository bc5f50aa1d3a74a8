"""Claims that wait for a pod's node: the scheduler chooses the node, the binder the volume, and both fit."""

from __future__ import annotations

from typing import Any

from bosket.api.core import (
    LocalVolumeSource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    Pod,
    VolumeNodeAffinity,
)
from bosket.api.object import ObjectMeta
from bosket.api.storage import CSINode, CSINodeDriver, CSINodeSpec, StorageClass, VolumeNodeResources
from bosket.embedded.controllers.simulated_storage import DRIVER
from bosket.kube.volume import NO_PROVISIONER, WAIT
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import Manifest, job, pod, pod_spec

SERVICES = ("podgrouper", "scheduler", "binder")
HOST = "kubernetes.io/hostname"


async def storage_class(cluster: Cluster, provisioner: str) -> str:
    """A class whose claims wait for a pod; its name, which no other test has."""
    name = f"{cluster.namespace}-{provisioner.partition('.')[0].replace('/', '-')}"
    meta = ObjectMeta(name=name)
    await cluster.add(
        StorageClass(metadata=meta, provisioner=provisioner, volumeBindingMode=WAIT, reclaimPolicy="Delete")
    )
    return name


def local_disk(cluster: Cluster, name: str, node: str, of: str) -> PersistentVolume:
    only = NodeSelectorRequirement(key=HOST, operator="In", values=(node,))
    required = NodeSelector(nodeSelectorTerms=(NodeSelectorTerm(matchExpressions=(only,)),))
    return PersistentVolume(
        metadata=ObjectMeta(name=f"{cluster.namespace}-{name}"),
        spec=PersistentVolumeSpec(
            storageClassName=of,
            capacity={"storage": "1Gi"},
            accessModes=("ReadWriteOnce",),
            persistentVolumeReclaimPolicy="Retain",
            local=LocalVolumeSource(path="/disk"),
            nodeAffinity=VolumeNodeAffinity(required=required),
        ),
    )


def claim(name: str, of: str, mode: str = "ReadWriteOnce") -> Manifest:
    spec = {"accessModes": [mode], "storageClassName": of, "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def user(name: str, **source: Any) -> Manifest:
    return pod(name, volumes=[{"name": "data", **(source or {"persistentVolumeClaim": {"claimName": name}})}])


async def running(cluster: Cluster, name: str) -> Pod:
    found = await cluster.client.get(Pod, name, cluster.namespace)
    assert found.status.phase == "Running"
    return found


async def volume_of(cluster: Cluster, name: str) -> PersistentVolume:
    found = await cluster.client.get(PersistentVolumeClaim, name, cluster.namespace)
    assert found.status.phase == "Bound"
    return await cluster.client.get(PersistentVolume, found.spec.volumeName)


async def told(cluster: Cluster, name: str, reason: str) -> bool:
    found = await cluster.client.get(Pod, name, cluster.namespace)
    return any(each.type == "PodScheduled" and reason in each.message for each in found.status.conditions)


def host_of(volume: PersistentVolume) -> str:
    """The one node that reaches the volume."""
    assert volume.spec.nodeAffinity is not None
    assert volume.spec.nodeAffinity.required is not None
    ((value,),) = [
        each.values for term in volume.spec.nodeAffinity.required.nodeSelectorTerms for each in term.matchExpressions
    ]
    return value


async def test_a_volume_is_made_on_the_node_that_was_chosen_for_the_pod(cluster: Cluster) -> None:
    await cluster.add_nodes(3)
    await cluster.start_services(*SERVICES)
    of = await storage_class(cluster, DRIVER)
    await cluster.client.create(claim("train", of), cluster.namespace)
    await cluster.client.create(user("train"), cluster.namespace)
    found = await cluster.eventually(lambda: running(cluster, "train"))
    assert host_of(await volume_of(cluster, "train")) == found.spec.nodeName

    template = {"spec": claim("", of)["spec"]}
    await cluster.client.create(user("own", ephemeral={"volumeClaimTemplate": template}), cluster.namespace)
    own = await cluster.eventually(lambda: running(cluster, "own"))
    made = await volume_of(cluster, "own-data")
    assert host_of(made) == own.spec.nodeName
    await cluster.client.delete(Pod, "own", cluster.namespace, grace_seconds=0)

    async def gone() -> bool:
        return made.metadata.name not in {
            each.metadata.name for each in (await cluster.client.list(PersistentVolume)).items
        }

    await cluster.eventually(gone)


async def test_pods_go_where_free_local_disks_are_each_to_one_of_its_own(cluster: Cluster) -> None:
    nodes = await cluster.add_nodes(3)
    of = await storage_class(cluster, NO_PROVISIONER)
    disks = [local_disk(cluster, f"disk-{number}", nodes[2 - number], of) for number in range(2)]
    await cluster.add(*disks)
    await cluster.start_services(*SERVICES)
    names = ["a", "b", "c"]
    for name in names:
        await cluster.client.create(claim(name, of), cluster.namespace)
        await cluster.client.create(user(name), cluster.namespace)

    async def two_run() -> list[Pod]:
        found = (await cluster.client.list(Pod, cluster.namespace)).items
        on = [each for each in found if each.status.phase == "Running"]
        assert len(on) == 2
        return on

    placed = await cluster.eventually(two_run)
    for each in placed:
        assert host_of(await volume_of(cluster, each.metadata.name)) == each.spec.nodeName
    assert {each.spec.nodeName for each in placed} == set(nodes[1:])
    (left,) = set(names) - {each.metadata.name for each in placed}
    await cluster.eventually(lambda: told(cluster, left, "didn't find available persistent volumes to bind"))
    await cluster.add(local_disk(cluster, "disk-2", nodes[0], of))
    found = await cluster.eventually(lambda: running(cluster, left))
    assert found.spec.nodeName == nodes[0]


async def test_a_gang_on_several_nodes_shares_a_volume_that_is_yet_to_be_made(cluster: Cluster) -> None:
    nodes = await cluster.add_nodes(2, gpus=8)
    await cluster.start_services(*SERVICES)
    of = await storage_class(cluster, DRIVER)
    await cluster.client.create(claim("data", of, "ReadWriteMany"), cluster.namespace)
    source = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    await cluster.client.create(job("train", pods=2, gpus=8, volumes=source), cluster.namespace)

    async def all_run() -> list[Pod]:
        found = (await cluster.client.list(Pod, cluster.namespace)).items
        assert [each.status.phase for each in found] == ["Running"] * 2
        return found

    members = await cluster.eventually(all_run)
    assert sorted(each.spec.nodeName for each in members) == sorted(nodes)


async def test_pods_of_a_stateful_set_keep_their_volumes_and_so_their_nodes(cluster: Cluster) -> None:
    await cluster.add_nodes(2, gpus=8)
    await cluster.start_services(*SERVICES)
    of = await storage_class(cluster, DRIVER)
    labels = {"app": "store"}
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "store"},
        "spec": {
            "replicas": 2,
            "serviceName": "store",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec(gpus=8)},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim("", of)["spec"]}],
        },
    }
    await cluster.client.create(manifest, cluster.namespace)
    first = await cluster.eventually(lambda: running(cluster, "store-0"))
    await cluster.eventually(lambda: running(cluster, "store-1"))
    assert host_of(await volume_of(cluster, "data-store-0")) == first.spec.nodeName
    await cluster.client.delete(Pod, "store-0", cluster.namespace, grace_seconds=0)

    async def again() -> Pod:
        found = await running(cluster, "store-0")
        assert found.metadata.uid != first.metadata.uid
        return found

    assert (await cluster.eventually(again)).spec.nodeName == first.spec.nodeName


async def test_a_node_attaches_no_more_volumes_than_it_can(cluster: Cluster) -> None:
    (node,) = await cluster.add_nodes(1)
    drivers = (CSINodeDriver(name=DRIVER, nodeID=node, allocatable=VolumeNodeResources(count=1)),)
    await cluster.add(CSINode(metadata=ObjectMeta(name=node), spec=CSINodeSpec(drivers=drivers)))
    of = await storage_class(cluster, DRIVER)
    await cluster.start_services(*SERVICES)
    for name in ("first", "second"):
        await cluster.client.create(claim(name, of), cluster.namespace)
    await cluster.client.create(user("first"), cluster.namespace)
    await cluster.eventually(lambda: running(cluster, "first"))
    await cluster.client.create(user("second"), cluster.namespace)
    await cluster.eventually(lambda: told(cluster, "second", "exceed max volume count"))
    await cluster.client.delete(Pod, "first", cluster.namespace, grace_seconds=0)
    await cluster.eventually(lambda: running(cluster, "second"))
