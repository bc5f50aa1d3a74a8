"""`Cluster`: what an end-to-end test holds. One test body, two servers; nothing here knows which one it is.

The fixture in `conftest.py` makes one for each test, from a kubeconfig alone: everything goes over the network, as it
would for a user. Each test has a namespace of its own; nodes, queues and services that it adds go with it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from prometheus_client import CollectorRegistry

from bosket.api.core import Event, Namespace, Node, NodeStatus, Pod, ServiceAccount
from bosket.api.kai import PodGroup, Queue, QueueResource, QueueResources, QueueSpec
from bosket.api.keys import RESERVATION_NAMESPACE, SCHEDULER_NAME
from bosket.api.object import KubeObject, ObjectMeta
from bosket.embedded.node import SIMULATED_ANNOTATION
from bosket.embedded.services import SERVICES
from bosket.kube.client import Client
from bosket.kube.errors import NotFound
from bosket.kube.informer import Informers
from bosket.kube.kubeconfig import connect
from bosket.runtime.clock import SystemClock
from bosket.runtime.events import EventRecorder
from bosket.runtime.service import Environment, Service, run_services
from tests.e2e.identity import connect_as, give_rights, kubeconfig_of

T = TypeVar("T")

_LOOK_SECONDS: Final = 0.05
_TIMEOUT_SECONDS: Final = 120.0


@dataclass
class Cluster:
    """A cluster, from the point of view of one test."""

    client: Client
    kubeconfig: Path
    #: Where the test's objects belong.
    namespace: str
    _kubectl: Path | None
    #: By service: what it measures of itself.
    metrics: dict[str, CollectorRegistry] = field(default_factory=dict)
    _nodes: list[str] = field(default_factory=list)
    _queues: list[str] = field(default_factory=list)
    #: Others that belong to no namespace: kind and name.
    _added: list[tuple[type[Any], str]] = field(default_factory=list)
    _services: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    #: What services asked for and their roles don't allow.
    refused: list[str] = field(default_factory=list)
    #: Services whose accounts have been given their rights.
    have_roles: set[str] = field(default_factory=set)

    # ── waiting ──

    async def eventually(self, look: Callable[[], Awaitable[T | None]], timeout_seconds: float = _TIMEOUT_SECONDS) -> T:
        """What `look` gives as soon as that is true of the cluster. The only place where a test waits.

        Something that isn't there (`NotFound`) or isn't so (`AssertionError`) may still come; after the time, the
        failure says what was seen last and what is in the namespace.
        """
        seen: object = None
        try:
            async with asyncio.timeout(timeout_seconds):
                while True:
                    self.check_services()
                    try:
                        found = await look()
                    except (NotFound, AssertionError) as not_yet:
                        seen = not_yet
                    else:
                        if found:
                            return found
                        seen = found
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            name = getattr(look, "__name__", str(look))
            pytest.fail(f"not so after {timeout_seconds:.0f} s: {name}; last seen: {seen!r}\n{await self._describe()}")

    async def record_nodes(self, version: str, nodes: dict[str, set[str]]) -> None:
        """Every node that each pod of the namespace was ever seen on, by the pod's name, until it is cancelled.

        API servers end watches when they like, those of slow readers above all: the next one goes on from there.
        """
        while True:
            changes = self.client.watch(Pod, self.namespace, resource_version=version)
            async with aclosing(changes):
                async for change in changes:
                    version = change.resource_version
                    if change.object is not None and change.object.spec.nodeName:
                        nodes[change.key.name].add(change.object.spec.nodeName)

    def check_services(self) -> None:
        """A service that ended fails the test with its own error, not with what it left undone.

        So does one that asked for what its roles don't allow, however well it copes.
        """
        for task in self._services.values():
            if task.done():
                task.result()
        self._check_refused()

    def _check_refused(self) -> None:
        assert not self.refused, f"roles don't allow what services ask for: {self.refused}"

    async def _describe(self) -> str:
        """The namespace as a person would look at it."""
        pods = (await self.client.list(Pod, self.namespace)).items
        groups = (await self.client.list(PodGroup, self.namespace)).items
        events = (await self.client.list(Event, self.namespace)).items
        return "\n".join(
            [
                *(f"pod {pod.metadata.name}: {pod.status.phase} on {pod.spec.nodeName or '-'}" for pod in pods),
                *(f"pod group {each.metadata.name}: {each.spec}\n    {each.status}" for each in groups),
                *(f"event {each.reason} on {each.involvedObject.name}: {each.message}" for each in events),
            ]
        )

    # ── kubectl ──

    async def kubectl(self, *arguments: str, stdin: str | None = None, code: int = 0, editor: str | None = None) -> str:
        """What kubectl prints, run in the test's namespace; it must end with that exit code.

        `editor` is a command that stands in for a person: it changes the file that is given to it.
        """
        async with self.running_kubectl(*arguments, editor=editor) as process:
            output, _ = await process.communicate(stdin.encode() if stdin is not None else None)
            text = output.decode()
            assert process.returncode == code, f"kubectl {' '.join(arguments)}: exit {process.returncode}\n{text}"
            return text

    @asynccontextmanager
    async def running_kubectl(
        self, *arguments: str, editor: str | None = None
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """A kubectl that goes on (`get -w`) until the block ends."""
        if self._kubectl is None:
            pytest.skip("there is no kubectl: `make e2e` builds one")
        process = await asyncio.create_subprocess_exec(
            self._kubectl,
            f"--kubeconfig={self.kubeconfig}",
            f"--namespace={self.namespace}",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            # Its discovery cache must not outlive the server that filled it.
            env={
                "HOME": str(self.kubeconfig.parent),
                "PATH": os.defpath,
                **({"KUBE_EDITOR": editor} if editor is not None else {}),
            },
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            # The pipe's transport is closed when the loop has seen its end, not when the process ends.
            if process.stdout is not None:
                await process.stdout.read()

    # ── what a test adds ──

    async def add_nodes(
        self,
        count: int,
        *,
        gpus: int = 8,
        cpu: str = "64",
        memory: str = "512Gi",
        labels: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Nodes that run pods; returns their names when they are ready."""
        resources: dict[str, Any] = {"cpu": cpu, "memory": memory, "pods": "110"}
        if gpus:
            resources["nvidia.com/gpu"] = str(gpus)
        names = [f"{self.namespace}-{len(self._nodes) + index}" for index in range(count)]
        self._nodes += names
        for name in names:
            meta = ObjectMeta(
                name=name,
                labels={"kubernetes.io/hostname": name, **(labels or {})},
                annotations={SIMULATED_ANNOTATION: "true"},
            )
            await self.client.create(Node(metadata=meta, status=NodeStatus(capacity=resources, allocatable=resources)))

        async def all_ready() -> bool:
            nodes = [await self.client.get(Node, name) for name in names]
            return all(_is_ready(node) and not node.spec.taints for node in nodes)

        await self.eventually(all_ready)
        return names

    async def add_queue(
        self, *, parent: str = "", gpu_quota: float = 0, gpu_limit: float = -1, weight: float = 1
    ) -> str:
        """A queue that is limited in GPUs only; returns its name, which no other test has."""
        name = f"{self.namespace}-{len(self._queues)}"
        self._queues.append(name)
        gpu = QueueResource(quota=gpu_quota, overQuotaWeight=weight, limit=gpu_limit)
        free = QueueResource(quota=-1, overQuotaWeight=1, limit=-1)
        spec = QueueSpec(parentQueue=parent, resources=QueueResources(gpu=gpu, cpu=free, memory=free))
        await self.client.create(Queue(metadata=ObjectMeta(name=name), spec=spec))
        return name

    async def add(self, *objects: KubeObject) -> None:
        """Objects that belong to no namespace, and go with the test."""
        for each in objects:
            self._added.append((type(each), each.metadata.name))
            await self.client.create(each)

    async def start_services(self, *names: str, options: object | None = None) -> None:
        """Run these services in this process, each with a client and informers of its own, as in separate pods.

        With `options` other than the default ones where they are given. What a service measures is in `metrics`.
        """
        for name in names:
            assert name not in self._services, f"{name} is running"
            await self._give_rights(name)
            self.metrics[name] = CollectorRegistry()
            self._services[name] = asyncio.create_task(self._run_service(name, options), name=name)

    async def stop_service(self, name: str) -> None:
        task = self._services.pop(name)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    @asynccontextmanager
    async def service_process(self, name: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """The service in a process of its own, as `bosket run` starts it; killed when the block ends, or before."""
        await self._give_rights(name)
        log = self.kubeconfig.with_name(f"{self.namespace}-{name}.log")
        own = kubeconfig_of(self.kubeconfig, name)
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                Path(sys.executable).with_name("bosket"),
                "run",
                name,
                "--no-leader-elect",
                f"--kubeconfig={own}",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
            )
        try:
            yield process
            assert process.returncode in (None, -signal.SIGKILL), f"{name} ended by itself: see {log}"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _give_rights(self, service: str) -> None:
        if service not in self.have_roles:
            self.have_roles.add(service)
            await give_rights(self.client, service)

    async def _run_service(self, name: str, options: object | None) -> None:
        def make(environment: Environment) -> Service:
            return SERVICES[name].make(environment, options)

        await _run(self.kubeconfig, name, make, self.metrics[name], self.refused)

    # ── the end ──

    async def leave(self) -> None:
        """Stop what the test started and take away what it added. Doesn't wait for the namespace to be gone."""
        for name in list(self._services):
            await self.stop_service(name)
        await _delete(self.client, Namespace, [self.namespace])  # from here on, nothing new is accepted in it
        await self.client.delete_collection(Pod, self.namespace, grace_seconds=0)
        for node in self._nodes:
            on_node = f"spec.nodeName={node}"
            await self.client.delete_collection(Pod, RESERVATION_NAMESPACE, fields=on_node, grace_seconds=0)
        await _delete(self.client, Queue, self._queues)
        await _delete(self.client, Node, self._nodes)
        for kind, name in self._added:
            await _delete(self.client, kind, [name])
        self._check_refused()


