"""A server in this process for the tests of this folder, and a wire to it that can be cut."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from bosket.api.core import Namespace
from bosket.api.object import ObjectMeta
from bosket.apiserver.server.api_server import ApiServer
from bosket.kube.client import Client
from bosket.kube.errors import AlreadyExists, TransportError
from bosket.kube.retry import RetryPolicy
from bosket.kube.transport import Request, Response, Stream, Transport
from bosket.runtime.clock import LoopClock


class Wire:
    """A transport that can be `cut` (nothing arrives), made `deaf` (answers are lost) or `stuck` (nothing returns).

    Answers to writes come `lag_of_writes` seconds after what they tell of.
    """

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.cut = self.deaf = self.stuck = False
        self.lag_of_writes = 0.0
        self.requests: list[Request] = []

    async def request(self, request: Request) -> Response:
        await self._obstruct()
        self.requests.append(request)
        response = await self._inner.request(request)
        if self.lag_of_writes and request.method != "GET":
            await asyncio.sleep(self.lag_of_writes)
        if self.deaf:
            raise TransportError("the answer was lost")
        return response

    async def stream(self, request: Request) -> Stream:
        await self._obstruct()
        return await self._inner.stream(request)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _obstruct(self) -> None:
        if self.stuck:
            await asyncio.Event().wait()
        if self.cut:
            raise TransportError("connection refused", maybe_carried_out=False)

    def writes(self) -> list[str]:
        return [f"{each.method} {each.path}" for each in self.requests if each.method != "GET"]


class Cluster:
    """An API server with the namespaces asked for, and clients for it."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.server = ApiServer(clock=self.clock)
        self.client = Client(self.server.transport(), clock=self.clock)

    async def start(self, *namespaces: str) -> Cluster:
        for name in namespaces:
            await self.add_namespace(name)
        return self

    async def add_namespace(self, name: str) -> None:
        with suppress(AlreadyExists):  # the default ones are there from the start
            await self.client.create(Namespace(metadata=ObjectMeta(name=name)))

    def wire(self) -> tuple[Wire, Client]:
        wire = Wire(self.server.transport())
        # Each failure is seen at once: what the client repeats by itself is tested elsewhere.
        return wire, Client(wire, clock=self.clock, retry=RetryPolicy(attempts=1))
