"""What a fresh cluster has, and what doing it again changes."""

from __future__ import annotations

from bosket.api.apiextensions import CustomResourceDefinition
from bosket.api.core import Namespace
from bosket.api.crd import crd_manifests
from bosket.api.kai import Queue
from bosket.api.scheduling_k8s import PriorityClass
from bosket.embedded.bootstrap import bootstrap
from bosket.kube.client import PatchType
from tests.e2e.cluster import Cluster


async def test_a_fresh_cluster_has_what_kai_installs(cluster: Cluster) -> None:
    classes = {each.metadata.name: each.value for each in (await cluster.client.list(PriorityClass)).items}
    assert {name: value for name, value in classes.items() if not name.startswith("system-")} == {
        "train": 50,
        "build-preemptible": 75,
        "build": 100,
        "inference": 125,
    }
    queue = await cluster.client.get(Queue, "default-queue")
    assert queue.spec.parentQueue == "default-parent-queue"
    assert not (await cluster.client.get(Queue, queue.spec.parentQueue)).spec.parentQueue
    assert queue.spec.resources is not None
    for share in (queue.spec.resources.gpu, queue.spec.resources.cpu, queue.spec.resources.memory):
        assert (share.quota, share.limit, share.overQuotaWeight) == (0, -1, 1)
    await cluster.client.get(Namespace, "kai-scheduler")


async def test_every_definition_is_accepted_as_it_is_written(cluster: Cluster) -> None:
    """A server that drops a part of a schema it doesn't like would keep quiet about it but for its conditions."""
    for manifest in crd_manifests():
        found = await cluster.client.get(CustomResourceDefinition, manifest["metadata"]["name"])
        assert found.status is not None
        conditions = {each.type: each.status for each in found.status.conditions or ()}
        assert conditions.get("Established") == "True"
        assert conditions.get("NamesAccepted") == "True"
        assert conditions.get("NonStructuralSchema", "False") == "False"


async def test_doing_it_again_renews_definitions_and_leaves_queues_to_their_owners(cluster: Cluster) -> None:
    client = cluster.client
    name = "topologies.kai.scheduler"
    before = await client.get(CustomResourceDefinition, name)
    await client.patch(Queue, "default-queue", {"spec": {"displayName": "ours"}})
    await client.patch(
        CustomResourceDefinition,
        name,
        [{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns"}],
        type=PatchType.JSON,
    )
    try:
        await bootstrap(client)
        assert (await client.get(Queue, "default-queue")).spec.displayName == "ours"
        assert (await client.get(CustomResourceDefinition, name)).spec == before.spec
    finally:
        await client.patch(Queue, "default-queue", {"spec": {"displayName": None}})