@asynccontextmanager
async def enter_cluster(
    kubeconfig: Path, kubectl: Path | None, have_roles: Iterable[str] = ()
) -> AsyncIterator[Cluster]:
    """A namespace on the cluster that the kubeconfig names, for the length of the block.

    `have_roles`: services whose accounts have been given their rights already.
    """
    async with AsyncExitStack() as stack:
        client = connect(kubeconfig)
        stack.push_async_callback(client.aclose)
        cluster = Cluster(client, kubeconfig, f"e2e-{secrets.token_hex(4)}", kubectl)
        cluster.have_roles.update(have_roles)
        await client.create(Namespace(metadata=ObjectMeta(name=cluster.namespace)))
        stack.push_async_callback(cluster.leave)

        async def pods_are_accepted() -> bool:
            await client.get(ServiceAccount, "default", cluster.namespace)
            return True

        await cluster.eventually(pods_are_accepted)
        yield cluster


@asynccontextmanager
async def running_beside(kubeconfig: Path, make: Callable[[Environment], Service]) -> AsyncIterator[None]:
    """A part of the cluster that its server doesn't have, for the length of the block."""
    task = asyncio.create_task(_run(kubeconfig, make.__name__, make, CollectorRegistry()))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _run(
    kubeconfig: Path,
    name: str,
    make: Callable[[Environment], Service],
    metrics: CollectorRegistry,
    refused: list[str] | None = None,
) -> None:
    """Run a service with a client and informers of its own, as its own account, until cancelled."""
    client = connect_as(kubeconfig, name, refused if refused is not None else [])
    try:
        clock = SystemClock()
        environment = Environment(
            client=client,
            informers=Informers(client),
            clock=clock,
            events=EventRecorder(client, clock, SCHEDULER_NAME if name == "scheduler" else name),
            metrics=metrics,
            identity=f"e2e-{name}",
        )
        await run_services(environment, [make(environment)], leader_election=False)
    finally:
        await client.aclose()


def find_kubectl(built: Path | None) -> Path | None:
    """The one that was built with the control plane, else the one on PATH."""
    if built is not None:
        return built / "kubectl"
    on_path = shutil.which("kubectl")
    return Path(on_path) if on_path else None


def _is_ready(node: Node) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)


async def _delete(client: Client, kind: type[Any], names: Iterable[str]) -> None:
    for name in names:
        with suppress(NotFound):
            await client.delete(kind, name)
