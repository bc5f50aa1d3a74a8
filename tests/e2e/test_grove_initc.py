"""The init container's program, as its pod runs it: with the rights of the set's account alone, and the pod's files."""

from __future__ import annotations

import asyncio
import base64
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from bosket.api.core import Container, Pod, PodSpec, Secret
from bosket.api.grove import PodCliqueSet
from bosket.api.grove.naming import CLIQUE_LABEL, GANG_LABEL, token_secret_name
from bosket.api.object import KubeObject, ObjectMeta
from bosket.grove.initc import OwnGang, Parent, wait_for_parents
from bosket.grove.render.access import role, role_binding, service_account, token_secret
from bosket.kube.client import Client
from bosket.kube.http import HttpTransport
from bosket.kube.kubeconfig import find, in_cluster
from tests.e2e.cluster import Cluster
from tests.grove_admission.sets import clique, pcs


@pytest.fixture
def embedded_services() -> tuple[str, ...]:
    return ()


async def test_it_waits_with_its_own_rights_and_ends(cluster: Cluster, tmp_path: Path) -> None:
    owner = await an_owner(cluster)
    for child in (service_account(owner, None), role(owner, None), role_binding(owner, None)):
        await cluster.client.create(child)
    (tmp_path / "namespace").write_text(cluster.namespace)
    (tmp_path / "podgangname").write_text("s-0")
    kubeconfig = with_token(cluster.kubeconfig, await token_of(cluster, owner.metadata.name), tmp_path / "kubeconfig")
    await cluster.client.create(parent(cluster.namespace, "router"))
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("bosket"),
        "run",
        "grove-initc",
        "--podcliques=s-0-router:1",
        f"--pod-info={tmp_path}",
        f"--kubeconfig={kubeconfig}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(120):
            while b"waiting" not in (line := await process.stdout.readline()):
                assert line, "it ended without waiting"
            assert b"s-0-router (0 of 1 ready)" in line
            ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            await cluster.client.patch(Pod, "router", ready, namespace=cluster.namespace, subresource="status")
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_it_waits_with_the_files_that_its_pod_has_mounted(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Secret of the set has all that it takes: a token, and whom to trust. The set takes it along."""
    owner = await an_owner(cluster)
    for child in (service_account(owner, None), role(owner, None), role_binding(owner, None), token_secret(owner)):
        await cluster.client.create(child)
    name = token_secret_name(owner.metadata.name)

    async def filled() -> dict[str, str] | None:
        found = (await cluster.client.get(Secret, name, cluster.namespace)).data
        return found if found.keys() >= {"token", "ca.crt", "namespace"} and found["ca.crt"] else None

    for file, content in (await cluster.eventually(filled)).items():
        (tmp_path / file).write_bytes(base64.b64decode(content))
    server = urlsplit(find(cluster.kubeconfig).server)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(server.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    client = Client(HttpTransport(in_cluster(tmp_path)))
    try:
        gang = OwnGang(cluster.namespace, "s-0")
        waiting = asyncio.create_task(wait_for_parents(client, gang, [Parent("s-0-router", 1)]))
        await cluster.client.create(parent(cluster.namespace, "router"))
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        await cluster.client.patch(Pod, "router", ready, namespace=cluster.namespace, subresource="status")
        async with asyncio.timeout(120):
            await waiting
    finally:
        await client.aclose()
    await cluster.client.delete(PodCliqueSet, owner.metadata.name, cluster.namespace)

    async def is_gone() -> bool:
        return name not in [each.metadata.name for each in (await cluster.client.list(Secret, cluster.namespace)).items]

    await cluster.eventually(is_gone)


async def an_owner(cluster: Cluster) -> PodCliqueSet:
    document = pcs(clique("router", minAvailable=1), metadata={"name": "s", "namespace": cluster.namespace})
    await cluster.client.create(document)
    return await cluster.client.get(PodCliqueSet, "s", cluster.namespace)


def parent(namespace: str, name: str) -> KubeObject:
    labels = {GANG_LABEL: "s-0", CLIQUE_LABEL: "s-0-router"}
    spec = PodSpec(containers=(Container(name="c", image="i"),), schedulerName="nobody")
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, labels=labels), spec=spec)


async def token_of(cluster: Cluster, account: str) -> str:
    return (await cluster.kubectl("create", "token", account)).strip()


def with_token(kubeconfig: Path, token: str, file: Path) -> Path:
    """As the tests' own, but with a token and nothing else to show."""
    document = yaml.safe_load(kubeconfig.read_text())
    context = next(each for each in document["contexts"] if each["name"] == document["current-context"])
    context["context"]["user"] = "account"
    document["users"] = [{"name": "account", "user": {"token": token}}]
    file.write_text(yaml.safe_dump(document))
    return file
