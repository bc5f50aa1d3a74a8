"""Everyday commands on a live cluster: for its administrator, and with a token that may read one namespace only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bosket.api.apiextensions import CustomResourceDefinition
from bosket.api.core import Event, Namespace, ObjectReference, Pod, ServiceAccount
from bosket.api.kai import PodGroup
from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.rbac import PolicyRule, Role, RoleBinding, RoleRef, Subject
from bosket.api.time import format_time
from bosket.cli.main import main
from bosket.embedded.cluster import EmbeddedCluster, Listen
from bosket.embedded.kubeconfig import admin_kubeconfig, write_kubeconfig
from bosket.embedded.node import NodeShape
from bosket.kube.client import Client
from bosket.kube.http import HttpTransport
from bosket.kube.kubeconfig import connect, load
from bosket.kube.transport import Request
from bosket.testing.build import job, queue
from bosket.testing.cluster import NOW
from bosket.tools.live_cluster import LiveClusterError, read_cluster
from tests.cli.everyday import as_terminal

RULES = (
    PolicyRule(
        verbs=("get", "list", "watch"),
        apiGroups=("", "scheduling.run.ai"),
        resources=("pods", "podgroups", "events"),
    ),
)


@dataclass
class Live:
    """A cluster with two namespaces, and kubeconfigs for those who look at it."""

    client: Client
    admin: Path
    tenant: Path
    capsys: pytest.CaptureFixture[str]

    async def said(self, kubeconfig: Path, *arguments: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of a command."""
        self.capsys.readouterr()
        code = await asyncio.to_thread(main, [*arguments, "--kubeconfig", str(kubeconfig)])
        return code, *self.capsys.readouterr()

    async def data(self, kubeconfig: Path, *arguments: str) -> Any:
        code, out, err = await self.said(kubeconfig, *arguments, "--json")
        assert code == 0, err
        return json.loads(out)


def waiting_because(group: KubeObject, sentence: str) -> KubeObject:
    """The pod group, with what the scheduler has written on it."""
    assert isinstance(group, PodGroup)
    status = {"schedulingConditions": [{"type": "UnschedulableOnNodePool", "message": f"{sentence}\nand more"}]}
    return msgspec.convert({**msgspec.to_builtins(group), "status": status}, PodGroup)


async def token_for(kubeconfig: Path, namespace: str, account: str) -> str:
    transport = HttpTransport(load(kubeconfig))
    try:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        headers = {"Content-Type": "application/json"}
        body = b'{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}'
        answer = await transport.request(Request("POST", path, headers=headers, body=body))
        token: str = json.loads(answer.body)["status"]["token"]
        return token
    finally:
        await transport.aclose()


@asynccontextmanager
async def live(folder: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Live]:
    """`ml` has a job that runs and one that waits; so has `secret`, which is none of the tenant's business."""
    kubeconfig, tenant = folder / "admin", folder / "tenant"
    shape = NodeShape(gpus=8)
    async with EmbeddedCluster(nodes=2, shape=shape, services=(), listen=Listen(kubeconfig=kubeconfig)) as cluster:
        await cluster.wait_ready()
        client = cluster.client()
        for name in ("ml", "secret"):
            await client.create(Namespace(metadata=ObjectMeta(name=name)))
            await client.create(queue(f"team-{name}", quota=4))
            runs = job("runs", 2, gpus=2, on="node-000", queue=f"team-{name}", namespace=name)
            waits = job("waits", 1, gpus=16, queue=f"team-{name}", namespace=name)
            for each in (*runs, *waits):
                made = await client.create(each)
                if isinstance(each, Pod) and each.spec.nodeName:
                    await client.patch(
                        Pod, made.metadata.name, {"status": {"phase": "Running"}}, namespace=name, subresource="status"
                    )
            group = waiting_because(await client.get(PodGroup, "waits", name), "needs 16 GPUs on one node")
            await client.patch(
                PodGroup, "waits", {"status": msgspec.to_builtins(group)["status"]}, namespace=name,
                subresource="status",
            )  # fmt: skip
            await client.create(
                Event(
                    metadata=ObjectMeta(name=f"e-{name}", namespace=name),
                    involvedObject=ObjectReference(kind="Pod", name="runs-0", namespace=name),
                    reason="Scheduled",
                    message=f"Successfully assigned pod {name}/runs-0 to node node-000 at node-pool default",
                    firstTimestamp=format_time(NOW),
                )
            )
        await client.create(ServiceAccount(metadata=ObjectMeta(name="tenant", namespace="ml")))
        await client.create(Role(metadata=ObjectMeta(name="reads", namespace="ml"), rules=RULES))
        await client.create(
            RoleBinding(
                metadata=ObjectMeta(name="reads", namespace="ml"),
                subjects=(Subject(kind="ServiceAccount", name="tenant", namespace="ml"),),
                roleRef=RoleRef(apiGroup="rbac.authorization.k8s.io", kind="Role", name="reads"),
            )
        )
        config = load(kubeconfig)
        assert config.certificate_authority is not None
        token = await token_for(kubeconfig, "ml", "tenant")
        of_tenant = admin_kubeconfig(config.server, config.certificate_authority, token)
        of_tenant["contexts"][0]["context"]["namespace"] = "ml"
        write_kubeconfig(tenant, of_tenant)
        yield Live(client, kubeconfig, tenant, capsys)


