"""Pods that keep apart, that take ports, and that wait for what they refer to."""

from __future__ import annotations

from typing import Any

from bosket.api.core import ConfigMap, PersistentVolumeClaim, Pod
from bosket.api.object import ObjectMeta
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import Manifest, job, pod

SERVICES = ("podgrouper", "scheduler", "binder")
HOST = "kubernetes.io/hostname"


async def pods(cluster: Cluster, workload: str) -> list[Pod]:
    return (await cluster.client.list(Pod, cluster.namespace, labels=f"workload={workload}")).items


async def all_run(cluster: Cluster, workload: str, count: int) -> list[Pod]:
    found = await pods(cluster, workload)
    assert [each.status.phase for each in found] == ["Running"] * count
    return found


async def told(cluster: Cluster, name: str) -> str:
    """Why a pod isn't placed, as its condition says."""
    found = await cluster.client.get(Pod, name, cluster.namespace)
    conditions = [each for each in found.status.conditions if each.type == "PodScheduled"]
    assert [(each.status, each.reason) for each in conditions] == [("False", "Unschedulable")]
    return conditions[0].message


async def runs(cluster: Cluster, name: str) -> bool:
    return (await cluster.client.get(Pod, name, cluster.namespace)).status.phase == "Running"


def keeping_apart(workload: str) -> Manifest:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"workload": workload}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def with_container(manifest: Manifest, **fields: Any) -> Manifest:
    manifest["spec"]["containers"][0].update(fields)
    return manifest


async def test_a_gang_whose_members_keep_apart_gets_a_node_for_each_or_waits(cluster: Cluster) -> None:
    nodes = await cluster.add_nodes(2)
    await cluster.start_services(*SERVICES)
    await cluster.client.create(job("apart", pods=3, affinity=keeping_apart("apart")), cluster.namespace)

    async def waits() -> bool:
        found = await pods(cluster, "apart")
        reasons = [await told(cluster, each.metadata.name) for each in found]
        return len(found) == 3 and any("node(s) didn't match pod anti-affinity rules" in each for each in reasons)

    await cluster.eventually(waits)
    assert not any(each.spec.nodeName for each in await pods(cluster, "apart")), "a part of the gang was bound"
    nodes += await cluster.add_nodes(1)
    members = await cluster.eventually(lambda: all_run(cluster, "apart", 3))
    assert sorted(each.spec.nodeName for each in members) == sorted(nodes)


async def test_a_port_of_a_node_is_given_to_one_pod_at_a_time(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    await cluster.start_services(*SERVICES)
    port = {"containerPort": 8080, "hostPort": 8080}
    await cluster.client.create(with_container(pod("first"), ports=[port]), cluster.namespace)
    await cluster.eventually(lambda: runs(cluster, "first"))
    await cluster.client.create(with_container(pod("second"), ports=[port]), cluster.namespace)

    async def says_why() -> bool:
        return "node(s) didn't have free ports for the requested pod ports" in await told(cluster, "second")

    await cluster.eventually(says_why)
    await cluster.client.delete(Pod, "first", cluster.namespace)
    await cluster.eventually(lambda: runs(cluster, "second"))


async def test_a_pod_waits_for_its_config_map_and_its_claim_and_says_so(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    await cluster.start_services(*SERVICES)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    wanting = with_container(pod("waits", volumes=[volume]), envFrom=[{"configMapRef": {"name": "settings"}}])
    await cluster.client.create(wanting, cluster.namespace)

    async def says_why() -> bool:
        message = await told(cluster, "waits")
        assert "ConfigMap: Missing required configmaps: [settings]." in message
        return 'VolumeBinding: persistentvolumeclaim "data" not found.' in message

    await cluster.eventually(says_why)
    meta = ObjectMeta(name="settings", namespace=cluster.namespace)
    await cluster.client.create(ConfigMap(metadata=meta, data={"speed": "high"}))
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    await cluster.client.create(claim, cluster.namespace)

    async def waits_for_the_volume() -> bool:
        message = await told(cluster, "waits")
        assert "ConfigMap" not in message
        return "pod has unbound immediate PersistentVolumeClaims" in message

    await cluster.eventually(waits_for_the_volume)
    assert (await cluster.client.get(PersistentVolumeClaim, "data", cluster.namespace)).spec.volumeName == ""
