"""ThrottledTransport: limits the rate of requests: `--qps` and `--burst` of a service.

A token bucket, as in client-go: `burst` requests go at once, then `qps` of them a second; further requests wait in
order. A watch costs one request, when it is opened. Leases aren't throttled: a leader that waits behind its own writes
would lose its lease. In Go they have a client of their own for that reason.
"""

from __future__ import annotations

from typing import Protocol

from bosket.kube.transport import Request, Response, Stream, Transport

_LEASES = "/leases"


class Pause(Protocol):
    """The part of a clock that is needed here."""

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class ThrottledTransport:
    """Passes requests on, some of them later."""

    def __init__(self, inner: Transport, qps: float, burst: int, clock: Pause) -> None:
        """`qps`: more than 0; `burst`: 1 or more."""
        self._inner, self._clock = inner, clock
        self._interval_seconds = 1.0 / qps
        #: How far the next slot may lie in the past: after a pause, `burst` requests get a slot at once.
        self._credit_seconds = (burst - 1) * self._interval_seconds
        self._next_turn = clock.monotonic() - self._credit_seconds

    async def request(self, request: Request) -> Response:
        await self._wait_for_turn(request)
        return await self._inner.request(request)

    async def stream(self, request: Request) -> Stream:
        await self._wait_for_turn(request)
        return await self._inner.stream(request)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _wait_for_turn(self, request: Request) -> None:
        if _LEASES in request.path:
            return
        now = self._clock.monotonic()
        turn = max(self._next_turn, now - self._credit_seconds)
        # reserved before the wait, so that no other request gets the same slot
        self._next_turn = turn + self._interval_seconds
        if turn > now:
            await self._clock.sleep(turn - now)
