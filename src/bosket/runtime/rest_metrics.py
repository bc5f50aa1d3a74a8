"""Counts what a process asks of its API server, by the names that client-go gives the counters.

A program wraps the transport of its client: `Client(MeasuredTransport(transport, registry))`. Every request is
counted once it is answered, repetitions by the client included; a watch when it begins. Requests without an answer
have the code `<error>`.
"""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Histogram

from bosket.kube.errors import TransportError
from bosket.kube.transport import Request, Response, Stream, Transport

_NO_ANSWER = "<error>"


class MeasuredTransport:
    """A transport that counts and times what goes through it; one per registry."""

    def __init__(self, inner: Transport, registry: CollectorRegistry) -> None:
        self._inner = inner
        self._requests = Counter(
            "rest_client_requests_total", "Requests to the API server", ["code", "method"], registry=registry
        )
        self._seconds = Histogram(
            "rest_client_request_duration_seconds", "Time until the answer", ["verb"], registry=registry
        )
        #: By code and method, and by method: looking a child up by its labels costs more than counting.
        self._counts: dict[tuple[str, str], Counter] = {}
        self._times: dict[str, Histogram] = {}

    async def request(self, request: Request) -> Response:
        # The machine's clock, not an injected one: this is about the network.
        started = time.perf_counter()
        try:
            response = await self._inner.request(request)
        except TransportError:
            self._count(_NO_ANSWER, request.method)
            raise
        self._count(str(response.status), request.method)
        times = self._times.get(request.method)
        if times is None:
            times = self._times[request.method] = self._seconds.labels(request.method)
        times.observe(time.perf_counter() - started)
        return response

    async def stream(self, request: Request) -> Stream:
        try:
            stream = await self._inner.stream(request)
        except TransportError:
            self._count(_NO_ANSWER, request.method)
            raise
        self._count(str(stream.status), request.method)
        return stream

    def _count(self, code: str, method: str) -> None:
        count = self._counts.get((code, method))
        if count is None:
            count = self._counts[code, method] = self._requests.labels(code, method)
        count.inc()

    async def aclose(self) -> None:
        await self._inner.aclose()
