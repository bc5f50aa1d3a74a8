"""Limits on connections before a request: duration and number.

`listener` serves with these instead of aiohttp's own connections, which wait for ever for the first request and answer
what is no HTTP with a page for people.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from bosket.apiserver.status import JSON, bad_request, headers_too_large, internal_error

#: Longest line of a request: its URL, or one header.
MAX_LINE_BYTES: Final = 32 * 1024
#: Each watch has one of its own.
MAX_CONNECTIONS: Final = 4000
#: The first request must have begun after this time, with all its headers.
HEADER_SECONDS: Final = 32.0
#: The next one after this.
IDLE_SECONDS: Final = 120.0
#: A client that is refused while it still sends has this long to read why.
_LINGER_SECONDS: Final = 1.0


Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class LimitedServer(web.Server):
    """Makes a `Connection` for each client."""

    def __init__(self, handler: Handler, *, max_connections: int, header_seconds: float) -> None:
        super().__init__(
            handler,
            handler_cancellation=True,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=_LINGER_SECONDS,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            access_log=None,
        )
        self.max_connections = max_connections
        self.header_seconds = header_seconds

    def __call__(self) -> web.RequestHandler:
        return Connection(self, loop=self._loop, **self._kwargs)


class Connection(web.RequestHandler):
    """One client."""

    __slots__ = ("_limits", "_patience")

    def __init__(self, server: LimitedServer, *, loop: asyncio.AbstractEventLoop, **options: object) -> None:
        super().__init__(server, loop=loop, **options)  # type: ignore[arg-type]  # passed on as they came
        self._limits = server
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._limits.connections) > self._limits.max_connections:
            self.force_close()
            return
        self._patience = self._loop.call_later(self._limits.header_seconds, self._give_up)

    def _give_up(self) -> None:
        if self._request_count == 0:
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._patience is not None:
            self._patience.cancel()
        super().connection_lost(exc)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """A Status for what is no request; the connection ends with it."""
        if status >= 500:
            self.log_exception("handling a request failed", exc_info=exc)
            error = internal_error("the server made a mistake; its log has the details")
        elif isinstance(exc, LineTooLong):
            error = headers_too_large(MAX_LINE_BYTES)
        else:
            error = bad_request(f"the request is not valid HTTP: {message or 'it can not be read'}")
        if request.writer.output_size > 0:
            raise ConnectionError("an answer is under way already")
        response = web.Response(status=error.code, body=error.body, headers={"content-type": JSON})
        response.force_close()
        return response
