"""kubectl in the hands of those who run a cluster: drain, cordon, taint, roll out, delete, wait, who may what."""

from __future__ import annotations

import asyncio
import json

from bosket.api.apps import ReplicaSet
from bosket.api.core import Node, Pod
from bosket.api.object import ObjectMeta
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import config_map, deployment, job, pod


async def pods(cluster: Cluster) -> list[Pod]:
    return list((await cluster.client.list(Pod, cluster.namespace)).items)


async def running(cluster: Cluster, node: str, *, count: int) -> None:
    """A deployment whose pods are on that node and run."""
    await cluster.client.create(deployment("web", replicas=count, nodeName=node), cluster.namespace)
    await cluster.kubectl("rollout", "status", "deployment/web", "--timeout=120s")


async def test_drain_asks_the_disruption_budget_and_tries_again(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    manifest = pod("guarded", nodeName=node)
    manifest["metadata"]["labels"] = {"app": "guarded"}
    await cluster.client.create(manifest, cluster.namespace)
    await cluster.kubectl("wait", "--for=condition=Ready", "pod/guarded", "--timeout=120s")
    await cluster.kubectl("create", "pdb", "all", "--selector=app=guarded", "--min-available=1")
    await cluster.kubectl("wait", "--for=jsonpath={.status.currentHealthy}=1", "pdb/all", "--timeout=120s")
    unmanaged = await cluster.kubectl("drain", node, code=1)
    assert "cannot delete Pods that declare no controller (use --force to override)" in unmanaged
    refused = await cluster.kubectl("drain", node, "--force", "--timeout=2s", code=1)
    assert f"node/{node} already cordoned" in refused
    assert "Cannot evict pod as it would violate the pod's disruption budget." in refused
    assert [each.metadata.deletionTimestamp for each in await pods(cluster)] == [None]
    await cluster.kubectl("patch", "pdb", "all", "--type=merge", "-p", '{"spec": {"minAvailable": 0}}')
    await cluster.kubectl("wait", "--for=jsonpath={.status.disruptionsAllowed}=1", "pdb/all", "--timeout=120s")
    drained = await cluster.kubectl("drain", node, "--force", "--timeout=120s")
    assert "pod/guarded evicted" in drained
    assert f"node/{node} drained" in drained
    assert await pods(cluster) == []


async def test_cordon_and_taint_keep_pods_away(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    assert await cluster.kubectl("cordon", node) == f"node/{node} cordoned\n"
    assert await cluster.kubectl("cordon", node) == f"node/{node} already cordoned\n"
    assert "Ready,SchedulingDisabled" in await cluster.kubectl("get", "node", node)

    async def tainted() -> bool:
        taints = (await cluster.client.get(Node, node)).spec.taints
        return any(taint.key == "node.kubernetes.io/unschedulable" for taint in taints)

    await cluster.eventually(tainted)
    assert await cluster.kubectl("uncordon", node) == f"node/{node} uncordoned\n"
    assert await cluster.kubectl("taint", "node", node, "for=gpus:NoSchedule") == f"node/{node} tainted\n"
    again = await cluster.kubectl("taint", "node", node, "for=gpus:NoSchedule", code=1)
    assert "already has" in again
    assert "for=gpus:NoSchedule" in await cluster.kubectl("describe", "node", node)
    assert await cluster.kubectl("taint", "node", node, "for-") == f"node/{node} untainted\n"


async def test_rollouts_are_followed_undone_paused_and_begun_again(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    await running(cluster, node, count=1)
    await cluster.kubectl("set", "image", "deployment/web", "main=example.com/work:2")
    status = await cluster.kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    assert 'deployment "web" successfully rolled out' in status
    history = await cluster.kubectl("rollout", "history", "deployment/web")
    assert [line.split()[0] for line in history.splitlines() if line[:1].isdigit()] == ["1", "2"]
    assert "example.com/work:1" in await cluster.kubectl("rollout", "history", "deployment/web", "--revision=1")
    assert "rolled back" in await cluster.kubectl("rollout", "undo", "deployment/web")
    image = "jsonpath={.spec.template.spec.containers[0].image}"
    assert await cluster.kubectl("get", "deployment", "web", "-o", image) == "example.com/work:1"
    assert await cluster.kubectl("rollout", "pause", "deployment/web") == "deployment.apps/web paused\n"
    assert "paused" in await cluster.kubectl("rollout", "restart", "deployment/web", code=1)
    assert await cluster.kubectl("rollout", "resume", "deployment/web") == "deployment.apps/web resumed\n"
    assert await cluster.kubectl("rollout", "restart", "deployment/web") == "deployment.apps/web restarted\n"
    await cluster.kubectl("rollout", "status", "deployment/web", "--timeout=120s")


async def test_delete_in_the_foreground_returns_when_dependents_are_gone(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    await running(cluster, node, count=2)
    output = await cluster.kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=120s")
    assert 'deployment.apps "web" deleted' in output
    assert await pods(cluster) == []
    assert (await cluster.client.list(ReplicaSet, cluster.namespace)).items == []


async def test_delete_that_orphans_leaves_dependents_to_be_adopted(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    await running(cluster, node, count=2)
    before = {each.metadata.uid for each in await pods(cluster)}
    await cluster.kubectl("delete", "deployment", "web", "--cascade=orphan", "--timeout=120s")
    (left,) = (await cluster.client.list(ReplicaSet, cluster.namespace)).items
    assert not left.metadata.ownerReferences
    assert {each.metadata.uid for each in await pods(cluster)} == before
    # The same deployment again finds its old replica set and takes it back.
    await running(cluster, node, count=2)
    (adopted,) = (await cluster.client.list(ReplicaSet, cluster.namespace)).items
    assert adopted.metadata.uid == left.metadata.uid
    assert [owner.kind for owner in adopted.metadata.ownerReferences] == ["Deployment"]
    assert {each.metadata.uid for each in await pods(cluster)} == before


async def test_delete_in_the_background_does_not_wait_for_dependents(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    await running(cluster, node, count=1)
    await cluster.kubectl("delete", "deployment", "web", "--cascade=background")

    async def nothing_is_left() -> bool:
        return not await pods(cluster) and not (await cluster.client.list(ReplicaSet, cluster.namespace)).items

    await cluster.eventually(nothing_is_left)


async def test_delete_of_many_by_name_label_file_and_kind(cluster: Cluster) -> None:
    for name in "abcde":
        await cluster.client.create(config_map(name, labels={"set": "one" if name < "c" else "two"}), cluster.namespace)
    dry = await cluster.kubectl("delete", "cm", "a", "--dry-run=server")
    assert "server dry run" in dry
    assert 'configmap "e" deleted' in await cluster.kubectl("delete", "cm/e")
    await cluster.kubectl("delete", "cm", "-l", "set=one")
    assert await cluster.kubectl("get", "cm", "-l", "set", "-o", "name") == "configmap/c\nconfigmap/d\n"
    assert "NotFound" in await cluster.kubectl("delete", "cm", "a", code=1)
    assert await cluster.kubectl("delete", "cm", "a", "--ignore-not-found") == ""
    await cluster.kubectl("delete", "cm", "--all")
    assert "No resources found" in await cluster.kubectl("get", "cm", "-l", "set")


async def test_a_pod_can_be_deleted_by_force(cluster: Cluster) -> None:
    node = Node(metadata=ObjectMeta(name=f"{cluster.namespace}-silent"))  # no kubelet answers there
    await cluster.add(node)
    manifest = pod("p", nodeName=node.metadata.name, terminationGracePeriodSeconds=300)
    await cluster.client.create(manifest, cluster.namespace)
    await cluster.kubectl("delete", "pod", "p", "--wait=false")
    assert (await pods(cluster))[0].metadata.deletionGracePeriodSeconds == 300
    output = await cluster.kubectl("delete", "pod", "p", "--grace-period=0", "--force")
    assert 'pod "p" force deleted' in output
    assert await pods(cluster) == []


async def test_wait_knows_creation_deletion_conditions_and_values(cluster: Cluster) -> None:
    async with cluster.running_kubectl("wait", "--for=create", "cm/a", "--timeout=120s") as waiting:
        await cluster.client.create(config_map("a", finalizers=["example.com/hold"]), cluster.namespace)
        assert await asyncio.wait_for(waiting.wait(), 120) == 0
    async with cluster.running_kubectl("wait", "--for=jsonpath={.data.x}=1", "cm/a", "--timeout=120s") as waiting:
        await cluster.kubectl("patch", "cm", "a", "--type=merge", "-p", '{"data": {"x": "1"}}')
        assert await asyncio.wait_for(waiting.wait(), 120) == 0
    await cluster.kubectl("delete", "cm", "a", "--wait=false")
    async with cluster.running_kubectl("wait", "--for=delete", "cm/a", "--timeout=120s") as waiting:
        await cluster.kubectl("patch", "cm", "a", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
        assert await asyncio.wait_for(waiting.wait(), 120) == 0


async def test_who_may_do_what_can_be_asked(cluster: Cluster) -> None:
    assert await cluster.kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert await cluster.kubectl("auth", "can-i", "*", "*", "--all-namespaces") == "yes\n"
    robot = f"--as=system:serviceaccount:{cluster.namespace}:robot"
    assert await cluster.kubectl("auth", "can-i", "list", "pods", robot, code=1) == "no\n"
    await cluster.kubectl("create", "serviceaccount", "robot")
    await cluster.kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods")
    binding = ("rolebinding", "readers", "--role=reader", f"--serviceaccount={cluster.namespace}:robot")
    await cluster.kubectl("create", *binding)

    async def may_list() -> bool:
        async with cluster.running_kubectl("auth", "can-i", "list", "pods", robot) as process:
            return await process.wait() == 0

    await cluster.eventually(may_list)
    assert await cluster.kubectl("auth", "can-i", "delete", "pods", robot, code=1) == "no\n"
    assert await cluster.kubectl("auth", "can-i", "list", "pods", robot, "--all-namespaces", code=1) == "no\n"
    listed = await cluster.kubectl("auth", "can-i", "--list", robot)
    assert any(line.split()[:1] == ["pods"] and line.endswith("[get list]") for line in listed.splitlines())
    assert "No resources found" in await cluster.kubectl("get", "pods", robot)
    refusal = await cluster.kubectl("get", "secrets", robot, code=1)
    assert f'cannot list resource "secrets" in API group "" in the namespace "{cluster.namespace}"' in refusal
    who = json.loads(await cluster.kubectl("auth", "whoami", robot, "-o", "json"))
    assert who["status"]["userInfo"]["username"] == f"system:serviceaccount:{cluster.namespace}:robot"
    token = (await cluster.kubectl("create", "token", "robot")).strip()
    assert token.count(".") == 2


async def test_events_are_told_of_what_happened_to_one(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    await cluster.client.create(job("train", pods=1, run_duration="100ms", nodeName=node), cluster.namespace)
    await cluster.kubectl("wait", "--for=condition=Complete", "job/train", "--timeout=120s")

    async def told() -> bool:
        output = await cluster.kubectl("events", "--for", "job/train")
        return "SuccessfulCreate" in output and "Completed" in output

    await cluster.eventually(told)
    selected = await cluster.kubectl("get", "events", "--field-selector=involvedObject.kind=Job,reason=Completed")
    assert "Job completed" in selected
    assert "Completed" in await cluster.kubectl("describe", "job", "train")
