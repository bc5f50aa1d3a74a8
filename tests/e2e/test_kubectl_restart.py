"""kubectl while the server is killed and comes back with `--data`: what was seen stays true, and nothing is missed."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bosket.kube.kubeconfig import connect
from tests.controlplane import assets
from tests.e2e.cluster import Cluster, find_kubectl
from tests.e2e.manifest import deployment


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """`bosket up`, ready; killed when the block ends."""
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("bosket"),
        "up",
        "--nodes=1",
        "--services=none",
        f"--data={folder / 'data'}",
        f"--kubeconfig={folder / 'kubeconfig'}",
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(120):
            while (line := await process.stdout.readline()) != b"ready\n":
                assert line, "the server ended before it was ready"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@asynccontextmanager
async def user(folder: Path) -> AsyncIterator[Cluster]:
    """Somebody at a terminal, in the namespace `default`."""
    client = connect(folder / "kubeconfig")
    try:
        yield Cluster(client, folder / "kubeconfig", "default", find_kubectl(assets.find(print)))
    finally:
        await client.aclose()


async def until_said(process: asyncio.subprocess.Process, *wanted: str) -> None:
    """Until it has printed these lines, in that order; others may stand between them."""
    assert process.stdout is not None
    async with asyncio.timeout(120):
        for each in wanted:
            while (line := (await process.stdout.readline()).decode().strip()) != each:
                assert line, f"it ended before it said {each}"


async def test_a_watch_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with served(tmp_path), user(tmp_path) as cluster:
        await cluster.kubectl("create", "cm", "before")
        listed = json.loads(await cluster.kubectl("get", "--raw", "/api/v1/namespaces/default/configmaps"))
        seen = listed["metadata"]["resourceVersion"]
        watching = cluster.running_kubectl("get", "cm", "-w", "-o", "name")
        process = await watching.__aenter__()
        await until_said(process, "configmap/before")
        # Written, and nobody has heard of it when the server is killed.
        await cluster.kubectl("create", "cm", "acknowledged")
    async with asyncio.timeout(120):
        assert await process.wait() == 0  # kubectl takes the end of a watch for the end of its work
    await watching.__aexit__(None, None, None)
    async with served(tmp_path), user(tmp_path) as cluster:
        path = f"/api/v1/namespaces/default/configmaps?watch=true&resourceVersion={seen}"
        async with cluster.running_kubectl("get", "--raw", path) as resumed:
            assert resumed.stdout is not None
            await cluster.kubectl("create", "cm", "after")
            names = []
            async with asyncio.timeout(120):
                while "after" not in names:
                    event = json.loads(await resumed.stdout.readline())
                    assert event["type"] == "ADDED"
                    names.append(event["object"]["metadata"]["name"])
        assert names == ["acknowledged", "after"]
        async with cluster.running_kubectl("get", "cm", "-w", "-o", "name") as again:
            await until_said(again, "configmap/acknowledged", "configmap/after", "configmap/before")
            await cluster.kubectl("delete", "cm", "before")
            await until_said(again, "configmap/before")


async def test_a_rollout_is_followed_across_a_restart(tmp_path: Path) -> None:
    async with served(tmp_path), user(tmp_path) as cluster:
        await cluster.client.create(deployment("web", replicas=1), "default")  # nobody schedules its pod
        following = cluster.running_kubectl("rollout", "status", "deployment/web", "--timeout=120s")
        process = await following.__aenter__()
        waits = 'Waiting for deployment "web" rollout to finish: 0 of 1 updated replicas are available...'
        await until_said(process, waits)
    async with served(tmp_path), user(tmp_path) as cluster:
        await cluster.kubectl("scale", "deployment/web", "--replicas=0")
        await until_said(process, 'deployment "web" successfully rolled out')
    await following.__aexit__(None, None, None)
    assert process.returncode == 0
