"""Grove's services as the chart installs them: its objects applied, its Deployments' programs run as their accounts.

Sets go through the webhooks that the services registered, and what the operator makes is protected from other accounts.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest
import yaml

from bosket.api.admission import ValidatingWebhookConfiguration
from bosket.api.apps import Deployment
from bosket.api.core import Namespace, Pod, Secret, Service, ServiceAccount
from bosket.api.grove import PodClique, PodCliqueSet
from bosket.api.grove.naming import PART_OF_LABEL
from bosket.api.keys import SYSTEM_NAMESPACE
from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.rbac import Role
from bosket.install.chart import manifests
from bosket.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from tests.controlplane.plane import free_ports
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import pod_spec
from tests.e2e.operated import Kubelet

TOGETHER = "grove-backends"
#: The account that may tell KAI alone about gangs.
APART = "grove-backend-kai"
PLACED_BY = ("podgroup-controller", "queue-controller", "scheduler", "binder")
PATIENCE_SECONDS = 120.0
#: What the deletion of an installation leaves to others.
ROLES = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
AUTOSCALER = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"


@pytest.fixture
def backends(request: pytest.FixtureRequest) -> str:
    """The deployment that tells schedulers about gangs."""
    return str(getattr(request, "param", TOGETHER))


@pytest.fixture
async def installed(cluster: Cluster, backends: str) -> AsyncIterator[Cluster]:
    """The cluster with Grove's services; of the chart's objects those that Grove needs."""
    made: list[dict[str, Any]] = []
    async with AsyncExitStack() as stack:
        stack.push_async_callback(uninstall, cluster, made)
        for each in grove_objects(together=backends == TOGETHER):
            with suppress(AlreadyExists):
                await cluster.client.create(each)
                made.append(each)
        (node,) = await cluster.add_nodes(1, gpus=0)
        kubelet = Kubelet(cluster, stack)
        (port,) = free_ports(1)
        url = f"--grove-webhook-url=https://127.0.0.1:{port}"
        replicas = [
            await kubelet.start("grove-admission", url, changed=lambda text: at_port(text, port)),
            await kubelet.start("grove-operator"),
            await kubelet.start(backends),
        ]

        async def all_are_ready() -> bool:
            await bind_pods(cluster, node)
            deployments = (await cluster.client.list(Deployment, SYSTEM_NAMESPACE, labels="app")).items
            grove = {each.metadata.name: each.status.readyReplicas for each in deployments if is_groves(each)}
            assert grove == {"grove-admission": 1, backends: 1, "grove-operator": 1}
            webhooks = (await cluster.client.list(ValidatingWebhookConfiguration)).items
            assert [each.metadata.name for each in webhooks if not each.webhooks] == []
            return all([await each.is_ready() for each in replicas])

        await cluster.eventually(all_are_ready, PATIENCE_SECONDS)
        yield cluster


def grove_objects(*, together: bool) -> list[dict[str, Any]]:
    values = {
        "grove": {
            "enabled": True,
            "replicaCount": 1,
            "backends": {"together": together, "apart": {"default": False}},
            "config": {"authorizer": {"enabled": True}, "scheduler": {"defaultProfileName": "kai-scheduler"}},
        }
    }
    without = manifests({}, SYSTEM_NAMESPACE, definitions=False)
    return [each for each in manifests(values, SYSTEM_NAMESPACE, definitions=False) if each not in without]


def at_port(text: str, port: int) -> str:
    """The configuration for a process outside of pods."""
    document = json.loads(text)
    document["server"]["webhooks"] |= {"bindAddress": "127.0.0.1", "port": port}
    return json.dumps(document)


def is_groves(deployment: Deployment) -> bool:
    return deployment.spec.template.metadata.labels.get(PART_OF_LABEL) == "grove"


async def bind_pods(cluster: Cluster, node: str) -> None:
    for pod in (await cluster.client.list(Pod, SYSTEM_NAMESPACE, labels=f"{PART_OF_LABEL}=grove")).items:
        if not pod.spec.nodeName:
            with suppress(Conflict, NotFound):
                await cluster.client.bind(pod, node)


async def uninstall(cluster: Cluster, made: list[dict[str, Any]]) -> None:
    """Roles stay, which other tests count on."""
    for each in reversed(made):
        if each["kind"] not in ROLES:
            group, _, version = each["apiVersion"].rpartition("/")
            plural = f"{each['kind'].lower()}s".replace("policys", "policies")
            base = f"/apis/{group}/{version}" if group else f"/api/{version}"
            namespace = each["metadata"].get("namespace")
            path = f"{base}/namespaces/{namespace}/{plural}" if namespace else f"{base}/{plural}"
            await cluster.client.raw("DELETE", f"{path}/{each['metadata']['name']}")
    with suppress(NotFound):
        await cluster.client.delete(Secret, "grove-webhook-server-cert", SYSTEM_NAMESPACE)
    await cluster.client.delete_collection(Pod, SYSTEM_NAMESPACE, labels=f"{PART_OF_LABEL}=grove", grace_seconds=0)


def a_set(namespace: str, queue: str) -> dict[str, Any]:
    """As a user writes one: what defaults say is left out. Workers start after their leader."""
    cliques = [
        {
            "name": name,
            "labels": {"kai.scheduler/queue": queue},
            "spec": {"roleName": name, "replicas": count, "podSpec": pod_spec(gpus=1, scheduler="")},
        }
        for name, count in (("leader", 1), ("worker", 2))
    ]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "s", "namespace": namespace},
        "spec": {
            "replicas": 1,
            "template": {"cliqueStartupType": "CliqueStartupTypeInOrder", "cliques": cliques},
        },
    }


async def start(cluster: Cluster) -> str:
    await cluster.add_nodes(1, gpus=8)
    parent = await cluster.add_queue(gpu_quota=8)
    queue = await cluster.add_queue(parent=parent, gpu_quota=8)
    await cluster.start_services(*PLACED_BY)
    return queue


async def until_running(cluster: Cluster, namespace: str, count: int) -> None:
    async def all_run() -> bool:
        found = (await cluster.client.list(Pod, namespace)).items
        assert [each.status.phase for each in found] == ["Running"] * count
        return True

    await cluster.eventually(all_run, PATIENCE_SECONDS)


async def test_a_set_goes_through_the_webhooks_and_runs_and_other_accounts_cannot_change_its_children(
    installed: Cluster,
) -> None:
    queue = await start(installed)
    wrong = a_set(installed.namespace, queue)
    wrong["spec"]["template"]["cliques"][1]["spec"]["roleName"] = "leader"
    told = await installed.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(wrong), code=1)
    assert 'admission webhook "pcs.validating.webhooks.grove.io" denied the request' in told
    await installed.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(a_set(installed.namespace, queue)))
    await until_running(installed, installed.namespace, 3)
    owner = await installed.client.get(PodCliqueSet, "s", installed.namespace)
    assert owner.spec.template.terminationDelay == "4h0m0s"  # the defaulting webhook's
    await other_accounts_are_refused(installed)
    await those_who_may_are_let_through(installed)
    await installed.client.delete(PodCliqueSet, "s", installed.namespace)
    await nothing_is_left(installed)


async def other_accounts_are_refused(cluster: Cluster) -> None:
    """Also administrators: what they change, the operator would change back."""
    namespace = cluster.namespace
    label: dict[str, Any] = {"metadata": {"labels": {"mine": "true"}}}
    pod = (await cluster.client.list(Pod, namespace)).items[0]
    for kind, name in (
        (PodClique, "s-0-leader"),
        (Pod, pod.metadata.name),
        (Service, "s-0"),
        (ServiceAccount, "s"),
        (Role, "grove.io:pcs:s"),
    ):
        with pytest.raises(Forbidden, match="may be changed by Grove's operator only"):
            await cluster.client.patch(kind, name, label, namespace=namespace)
        if kind is not Pod:
            with pytest.raises(Forbidden, match="may be deleted by Grove's operator only"):
                await cluster.client.delete(kind, name, namespace)


async def those_who_may_are_let_through(cluster: Cluster) -> None:
    """An exempt account; anybody who scales, and who deletes a pod, which comes again."""
    namespace = cluster.namespace
    await cluster.client.raw(
        "PATCH",
        f"/apis/grove.io/v1alpha1/namespaces/{namespace}/podcliques/s-0-leader",
        body={"metadata": {"labels": {"mine": "true"}}},
        headers={
            "Content-Type": "application/merge-patch+json",
            "Impersonate-User": AUTOSCALER,
            "Impersonate-Group": "system:masters",
        },
    )
    (victim,) = (await cluster.client.list(Pod, namespace, labels="grove.io/podclique=s-0-leader")).items
    await cluster.client.delete(Pod, victim.metadata.name, namespace, grace_seconds=0)
    await cluster.client.scale(PodClique, "s-0-worker", namespace, 3)
    await until_running(cluster, namespace, 4)


async def nothing_is_left(cluster: Cluster) -> None:
    async def all_is_gone() -> bool:
        kinds: tuple[type[KubeObject], ...] = (PodCliqueSet, PodClique, Pod, Service, Role, Secret)
        found = [each for kind in kinds for each in (await cluster.client.list(kind, cluster.namespace)).items]
        assert not found, [each.metadata.name for each in found]
        return True

    await cluster.eventually(all_is_gone, PATIENCE_SECONDS)


@pytest.mark.parametrize("backends", [APART], indirect=True)
async def test_a_namespace_goes_with_its_sets_though_they_are_protected(installed: Cluster) -> None:
    queue = await start(installed)
    name = f"{installed.namespace}-other"
    await installed.add(Namespace(metadata=ObjectMeta(name=name)))

    async def pods_are_accepted() -> bool:
        await installed.client.get(ServiceAccount, "default", name)
        return True

    await installed.eventually(pods_are_accepted)
    await installed.client.create(a_set(name, queue))
    await until_running(installed, name, 3)
    await installed.client.delete(Namespace, name)

    async def is_gone() -> bool:
        return name not in [each.metadata.name for each in (await installed.client.list(Namespace)).items]

    await installed.eventually(is_gone, PATIENCE_SECONDS)
