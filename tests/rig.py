"""A cluster in this process, and services on it that a test can kill and start again.

Server, clients and clock live on the test's event loop; with `pytest.mark.looptime` pauses take no time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry

from bosket.api.core import Event, Namespace
from bosket.api.crd import crd_manifests
from bosket.api.object import KubeObject, ObjectMeta
from bosket.apiserver import ApiServer
from bosket.kube.client import Client
from bosket.kube.informer import Informers
from bosket.kube.transport import Request, Response, Stream, Transport
from bosket.runtime.clock import Clock, LoopClock
from bosket.runtime.events import EventRecorder
from bosket.runtime.service import Environment, Service, run_services
from bosket.testing.faults import Predicate

T = TypeVar("T")
NAMESPACE = "ml"
_PATIENCE_SECONDS = 300.0


class Rig:
    """An API server with our CRDs and one namespace."""

    def __init__(self, clock: Clock | None = None) -> None:
        """On a loop clock, unless another is given; only under the system's do services use threads."""
        self.clock: Clock = clock or LoopClock()
        self.server = ApiServer(clock=self.clock)
        self.client = Client(self.server.transport(), clock=self.clock)

    async def apply(self, *objects: KubeObject) -> None:
        for each in objects:
            await self.client.create(each)

    @asynccontextmanager
    async def running(
        self, factory: Callable[[Environment], Service], transport: Transport | None = None
    ) -> AsyncIterator[asyncio.Task[None]]:
        """A service in a process of its own: its own client, cache and recorder. Leaving the block kills it."""
        own = self.server.transport()
        client = Client(transport or own, clock=self.clock)
        environment = Environment(
            client=client,
            informers=Informers(client),
            clock=self.clock,
            events=EventRecorder(client, self.clock, "test"),
            metrics=CollectorRegistry(),
        )
        task = asyncio.create_task(run_services(environment, [factory(environment)], leader_election=False))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])
            await own.aclose()

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until `condition` (a coroutine function) gives something true; give that back."""
        deadline = self.clock.monotonic() + _PATIENCE_SECONDS
        while True:
            result = await condition()
            if result:
                return result
            assert self.clock.monotonic() < deadline, "waited in vain"
            await self.clock.sleep(0.05)

    async def events(self, reason: str) -> list[Event]:
        return [each for each in (await self.client.list(Event, NAMESPACE)).items if each.reason == reason]


class Meddling:
    """A transport on which somebody else acts just before the first request of a sort arrives."""

    def __init__(self, inner: Transport, when: Predicate, act: Callable[[], Awaitable[None]]) -> None:
        self._inner = inner
        self._when = when
        self._act: Callable[[], Awaitable[None]] | None = act

    async def request(self, request: Request) -> Response:
        if self._act is not None and self._when(request):
            act, self._act = self._act, None
            await act()
        return await self._inner.request(request)

    async def stream(self, request: Request) -> Stream:
        return await self._inner.stream(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


class Lagging:
    """A transport on which the watches of a plural show everything late."""

    def __init__(self, inner: Transport, plural: str, seconds: float = 60.0) -> None:
        self._inner = inner
        self._plural = plural
        self._seconds = seconds

    async def request(self, request: Request) -> Response:
        return await self._inner.request(request)

    async def stream(self, request: Request) -> Stream:
        stream = await self._inner.stream(request)
        return _LateStream(stream, self._seconds) if request.path.endswith(f"/{self._plural}") else stream

    async def aclose(self) -> None:
        await self._inner.aclose()


class _LateStream:
    def __init__(self, inner: Stream, seconds: float) -> None:
        self.status = inner.status
        self.headers = inner.headers
        self._inner = inner
        self._seconds = seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            await asyncio.sleep(self._seconds)
            yield chunk

    async def read_all(self) -> bytes:
        return await self._inner.read_all()

    async def aclose(self) -> None:
        await self._inner.aclose()


@cache
def _crds() -> list[dict[str, Any]]:
    return [each for each in crd_manifests() if each["spec"]["group"] == "scheduling.run.ai"]


async def make_rig(objects: Iterable[KubeObject] = (), *, only: str = "", clock: Clock | None = None) -> Rig:
    """A rig with KAI's scheduling kinds, or `only` that plural of them, and these objects."""
    rig = Rig(clock)
    for manifest in _crds():
        if only in ("", manifest["spec"]["names"]["plural"]):
            await rig.client.create(manifest)
    await rig.apply(Namespace(metadata=ObjectMeta(name=NAMESPACE)), *objects)
    return rig
