"""What every API server promises about pods and what owns them: binding, eviction, deletion, garbage collection."""

from __future__ import annotations

import pytest

from bosket.api.core import ConfigMap, Namespace, Pod
from bosket.api.object import ObjectMeta
from bosket.api.policy import PodDisruptionBudget
from bosket.kube.errors import Conflict, Forbidden, NotFound, TooManyRequests
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import Manifest, config_map, pod


async def phase(cluster: Cluster, name: str) -> str:
    return (await cluster.client.get(Pod, name, cluster.namespace)).status.phase


async def gone(cluster: Cluster, kind: type[ConfigMap] | type[Pod], name: str) -> bool:
    try:
        await cluster.client.get(kind, name, cluster.namespace)
    except NotFound:
        return True
    return False


async def test_a_bound_pod_runs_on_its_node(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    created = await _create(cluster, pod("p"))
    assert created.status.phase == "Pending"
    assert not created.spec.nodeName
    await cluster.client.bind(created, node)

    async def runs() -> Pod:
        found = await cluster.client.get(Pod, "p", cluster.namespace)
        assert found.status.phase == "Running"
        return found

    running = await cluster.eventually(runs)
    assert running.spec.nodeName == node
    conditions = {each.type: each.status for each in running.status.conditions}
    assert conditions["PodScheduled"] == "True"
    assert conditions["Ready"] == "True"


async def test_a_pod_is_bound_once(cluster: Cluster) -> None:
    first, second = await cluster.add_nodes(2)
    created = await _create(cluster, pod("p"))
    await cluster.client.bind(created, first)
    with pytest.raises(Conflict, match="already assigned to node"):
        await cluster.client.bind(created, second)
    assert (await cluster.client.get(Pod, "p", cluster.namespace)).spec.nodeName == first


async def test_a_binding_of_another_pod_of_the_same_name_is_refused(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    old = await _create(cluster, pod("p"))
    await cluster.client.delete(Pod, "p", cluster.namespace, grace_seconds=0)
    await _create(cluster, pod("p"))
    with pytest.raises(Conflict):
        await cluster.client.bind(old, node)
    assert not (await cluster.client.get(Pod, "p", cluster.namespace)).spec.nodeName


async def test_a_binding_of_a_version_that_the_pod_has_no_more_is_refused(cluster: Cluster) -> None:
    (node,) = await cluster.add_nodes(1)
    created = await _create(cluster, pod("p"))
    changed = await cluster.client.patch(Pod, "p", {"metadata": {"labels": {"x": "y"}}}, namespace=cluster.namespace)
    with pytest.raises(Conflict):
        await cluster.client.bind(created, node, resource_version=created.metadata.resourceVersion)
    assert not (await cluster.client.get(Pod, "p", cluster.namespace)).spec.nodeName
    await cluster.client.bind(created, node, resource_version=changed.metadata.resourceVersion)


async def test_a_binding_can_carry_annotations(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    created = await _create(cluster, pod("p", annotations={"kept": "1"}))
    await cluster.client.bind(created, node, annotations={"received-resource-type": "Regular"})
    found = await cluster.client.get(Pod, "p", cluster.namespace)
    assert found.metadata.annotations["received-resource-type"] == "Regular"
    assert found.metadata.annotations["kept"] == "1"


async def test_a_pod_ends_as_its_annotations_say(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    works = pod("works", nodeName=node, restartPolicy="Never", annotations={"bosket.dev/run-duration": "200ms"})
    fails = pod(
        "fails",
        nodeName=node,
        restartPolicy="Never",
        annotations={"bosket.dev/run-duration": "200ms", "bosket.dev/exit-code": "3"},
    )
    await _create(cluster, works)
    await _create(cluster, fails)

    async def both_ended() -> bool:
        return await phase(cluster, "works") == "Succeeded" and await phase(cluster, "fails") == "Failed"

    await cluster.eventually(both_ended)
    failed = await cluster.client.get(Pod, "fails", cluster.namespace)
    state = failed.status.containerStatuses[0].state
    assert state is not None
    assert state.terminated is not None
    assert state.terminated.exitCode == 3


async def test_a_pod_is_restarted_where_its_policy_asks_for_it(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    annotations = {"bosket.dev/run-duration": "200ms", "bosket.dev/exit-code": "1"}
    await _create(cluster, pod("again", nodeName=node, restartPolicy="OnFailure", annotations=annotations))

    async def restarted() -> bool:
        statuses = (await cluster.client.get(Pod, "again", cluster.namespace)).status.containerStatuses
        return bool(statuses) and statuses[0].restartCount >= 1

    await cluster.eventually(restarted)
    assert await phase(cluster, "again") == "Running"


async def test_a_pod_that_is_deleted_is_stopped_first(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    await _create(
        cluster,
        pod("p", nodeName=node, terminationGracePeriodSeconds=30, annotations={"bosket.dev/stop-delay": "500ms"}),
    )

    async def runs() -> bool:
        return await phase(cluster, "p") == "Running"

    await cluster.eventually(runs)
    await cluster.client.delete(Pod, "p", cluster.namespace)
    stopping = await cluster.client.get(Pod, "p", cluster.namespace)
    assert stopping.metadata.deletionTimestamp is not None
    assert stopping.metadata.deletionGracePeriodSeconds == 30

    async def is_gone() -> bool:
        return await gone(cluster, Pod, "p")

    await cluster.eventually(is_gone)


async def test_a_pod_that_never_ran_anywhere_is_deleted_at_once(cluster: Cluster) -> None:
    await _create(cluster, pod("p", terminationGracePeriodSeconds=30))
    await cluster.client.delete(Pod, "p", cluster.namespace)
    assert await gone(cluster, Pod, "p")


async def test_a_deletion_that_means_another_object_is_refused(cluster: Cluster) -> None:
    created = await _create(cluster, pod("p"))
    with pytest.raises(Conflict, match="UID"):
        await cluster.client.delete(Pod, "p", cluster.namespace, uid="00000000-0000-0000-0000-000000000000")
    await cluster.client.delete(Pod, "p", cluster.namespace, uid=created.metadata.uid)


async def test_finalizers_hold_an_object_until_the_last_is_removed(cluster: Cluster) -> None:
    await cluster.client.create(config_map("held", finalizers=["example.com/hold"]), cluster.namespace)
    await cluster.client.delete(ConfigMap, "held", cluster.namespace)
    held = await cluster.client.get(ConfigMap, "held", cluster.namespace)
    assert held.metadata.deletionTimestamp is not None
    await cluster.client.patch(ConfigMap, "held", {"metadata": {"finalizers": None}}, namespace=cluster.namespace)
    assert await gone(cluster, ConfigMap, "held")


async def test_what_is_owned_goes_with_its_owner(cluster: Cluster) -> None:
    owner = await cluster.client.create(config_map("owner"), cluster.namespace)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    await cluster.client.create(config_map("owned", ownerReferences=[reference]), cluster.namespace)
    await cluster.client.create(config_map("free"), cluster.namespace)
    await cluster.client.delete(ConfigMap, "owner", cluster.namespace, propagation="Background")

    async def owned_is_gone() -> bool:
        return await gone(cluster, ConfigMap, "owned")

    await cluster.eventually(owned_is_gone)
    assert not await gone(cluster, ConfigMap, "free")


async def test_what_is_orphaned_stays(cluster: Cluster) -> None:
    owner = await cluster.client.create(config_map("owner"), cluster.namespace)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    await cluster.client.create(config_map("owned", ownerReferences=[reference]), cluster.namespace)
    await cluster.client.delete(ConfigMap, "owner", cluster.namespace, propagation="Orphan")

    async def owned_has_no_owner() -> bool:
        found = await cluster.client.get(ConfigMap, "owned", cluster.namespace)
        return not found.metadata.ownerReferences and await gone(cluster, ConfigMap, "owner")

    await cluster.eventually(owned_has_no_owner)


async def test_an_eviction_waits_for_the_disruption_budget(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    for name in ("a", "b"):
        manifest = pod(name, nodeName=node)
        manifest["metadata"]["labels"] = {"app": "guarded"}
        await _create(cluster, manifest)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "guarded"}}},
    }
    await cluster.client.create(budget, cluster.namespace)

    async def budget_counts_both() -> bool:
        found = await cluster.client.get(PodDisruptionBudget, "budget", cluster.namespace)
        return found.status is not None and found.status.currentHealthy == 2

    await cluster.eventually(budget_counts_both)
    victim = await cluster.client.get(Pod, "a", cluster.namespace)
    with pytest.raises(TooManyRequests, match="Cannot evict pod as it would violate the pod's disruption budget"):
        await cluster.client.evict(victim)
    await cluster.client.patch(
        PodDisruptionBudget, "budget", {"spec": {"minAvailable": 1}}, namespace=cluster.namespace
    )

    async def evicted() -> bool:
        try:
            await cluster.client.evict(victim)
        except TooManyRequests:
            return False  # the budget's controller hasn't seen the change yet
        except NotFound:
            pass
        return await gone(cluster, Pod, "a")

    await cluster.eventually(evicted)
    assert not await gone(cluster, Pod, "b")


async def test_a_namespace_takes_all_that_is_in_it_along(cluster: Cluster) -> None:
    name = f"{cluster.namespace}-inner"
    await cluster.client.create(Namespace(metadata=ObjectMeta(name=name)))
    held = config_map("held", finalizers=["example.com/hold"])
    await cluster.client.create(held, name)
    await cluster.client.delete(Namespace, name)
    terminating = await cluster.client.get(Namespace, name)
    assert terminating.status is not None
    assert terminating.status.phase == "Terminating"
    with pytest.raises(Forbidden, match="because it is being terminated"):
        await cluster.client.create(config_map("late"), name)
    await cluster.client.patch(ConfigMap, "held", {"metadata": {"finalizers": None}}, namespace=name)

    async def namespace_is_gone() -> bool:
        try:
            await cluster.client.get(Namespace, name)
        except NotFound:
            return True
        return False

    await cluster.eventually(namespace_is_gone)


async def _create(cluster: Cluster, manifest: Manifest) -> Pod:
    name = (await cluster.client.create(manifest, cluster.namespace))["metadata"]["name"]
    return await cluster.client.get(Pod, name, cluster.namespace)
