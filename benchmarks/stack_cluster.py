"""A cluster with all of Bosket's services on it, each a process of its own: `stack` and `scale` measure on it.

Either a real control plane (etcd, kube-apiserver, kube-controller-manager and kwok), or the embedded cluster, whose
API server, controllers and kubelets are one process, `server`.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.process import cpu_seconds, free_port, memory_mib, process, until_ready, until_serving, writes
from benchmarks.workload import NotMeasured
from bosket.api.core import Node
from bosket.embedded.bootstrap import bootstrap
from bosket.kube.client import Client
from bosket.kube.kubeconfig import connect
from tests.controlplane import assets
from tests.controlplane.plane import ControlPlane, Options

SCHEDULER = "scheduler"
SERVICES = ("admission", "podgrouper", "podgroup-controller", "queue-controller", "binder", SCHEDULER)
GPUS_PER_NODE = 8
#: Labels of the nodes' topology, the widest level first; how many nodes a rack has, and how many racks a zone.
TOPOLOGY_LABELS = ZONE, RACK = "bench.bosket.dev/zone", "bench.bosket.dev/rack"
NODES_PER_RACK, RACKS_PER_ZONE = 16, 8
#: How services are called as users of the API server.
USER_PREFIX = "bosket-"


@dataclass
class StackCluster:
    """A cluster under measurement."""

    client: Client
    folder: Path
    nodes: int
    #: The kubeconfig with which a client is that user.
    kubeconfig: Callable[[str], Path]
    #: Where the API server notes every write; None where it doesn't.
    audit_log: Path | None
    pids: dict[str, int]  #: of every process, by name
    ports: dict[str, int] = field(default_factory=dict)  #: where services tell what they count
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)  #: what ends with the cluster

    async def start(self, *services: str) -> None:
        """Until all of them are ready."""
        for name in services:
            self.ports[name] = free_port()
            arguments = [
                f"--kubeconfig={self.kubeconfig(USER_PREFIX + name)}",
                f"--listen=127.0.0.1:{self.ports[name]}",
                "--plugin-server-port=0",
            ]
            if name == "admission":
                port = free_port()
                arguments += [f"--webhook-addr={port}", f"--webhook-url=https://127.0.0.1:{port}"]
            started = await self.stack.enter_async_context(
                process("run", name, *arguments, log=self.folder / f"{name}.log")
            )
            self.pids[name] = started.pid
        for name in services:
            await until_serving(self.ports[name])

    def cpu(self) -> dict[str, float]:
        return {name: cpu_seconds(pid) for name, pid in self.pids.items()}

    def memory(self) -> dict[str, float]:
        return {name: memory_mib(pid) for name, pid in self.pids.items()}

    def counted_writes(self) -> dict[str, int]:
        """By service, as each counted them itself."""
        return {name: writes(port) for name, port in self.ports.items()}


@asynccontextmanager
async def real_cluster(nodes: int) -> AsyncIterator[StackCluster]:
    """A real control plane with simulated nodes; no service runs yet."""
    binaries = assets.find(print)
    if binaries is None:
        raise NotMeasured("the control plane isn't built: `python -m tests.controlplane build` does that")
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bosket-stack-")))
        plane = ControlPlane(binaries, folder / "plane", Options(audit_writes=True))
        await asyncio.to_thread(plane.start)
        stack.callback(plane.stop)

        def kubeconfig(user: str) -> Path:
            return plane.kubeconfig(user, ("system:masters",))

        client = connect(kubeconfig("benchmark"))
        stack.push_async_callback(client.aclose)
        await bootstrap(client)
        await _add_nodes(client, nodes)
        yield StackCluster(client, folder, nodes, kubeconfig, plane.audit_log, plane.pids(), stack=stack)


@asynccontextmanager
async def embedded_cluster(nodes: int) -> AsyncIterator[StackCluster]:
    """An embedded cluster; no service runs yet."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bosket-stack-")))
        kubeconfig = folder / "kubeconfig"
        log = folder / "server.log"
        arguments = (f"--nodes={nodes}", f"--gpus={GPUS_PER_NODE}", f"--kubeconfig={kubeconfig}", "--services=none")
        server = await stack.enter_async_context(process("up", *arguments, log=log))
        await until_ready(log)
        client = connect(kubeconfig)
        stack.push_async_callback(client.aclose)
        yield StackCluster(client, folder, nodes, lambda _: kubeconfig, None, {"server": server.pid}, stack=stack)


async def _add_nodes(client: Client, count: int) -> None:
    resources: Mapping[str, Any] = {
        "cpu": "128",
        "memory": "1Ti",
        "pods": "110",
        "nvidia.com/gpu": str(GPUS_PER_NODE),
    }
    for number in range(count):
        name, rack = f"node-{number:04}", number // NODES_PER_RACK
        labels = {"kubernetes.io/hostname": name, RACK: f"rack-{rack}", ZONE: f"zone-{rack // RACKS_PER_ZONE}"}
        manifest = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": labels,
                "annotations": {"bosket.dev/simulated": "true"},
            },
            "status": {"capacity": resources, "allocatable": resources},
        }
        await client.create(manifest)
    async with asyncio.timeout(120):
        while not all(map(_is_ready, (await client.list(Node)).items)):
            await asyncio.sleep(0.5)


def _is_ready(node: Node) -> bool:
    ready = any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
    return ready and not node.spec.taints
