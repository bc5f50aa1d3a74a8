"""`bosket plan` writes nothing: it works with an account that may only get and list, and asks for nothing else."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bosket.api.core import ServiceAccount
from bosket.api.object import ObjectMeta
from bosket.api.rbac import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject
from bosket.apiserver.server.in_process import InProcessTransport
from bosket.cli.main import main
from bosket.embedded.cluster import EmbeddedCluster, Listen
from bosket.embedded.node import NodeShape
from bosket.kube.client import Client
from bosket.kube.codec import untyped
from bosket.kube.transport import Request, Response, Stream, Transport
from bosket.runtime.clock import LoopClock
from bosket.scheduler.answers.cluster import Cluster
from bosket.scheduler.answers.draft import Draft
from bosket.scheduler.answers.edits import set_queue
from bosket.scheduler.answers.plan import make_plan
from bosket.tools.expansion.manifests import Manifest, read_manifests
from bosket.tools.expansion.submission import submit
from bosket.tools.live_cluster import read_cluster

EXAMPLES = Path(__file__).parents[2] / "examples"
READING = PolicyRule(verbs=("get", "list"), apiGroups=("*",), resources=("*",))
READER = Subject(kind="ServiceAccount", name="reader", namespace="default")
GROUPS = ("system:serviceaccounts", "system:authenticated")


class Recording:
    """Hands requests on and counts their methods."""

    def __init__(self, inner: Transport) -> None:
        self._inner, self.methods = inner, Counter[str]()

    async def request(self, request: Request) -> Response:
        self.methods[request.method] += 1
        return await self._inner.request(request)

    async def stream(self, request: Request) -> Stream:
        self.methods[f"{request.method} as a stream"] += 1
        return await self._inner.stream(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def with_queues(cluster: EmbeddedCluster) -> Client:
    """The cluster, ready, with the queues of the examples and an account that has no rights yet."""
    await cluster.wait_ready()
    client = cluster.client()
    await client.create(ServiceAccount(metadata=ObjectMeta(name="reader", namespace="default")))
    for each in read_manifests([EXAMPLES / "00-queues.yaml"]):
        document = each.document
        resource = next(
            found
            for found in await client.discover()
            if (found.api_version, found.kind) == (document["apiVersion"], document["kind"])
        )
        await client.create(document, kind=untyped(resource))
    return client


async def may_read_everything(client: Client) -> None:
    await client.create(ClusterRole(metadata=ObjectMeta(name="reads"), rules=(READING,)))
    role = RoleRef(kind="ClusterRole", name="reads", apiGroup="rbac.authorization.k8s.io")
    await client.create(ClusterRoleBinding(metadata=ObjectMeta(name="reads"), subjects=(READER,), roleRef=role))


def as_reader(cluster: EmbeddedCluster) -> InProcessTransport:
    return cluster.server.transport("system:serviceaccount:default:reader", GROUPS)


@pytest.mark.looptime
async def test_a_plan_of_workloads_and_changes_asks_for_lists_and_single_objects_alone() -> None:
    async with EmbeddedCluster(nodes=2, shape=NodeShape(gpus=4), clock=LoopClock()) as cluster:
        client = await with_queues(cluster)
        await may_read_everything(client)
        before = await everything(client)
        recording = Recording(as_reader(cluster))
        live = await read_cluster(Client(recording, clock=cluster.clock), now=cluster.clock.now())
        draft = Draft(Cluster(live.recorded))
        set_queue(draft, "team-a.gpu.limit=6")
        submission = await submit(draft, read_manifests([EXAMPLES / "10-gang-job.yaml"]), "default")
        plan = make_plan(draft.cluster, draft, subjects=submission.jobs, cycles=5)
        assert live.unread == {}
        assert (plan.exit_code, plan.waits[0].verdict) == (3, "never")
        assert set(recording.methods) == {"GET"}
        assert await everything(client) == before


async def everything(client: Client) -> dict[str, Any]:
    """All objects that a plan is about, with their versions."""
    found = {}
    for path in (
        "/api/v1/pods",
        "/api/v1/nodes",
        "/apis/batch/v1/jobs",
        "/apis/scheduling.run.ai/v2/queues",
        "/apis/scheduling.run.ai/v2alpha2/podgroups",
        "/apis/scheduling.run.ai/v1alpha2/bindrequests",
    ):
        answer = json.loads((await client.raw("GET", path)).body)
        found[path] = [(each["metadata"]["name"], each["spec"]) for each in answer["items"]]
    return found


async def token_of_reader(client: Client) -> str:
    path = "/api/v1/namespaces/default/serviceaccounts/reader/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token: str = json.loads((await client.raw("POST", path, body=body)).body)["status"]["token"]
    return token


def kubeconfig_with(token: str, admin: Path, folder: Path) -> Path:
    """The administrator's kubeconfig, with another token."""
    content = json.loads(admin.read_text())
    content["users"] = [{"name": "admin", "user": {"token": token}}]
    (folder / "reader").write_text(json.dumps(content))
    return folder / "reader"


async def test_the_command_works_with_a_token_that_may_only_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = tmp_path / "kubeconfig"
    async with EmbeddedCluster(nodes=2, listen=Listen(kubeconfig=admin)) as cluster:
        client = await with_queues(cluster)
        await may_read_everything(client)
        reader = kubeconfig_with(await token_of_reader(client), admin, tmp_path)
        arguments = ["plan", "--kubeconfig", str(reader), "-f", str(EXAMPLES / "10-gang-job.yaml"), "--json"]
        assert await asyncio.to_thread(main, arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["sentence"] == "Job default/train-a starts at once: 4 pods with 16 GPUs on 2 nodes; nobody is evicted"


async def test_with_rights_in_one_namespace_nothing_is_promised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = tmp_path / "kubeconfig"
    async with EmbeddedCluster(nodes=2, listen=Listen(kubeconfig=admin)) as cluster:
        client = await with_queues(cluster)
        meta = ObjectMeta(name="reads", namespace="default")
        role = RoleRef(kind="Role", name="reads", apiGroup="rbac.authorization.k8s.io")
        await client.create(Role(metadata=meta, rules=(READING,)))
        await client.create(RoleBinding(metadata=meta, subjects=(READER,), roleRef=role))
        reader = kubeconfig_with(await token_of_reader(client), admin, tmp_path)
        arguments = ["plan", "--kubeconfig", str(reader), "-f", str(EXAMPLES / "10-gang-job.yaml")]
        assert await asyncio.to_thread(main, arguments) == 1
    assert "your rights don't show every Node and Queue and PodGroup and Pod" in capsys.readouterr().err


def test_manifests_are_read_from_directories_in_order(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(
        "kind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: b}}\n"
    )
    (tmp_path / "a.json").write_text('{"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-"}}')
    (tmp_path / "c.txt").write_text("not a manifest")
    found: list[Manifest] = read_manifests([tmp_path])
    assert [each.document["metadata"]["name"] for each in found] == ["a-plan", "b"]
