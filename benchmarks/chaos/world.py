"""The cluster under chaos: a control plane, and Bosket's services as processes that can be killed and started again.

Services whose leader does the work run twice, so that a lease that is lost or stolen finds a successor.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.process import free_port, until_ready
from benchmarks.workload import BOSKET, NotMeasured
from bosket.api.coordination import Lease
from bosket.embedded.bootstrap import bootstrap
from bosket.embedded.gpu_devices import GpuDevices
from bosket.kube.client import Client
from bosket.kube.kubeconfig import connect
from tests.controlplane import assets
from tests.controlplane.plane import ControlPlane
from tests.e2e.cluster import running_beside

#: How many processes of each service run.
SERVICES: Final[Mapping[str, int]] = {
    "admission": 1,
    "podgrouper": 1,
    "podgroup-controller": 1,
    "queue-controller": 1,
    "scheduler": 2,
    "binder": 2,
    "grove-admission": 1,
    "grove-operator": 1,
    "grove-backends": 1,
}
#: The namespace of the services' leases.
LEASES: Final = "kai-scheduler"
_START_SECONDS: Final = 180.0


@dataclass
class Program:
    """One process of Bosket's; what it prints is appended to `log` in every life."""

    name: str  #: of the service, or `server`
    arguments: Sequence[str]
    log: Path
    lives: int = 0
    process: asyncio.subprocess.Process | None = field(default=None, repr=False)

    async def start(self) -> None:
        if self.process is not None and self.process.returncode is None:
            return  # two faults struck it at once, and the other one has started it again
        with self.log.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(BOSKET, *self.arguments, stdout=output, stderr=output)
        self.lives += 1

    async def kill(self) -> None:
        """As a machine that loses its power: no clean-up, no lease given back."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    @property
    def ended_by_itself(self) -> bool:
        return self.process is not None and self.process.returncode not in (None, -signal.SIGKILL)


@dataclass
class World:
    """A cluster with Bosket's services on it."""

    kind: str  #: real or embedded
    client: Client
    kubeconfig: Path
    folder: Path
    programs: list[Program] = field(default_factory=list)
    #: The embedded server, which may be killed; None where the control plane is a real one.
    server: Program | None = None
    #: The API server's process, to be paused.
    server_pid: int = 0

    def of(self, name: str) -> list[Program]:
        return [each for each in self.programs if each.name == name]

    def pause_server(self, paused: bool) -> None:
        pid = self.server_pid if self.server is None or self.server.process is None else self.server.process.pid
        os.kill(pid, signal.SIGSTOP if paused else signal.SIGCONT)

    async def start_services(self) -> None:
        for name, count in SERVICES.items():
            for number in range(count):
                program = Program(name, self._arguments(name), self.folder / f"{name}-{number}.log")
                self.programs.append(program)
                await program.start()

    async def until_led(self) -> None:
        """Until every service that works behind a lease has a leader."""
        wanted = sum(not name.endswith("admission") for name in SERVICES)
        async with asyncio.timeout(_START_SECONDS):
            while len((await self.client.list(Lease, LEASES)).items) < wanted:
                await asyncio.sleep(0.5)

    def _arguments(self, name: str) -> list[str]:
        arguments = ["run", name, f"--kubeconfig={self.kubeconfig}", "--listen=off", "--plugin-server-port=0"]
        if name == "admission":
            port = free_port()
            arguments += [f"--webhook-addr={port}", f"--webhook-url=https://127.0.0.1:{port}", "--gpu-sharing-enabled"]
        elif name == "grove-admission":
            port = free_port()
            settings = self.folder / "grove.yaml"
            settings.write_text(
                "apiVersion: operator.config.grove.io/v1alpha1\n"
                "kind: OperatorConfiguration\n"
                f"server: {{webhooks: {{bindAddress: 127.0.0.1, port: {port}}}}}\n"
                "scheduler: {profiles: [{name: kai-scheduler}], defaultProfileName: kai-scheduler}\n"
            )
            arguments += [f"--config={settings}", f"--grove-webhook-url=https://127.0.0.1:{port}"]
        elif name == "binder":
            arguments.append("--fake-gpu-nodes")
        return arguments


@asynccontextmanager
async def enter_world(kind: str) -> AsyncIterator[World]:
    """The control plane without nodes, and all services started on it."""
    async with AsyncExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="bosket-chaos-"))  # stays: its logs tell what happened
        world = await (_real(stack, folder) if kind == "real" else _embedded(stack, folder))
        stack.push_async_callback(_end, world.programs)
        await world.start_services()
        await world.until_led()
        yield world


async def _end(programs: list[Program]) -> None:
    for each in programs:
        await each.kill()


async def _real(stack: AsyncExitStack, folder: Path) -> World:
    binaries = assets.find(print)
    if binaries is None:
        raise NotMeasured("the control plane isn't built: `python -m tests.controlplane build` does that")
    plane = ControlPlane(binaries, folder / "plane")
    await asyncio.to_thread(plane.start)
    stack.callback(plane.stop)
    kubeconfig = plane.kubeconfig("chaos", ("system:masters",))
    client = connect(kubeconfig)
    stack.push_async_callback(client.aclose)
    await bootstrap(client)
    await stack.enter_async_context(running_beside(kubeconfig, GpuDevices))  # kwok knows nothing of devices
    return World("real", client, kubeconfig, folder, server_pid=plane.pids()["kube-apiserver"])


async def _embedded(stack: AsyncExitStack, folder: Path) -> World:
    kubeconfig = folder / "kubeconfig"
    arguments = ("up", "--nodes=0", f"--kubeconfig={kubeconfig}", "--services=none", f"--data={folder / 'data'}")
    server = Program("server", arguments, folder / "server.log")
    await server.start()
    stack.push_async_callback(server.kill)
    await until_ready(server.log)
    client = connect(kubeconfig)
    stack.push_async_callback(client.aclose)
    return World("embedded", client, kubeconfig, folder, server=server)
