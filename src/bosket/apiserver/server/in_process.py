"""Talking to the server from inside its process: requests are function calls, a watch is an iterator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from bosket.apiserver.handlers.reading import Reader
from bosket.apiserver.handlers.watch import Watcher
from bosket.kube.errors import TransportError
from bosket.kube.transport import Request, Response, Stream


class InProcessTransport:
    """A `bosket.kube.transport.Transport` without a network."""

    def __init__(self, handle: Callable[[Request], Awaitable[Response | Watcher]], reader: Reader) -> None:
        """`handle`: answers a request as the transport's user; `reader`: the server's, which says when to let others
        have their turn."""
        self._handle = handle
        self._reader = reader
        self._closed = False
        self._watchers: set[Watcher] = set()

    async def request(self, request: Request) -> Response:
        response = await self._respond(request)
        if isinstance(response, Watcher):
            return Response(response.status, response.headers, await response.read_all())
        if self._reader.crowded:
            self._reader.crowded = False
            await asyncio.sleep(0)
        return response

    async def stream(self, request: Request) -> Stream:
        response = await self._respond(request)
        if isinstance(response, Watcher):
            self._watchers.add(response)
            return response
        return _Whole(response)

    async def _respond(self, request: Request) -> Response | Watcher:
        if self._closed:
            raise TransportError("the transport is closed", maybe_carried_out=False)
        return await self._handle(request)

    async def aclose(self) -> None:
        self._closed = True
        for watcher in self._watchers:
            watcher.close()
        self._watchers.clear()


class _Whole:
    """An answer that is there already, as a stream."""

    def __init__(self, response: Response) -> None:
        self.status = response.status
        self.headers = response.headers
        self._body = response.body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._body:
            yield self._body

    async def read_all(self) -> bytes:
        return self._body

    async def aclose(self) -> None:
        self._body = b""
