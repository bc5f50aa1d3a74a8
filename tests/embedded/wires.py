"""Ways to a server that don't work as well as one would like."""

from __future__ import annotations

import asyncio
from typing import Any

from bosket.kube.errors import TransportError
from bosket.kube.transport import Request, Response, Stream, Transport


class LateWatch:
    """A transport whose watches lag behind by seconds: the caches of those who use it are always stale."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def request(self, request: Request) -> Response:
        return await self._inner.request(request)

    async def stream(self, request: Request) -> Stream:
        return _LateStream(await self._inner.stream(request))

    async def aclose(self) -> None:
        await self._inner.aclose()


class _LateStream:
    def __init__(self, inner: Stream) -> None:
        self._inner = inner
        self.status, self.headers = inner.status, inner.headers

    async def __aiter__(self) -> Any:
        async for chunk in self._inner:
            await asyncio.sleep(0.7)
            yield chunk

    async def read_all(self) -> bytes:
        return await self._inner.read_all()

    async def aclose(self) -> None:
        await self._inner.aclose()


class Unreliable:
    """Every third request is lost on its way, or its answer is."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._count = 0

    async def request(self, request: Request) -> Response:
        self._count += 1
        if self._count % 6 == 0:
            raise TransportError("connection refused", maybe_carried_out=False)
        response = await self._inner.request(request)
        if self._count % 6 == 3 and request.method in ("PATCH", "DELETE"):
            raise TransportError("hung up")
        return response

    async def stream(self, request: Request) -> Stream:
        return await self._inner.stream(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


class Refusing:
    """A transport to a server that takes no pods while `refusing`."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.refusing = True

    async def request(self, request: Request) -> Response:
        if self.refusing and request.method == "POST" and request.path.endswith("/pods"):
            body = b'{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"exceeded quota"}'
            return Response(403, {}, body)
        return await self._inner.request(request)

    async def stream(self, request: Request) -> Stream:
        return await self._inner.stream(request)

    async def aclose(self) -> None:
        await self._inner.aclose()
