"""An embedded cluster and some services, each a process of its own, and what each of them costs per pod.

`server` is the embedded cluster with API server, controllers and kubelets; CPU times are the processes' own, writes are
what each service counted itself.
"""

from __future__ import annotations

import asyncio
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.process import cpu_seconds, free_port, process, until_ready, until_serving, writes
from benchmarks.report import Column, number
from bosket.api.core import Pod
from bosket.kube.client import Client
from bosket.kube.kubeconfig import connect

PATIENCE_SECONDS = 300.0

COLUMNS = (
    Column("process", "process"),
    Column("cpu_s", "CPU", number(2, " s")),
    Column("cpu_ms_per_pod", "CPU per pod", number(2, " ms")),
    Column("writes_per_pod", "API writes per pod", number(2)),
)


@dataclass(slots=True)
class EmbeddedProcesses:
    """What runs, and what it had cost when counting began."""

    client: Client
    running: Mapping[str, Process]  #: by name, the server first
    ports: Mapping[str, int]  #: of the services
    _cpu_before: dict[str, float] = field(default_factory=dict)
    _writes_before: dict[str, int] = field(default_factory=dict)

    def begin(self) -> None:
        """Count from now on."""
        self._cpu_before = {name: cpu_seconds(each.pid) for name, each in self.running.items()}
        self._writes_before = {name: writes(port) for name, port in self.ports.items()}

    def costs(self, pods: int) -> list[dict[str, object]]:
        """A row for each process since then, and one for all services."""
        cpu = {name: cpu_seconds(each.pid) - self._cpu_before[name] for name, each in self.running.items()}
        made = {name: writes(port) - self._writes_before[name] for name, port in self.ports.items()}
        services = _row("all services", sum(cpu[name] for name in self.ports), sum(made.values()), pods)
        return [*(_row(name, spent, made.get(name), pods) for name, spent in cpu.items()), services]


def _row(process: str, cpu_s: float, writes: int | None, pods: int) -> dict[str, object]:
    per_pod = None if writes is None else writes / pods
    return {"process": process, "cpu_s": cpu_s, "cpu_ms_per_pod": cpu_s / pods * 1e3, "writes_per_pod": per_pod}


@asynccontextmanager
async def embedded_processes(nodes: int, services: Iterable[str]) -> AsyncIterator[EmbeddedProcesses]:
    """All of it for the length of the block, ready."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kubeconfig = folder / "kubeconfig"
        arguments = ("up", f"--nodes={nodes}", f"--kubeconfig={kubeconfig}", "--services=none")
        running = {"server": await stack.enter_async_context(process(*arguments, log=folder / "server.log"))}
        await until_ready(folder / "server.log")
        ports = {name: free_port() for name in services}
        for name, port in ports.items():
            arguments = ("run", name, f"--kubeconfig={kubeconfig}", f"--listen=127.0.0.1:{port}")
            running[name] = await stack.enter_async_context(process(*arguments, log=folder / f"{name}.log"))
        for port in ports.values():
            await until_serving(port)
        client = connect(kubeconfig)
        stack.push_async_callback(client.aclose)
        yield EmbeddedProcesses(client, running, ports)


async def until_running(client: Client, wanted: int) -> None:
    """Follows a watch, which costs the server less than asking again and again."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        page = await client.list(Pod, "default")
        running = {pod.key for pod in page.items if pod.status.phase == "Running"}
        if len(running) >= wanted:
            return
        async for event in client.watch(Pod, "default", resource_version=page.resource_version):
            if event.object is not None and event.object.status.phase == "Running":
                running.add(event.object.key)
                if len(running) >= wanted:
                    return
