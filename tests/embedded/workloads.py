"""A cluster for the tests of workload controllers: the real server, kubelet and controllers, in virtual time.

Pods name their node in the template, so that no scheduler is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
from prometheus_client import CollectorRegistry

from bosket.api.core import Event, Pod, PodTemplateSpec
from bosket.api.object import KubeObject
from bosket.apiserver import ApiServer
from bosket.embedded.controllers import controllers
from bosket.embedded.kubelet import Kubelet
from bosket.embedded.node import Layout, NodeShape, simulated_node
from bosket.kube.client import Client
from bosket.kube.informer import Informers
from bosket.kube.transport import Transport
from bosket.runtime.clock import LoopClock
from bosket.runtime.events import EventRecorder
from bosket.runtime.service import Environment, Service, run_services

NODE = "node-000"
T = TypeVar("T", bound=KubeObject)


class Workloads:
    """A cluster with one node; `controlling` runs the controllers over it."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.server = ApiServer(clock=self.clock)
        self.client = Client(self.server.transport(), clock=self.clock)

    async def get(self, kind: type[T], name: str) -> T:
        return await self.client.get(kind, name, "default")

    async def pods(self) -> list[Pod]:
        return sorted((await self.client.list(Pod)).items, key=lambda pod: pod.metadata.name)

    async def running(self) -> list[Pod]:
        """Pods that run and will go on to."""
        return [
            pod for pod in await self.pods() if pod.status.phase == "Running" and pod.metadata.deletionTimestamp is None
        ]

    async def events(self, reason: str) -> list[str]:
        found = [event for event in (await self.client.list(Event)).items if event.reason == reason]
        return [event.message for event in found]

    async def until(self, holds: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
        """Let time pass until something holds."""
        deadline = self.clock.monotonic() + seconds
        while not await holds():
            assert self.clock.monotonic() < deadline, "it never came to be"
            await self.clock.sleep(0.25)

    @asynccontextmanager
    async def controlling(self, wrap: Callable[[Transport], Transport] = lambda inner: inner) -> AsyncIterator[None]:
        """The controllers run, as a process of their own would; `wrap` may stand between them and the server."""
        environment = self.environment(wrap(self.server.transport()))
        async with self.run(environment, controllers(environment)):
            yield

    @asynccontextmanager
    async def with_node(self) -> AsyncIterator[None]:
        """The node and its kubelet, and what the server does in the background."""
        await self.client.create(simulated_node(0, Layout(1), NodeShape(), self.clock.now()))
        environment = self.environment()
        background = asyncio.create_task(self.server.run())
        try:
            async with self.run(environment, [Kubelet(environment)]):
                yield
        finally:
            background.cancel()
            await asyncio.wait([background])

    def environment(self, transport: Transport | None = None) -> Environment:
        client = Client(transport or self.server.transport(), clock=self.clock)
        return Environment(
            client=client,
            informers=Informers(client),
            clock=self.clock,
            events=EventRecorder(client, self.clock, "test"),
            metrics=CollectorRegistry(),
        )

    @asynccontextmanager
    async def run(self, environment: Environment, services: list[Service]) -> AsyncIterator[None]:
        task = asyncio.create_task(run_services(environment, [*services, _Idle()], leader_election=False))
        try:
            await environment.informers.wait_synced()
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


class _Idle:
    """Keeps a process alive that has nothing to do."""

    name = "idle"

    async def run(self) -> None:
        await asyncio.Event().wait()


def template(
    *,
    labels: dict[str, str] | None = None,
    restart: str = "Always",
    simulation: Mapping[str, str] | None = None,
    **short_simulation: str,
) -> PodTemplateSpec:
    """A pod on the node; `run_duration="5s"`, `exit_code="1"` and so on say what it does."""
    behaviour = {**short_simulation, **(simulation or {})}
    return msgspec.convert(
        {
            "metadata": {
                "labels": labels or {"app": "a"},
                "annotations": {f"bosket.dev/{key.replace('_', '-')}": value for key, value in behaviour.items()},
            },
            "spec": {
                "nodeName": NODE,
                "restartPolicy": restart,
                "terminationGracePeriodSeconds": 2,
                "containers": [{"name": "c", "image": "i"}],
            },
        },
        PodTemplateSpec,
    )


@asynccontextmanager
async def workloads() -> AsyncIterator[Workloads]:
    """Everything runs."""
    world = Workloads()
    async with world.with_node(), world.controlling():
        yield world


def condition(obj: Any, type: str) -> Any:
    """The condition of a type, or None."""
    return next((each for each in obj.status.conditions if each.type == type), None)


async def fail(world: Workloads, pod: Pod, *, conditions: list[dict[str, str]] | None = None) -> None:
    """The pod has failed, says its kubelet."""
    status: dict[str, Any] = {"phase": "Failed"}
    if conditions is not None:
        status["conditions"] = conditions
    name = pod.metadata.name
    await world.client.patch(Pod, name, {"status": status}, namespace="default", subresource="status")
