"""Transport: carries a request to an API server and returns bytes.

`bosket.kube.http` uses the network, the embedded API server answers in process, and tests answer from a script or
inject faults (`bosket.testing.faults`). A transport knows nothing of Kubernetes: status 404 is an answer. It raises
only `bosket.kube.errors.TransportError`, when no answer arrived.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec


class Request(msgspec.Struct, frozen=True):
    """One HTTP request. `path` is not percent-encoded yet; `timeout_seconds` None means the transport's own default."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: dict[str, str] = {}
    body: bytes = b""
    timeout_seconds: float | None = None


class Response(msgspec.Struct, frozen=True):
    """A whole answer. Header names are lower-case."""

    status: int
    headers: dict[str, str] = {}
    body: bytes = b""


class Stream(Protocol):
    """An answer that arrives in chunks of any size. The receiver closes it."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> dict[str, str]: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def read_all(self) -> bytes:
        """The rest of the body at once; meant for error answers, which are short."""
        ...

    async def aclose(self) -> None: ...


class Transport(Protocol):
    """Carries requests. Both methods may be called concurrently."""

    async def request(self, request: Request) -> Response: ...

    async def stream(self, request: Request) -> Stream: ...

    async def aclose(self) -> None: ...
