"""Every query of the boards, asked of a real Prometheus that scrapes running services, is answered with data."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bosket.api.core import Pod
from bosket.embedded.cluster import EmbeddedCluster, Listen
from bosket.embedded.node import NodeShape
from bosket.install.boards import BOARDS
from bosket.kube.client import Client
from tests.controlplane.plane import free_ports
from tests.controlplane.prometheus import Prometheus
from tests.e2e.manifest import job

pytestmark = pytest.mark.real

SERVICES = ("podgrouper", "podgroup-controller", "queue-controller", "scheduler", "binder")
CONFIGURATION = """
usageDBConfig:
  clientType: builtin
  usageParams: {windowSize: 1h, fetchInterval: 1s, extraParams: {queryResolution: 1s}}
"""


@asynccontextmanager
async def services(kubeconfig: Path, folder: Path, port: int) -> AsyncIterator[None]:
    """All of them in one process, as a user starts them."""
    configuration = folder / "scheduler.yaml"
    configuration.write_text(CONFIGURATION)
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("bosket"),
        *("run", *SERVICES, "--kubeconfig", kubeconfig, "--listen", f"127.0.0.1:{port}"),
        *("--scheduler-config", configuration, "--plugin-server-port", "0"),
        stdin=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def make_room(client: Client) -> None:
    """Queues that take from each other, and a job that goes before another of its queue."""
    for name, parent in (("top", ""), ("a", "top"), ("b", "top")):
        free = {"quota": -1, "overQuotaWeight": 1, "limit": -1}
        gpu = {"quota": 2 if parent else 4, "overQuotaWeight": 1, "limit": -1}
        limited = {"quota": 8000, "overQuotaWeight": 1, "limit": -1}
        resources = {"gpu": gpu, "cpu": limited, "memory": limited if name == "b" else free}
        spec = {"parentQueue": parent, "resources": resources}
        await client.create(
            {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}
        )
    for index in range(4):
        await client.create(job(f"low-{index}", pods=1, queue="a", gpus=1), "default")
    await _running(client, 4)
    await client.create(job("reclaims", pods=2, queue="b", gpus=1), "default")
    await client.create(job("preempts", pods=1, queue="a", gpus=1, priority="build-preemptible"), "default")
    await _running(client, 4, "reclaims", "preempts")


async def _running(client: Client, count: int, *jobs: str) -> None:
    async with asyncio.timeout(120):
        while True:
            pods = (await client.list(Pod, "default")).items
            running = [each.metadata.name for each in pods if each.status.phase == "Running"]
            if len(running) >= count and all(any(name.startswith(each) for name in running) for each in jobs):
                return
            await asyncio.sleep(0.1)


async def test_every_query_of_every_board_returns_data(prometheus_programs: Path, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    (port,) = free_ports(1)
    shape = NodeShape(gpus=4)
    async with EmbeddedCluster(nodes=1, shape=shape, services=(), listen=Listen(kubeconfig=kubeconfig)) as cluster:
        await cluster.wait_ready()
        with Prometheus(prometheus_programs, tmp_path, targets=[f"127.0.0.1:{port}"]) as prometheus:
            async with services(kubeconfig, tmp_path, port):
                await make_room(cluster.client())
                asked = {query for board in BOARDS.values() for query in board.queries()}
                empty = await _still_empty(prometheus.url, asked)
    assert empty == {}


async def _still_empty(url: str, queries: set[str]) -> dict[str, Any]:
    """Those that have no answer after a while: scrapes come every second."""
    empty: dict[str, Any] = dict.fromkeys(queries)
    async with aiohttp.ClientSession() as session:
        for _ in range(20):
            for query in list(empty):
                asked = query.replace("$__rate_interval", "30s").replace("$queue", ".*").replace("$instance", ".*")
                async with session.get(f"{url}/api/v1/query", params={"query": asked}) as response:
                    answer = await response.json()
                assert answer["status"] == "success", f"{query}: {answer}"
                if answer["data"]["result"]:
                    del empty[query]
            if not empty:
                break
            await asyncio.sleep(1)
    return empty