async def test_an_administrator_sees_everything_and_each_sentence_is_decided_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with live(tmp_path, capsys) as cluster:
        report = await cluster.data(cluster.admin, "queues")
        used = {each["name"]: each["resources"]["gpu"]["used"] for each in report["queues"]}
        assert (used["team-ml"], used["team-secret"], report["total"]["gpu"]) == (4, 4, 16)
        assert report["unknown"] == []
        jobs = await cluster.data(cluster.admin, "jobs")
        assert jobs["decided"] is True
        assert {(each["namespace"], each["name"]) for each in jobs["jobs"]} == {
            (namespace, name) for namespace in ("ml", "secret") for name in ("runs", "waits")
        }
        assert all("needs 16 GPUs" in each["sentence"] for each in jobs["jobs"] if each["name"] == "waits")
        nodes = await cluster.data(cluster.admin, "nodes")
        assert (nodes["gpus"], nodes["free"]) == (16, 8)
        order = await cluster.data(cluster.admin, "order")
        assert order["of"] == 2
        events = await cluster.data(cluster.admin, "events", "--since", "2025-01-01T00:00:00Z")
        assert {each["namespace"] for each in events["events"]} == {"ml", "secret"}


async def test_a_tenant_sees_what_its_rights_show_and_is_told_what_they_do_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with live(tmp_path, capsys) as cluster:
        code, out, err = await cluster.said(cluster.tenant, "jobs")
        assert code == 0
        assert "secret" not in out
        assert "ml/waits" in out
        assert "needs 16 GPUs on one node" in out, "the scheduler's own sentence, from the pod group"
        assert "and more" not in out
        assert err.count("\n") == 1
        assert "only namespace ml is shown, because your rights end there" in err

        report = await cluster.data(cluster.tenant, "queues")
        (only,) = report["queues"]
        assert (only["name"], only["resources"]["gpu"]["used"], only["waitingJobs"]) == ("team-ml", 4, 1)
        assert only["resources"]["gpu"]["fairShare"] is None
        assert report["unknown"] == ["Node", "Queue", "Pod", "PodGroup"]
        _, out, err = await cluster.said(cluster.tenant, "queues")
        assert "team-ml" in out
        assert "?" in out, "what isn't known is not called 0"
        assert "your rights don't show nodes and queues" in err

        nodes = await cluster.data(cluster.tenant, "nodes")
        (rack,) = nodes["racks"]
        assert [(each["name"], each["gpus"]) for each in rack["nodes"]] == [("node-000", None)]
        assert [(each["job"], each["gpus"]) for each in rack["nodes"][0]["holdings"]] == [("ml/runs", 4)]

        events = await cluster.data(cluster.tenant, "events", "--since", "2025-01-01T00:00:00Z")
        assert [(each["namespace"], each["job"], each["nodes"]) for each in events["events"]] == [
            ("ml", "runs", ["node-000"])
        ]

        code, out, err = await cluster.said(cluster.tenant, "explain", "waits")
        assert code == 0
        assert out.startswith("ml/waits, pending: needs 16 GPUs on one node\n")
        assert "your rights don't show enough" in out
        answer = await cluster.data(cluster.tenant, "explain", "waits")
        assert (answer["verdict"], answer["complete"]) == (None, False)
        code, out, err = await cluster.said(cluster.tenant, "explain", "--all")
        assert (code, out) == (1, "")
        assert "see bosket jobs" in err

        code, out, err = await cluster.said(cluster.tenant, "order")
        assert (code, out) == (1, "")
        assert "whose turn it is can't be known without all of: Node, Queue, Pod, PodGroup" in err

        code, out, err = await cluster.said(cluster.tenant, "eta", "waits")
        assert (code, out) == (1, "")
        assert "your rights don't show every Node and Queue and PodGroup and Pod of the cluster" in err
        assert "an estimate on a part of it would be wrong" in err


@pytest.mark.parametrize("columns", [80, 160])
async def test_what_a_tenant_sees_fits_its_terminal(
    columns: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with live(tmp_path, capsys) as cluster:
        as_terminal(monkeypatch, columns, colour=False)
        for command in (["jobs"], ["queues"], ["nodes"], ["events", "--since", "2025-01-01T00:00:00Z"]):
            code, out, err = await cluster.said(cluster.tenant, *command)
            assert code == 0, err
            assert max(map(len, out.splitlines())) <= columns
            assert "\x1b[" not in out


async def test_credentials_that_are_not_accepted_are_said_in_plain_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with live(tmp_path, capsys) as cluster:
        cluster.tenant.write_text(cluster.tenant.read_text().replace('"token": "', '"token": "x'))
        code, out, err = await cluster.said(cluster.tenant, "jobs")
        assert (code, out) == (1, "")
        assert "doesn't accept the credentials of your kubeconfig" in err


async def test_a_namespace_in_which_nothing_may_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with live(tmp_path, capsys) as cluster:
        for command in ("jobs", "queues", "order", "events"):
            code, out, err = await cluster.said(cluster.tenant, command, "-n", "secret")
            assert (code, out) == (1, "")
            assert "you may not read pod groups, neither everywhere nor in namespace secret" in err


async def test_a_cluster_without_the_kinds_is_said_to_have_none_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with live(tmp_path, capsys) as cluster:
        await cluster.client.delete(CustomResourceDefinition, "podgroups.scheduling.run.ai")
        code, out, err = await cluster.said(cluster.admin, "jobs")
        assert (code, out) == (1, "")
        assert "the cluster doesn't know pod groups: neither Bosket nor KAI is installed there" in err
        code, out, err = await cluster.said(cluster.admin, "nodes")
        assert code == 0, "GPUs are there all the same"


async def test_the_cluster_is_read_as_its_scheduler_sees_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with live(tmp_path, capsys) as cluster:
        found = await read_cluster(cluster.client)
        assert (dict(found.unread), found.namespace) == ({}, "")
        assert {name: len(found.recorded.objects[name]) for name in ("nodes", "podGroups", "pods")} == {
            "nodes": 2,
            "podGroups": 4,
            "pods": 6,
        }
        client = connect(cluster.tenant)
        try:
            of_tenant = await read_cluster(client, namespace="ml")
        finally:
            await client.aclose()
        assert of_tenant.namespace == "ml"
        assert of_tenant.unread["Pod"] == "only those of namespace ml may be read"
        assert 'cannot list resource "nodes"' in of_tenant.unread["Node"]
        assert {pod.key.namespace for pod in of_tenant.recorded.objects["pods"]} == {"ml"}
        with pytest.raises(LiveClusterError, match="there is no SchedulingShard b; there are: "):
            await read_cluster(cluster.client, shard="b")
