"""The network listener: HTTP before the server, with TLS and authentication. The one module that serves with aiohttp.

Everything of Kubernetes happens in `ApiServer.handle`; here are bytes, limits and time-outs. Listens on loopback unless
told otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from aiohttp import web

from bosket.apiserver.auth import ANONYMOUS, PUBLIC_PATHS
from bosket.apiserver.auth.impersonation import impersonated
from bosket.apiserver.call import User
from bosket.apiserver.compression import compressed
from bosket.apiserver.server import ApiServer, refusal
from bosket.apiserver.status import StatusError, timeout, too_large, too_many_requests, unauthorized
from bosket.apiserver.watch import Watcher
from bosket.kube.transport import Request, Response
from bosket.runtime.certificates import KeyPair
from bosket.runtime.connections import stop_serving
from bosket.runtime.tls import server_context

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 3 * 1024 * 1024
MAX_HEADER_BYTES = 32 * 1024
MAX_IN_FLIGHT = 400
#: A client may take this long to send its request, and this long to take a piece of the answer.
REQUEST_SECONDS = 60.0
_STOP_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Tls:
    """What the listener shows of itself, and whose client certificates it believes."""

    key_pair: KeyPair
    client_authority_pem: bytes = b""


class Listener:
    """A listener that is running."""

    def __init__(self, runner: web.ServerRunner, server: ApiServer, url: str, port: int) -> None:
        self._runner = runner
        self._server = server
        self.url = url
        self.port = port

    async def aclose(self) -> None:
        """End the watches, let the rest finish, and stop listening."""
        self._server.close_watches()
        await stop_serving(self._runner)


async def serve(
    server: ApiServer,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: Tls | None = None,
    tokens: Mapping[str, User] | None = None,
) -> Listener:
    """Start listening. Without `tls` it's plain HTTP, for tests; then, too, only known tokens get in."""
    server.authenticator.trust(tokens or {})
    handler = _Handler(server)
    low_level = web.Server(
        handler.handle,
        handler_cancellation=True,
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
        access_log=None,
    )
    runner = web.ServerRunner(low_level, shutdown_timeout=_STOP_SECONDS)
    await runner.setup()
    site = web.TCPSite(runner, host, port, ssl_context=None if tls is None else _ssl_context(tls))
    await site.start()
    bound = runner.addresses[0][1]
    shown = f"[{host}]" if ":" in host else host
    return Listener(runner, server, f"{'http' if tls is None else 'https'}://{shown}:{bound}", bound)


def _ssl_context(tls: Tls) -> ssl.SSLContext:
    context = server_context(tls.key_pair)
    if tls.client_authority_pem:
        context.load_verify_locations(cadata=tls.client_authority_pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


class _Handler:
    """Turns HTTP requests into the server's, and its answers into HTTP's."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._in_flight = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            user = self._user(request)
            if self._in_flight >= MAX_IN_FLIGHT:
                raise too_many_requests("too many requests, please try again later.", retry_after_seconds=1)
            self._in_flight += 1
            try:
                answer = await self._server.handle(await _read(request), user)
            finally:
                self._in_flight -= 1
        except StatusError as error:
            answer = refusal(error)
        if isinstance(answer, Watcher):
            return await _stream(request, answer)
        return _whole(request, await compressed(answer, request.headers.get("Accept-Encoding", "")))

    def _user(self, request: web.BaseRequest) -> User:
        certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
        user = self._server.authenticator.authenticate(request.headers.get("authorization", ""), certificate)
        if user is None:
            if not request.path.startswith(PUBLIC_PATHS):
                raise unauthorized()
            return ANONYMOUS
        return impersonated(user, request.headers.items(), self._server.authorizer)


async def _read(request: web.BaseRequest) -> Request:
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise too_large(MAX_BODY_BYTES)
    chunks: list[bytes] = []
    size = 0
    if request.can_read_body:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                async for chunk in request.content.iter_any():
                    size += len(chunk)
                    if size > MAX_BODY_BYTES:
                        raise too_large(MAX_BODY_BYTES)
                    chunks.append(chunk)
        except TimeoutError:
            raise timeout(f"the body did not arrive within {REQUEST_SECONDS:g} s") from None
    return Request(
        method=request.method,
        path=unquote(request.rel_url.raw_path),
        query=tuple(request.query.items()),
        headers={key.lower(): value for key, value in request.headers.items()},
        body=b"".join(chunks),
    )


def _whole(request: web.BaseRequest, answer: Response) -> web.Response:
    body = b"" if request.method == "HEAD" else answer.body
    response = web.Response(status=answer.status, headers=answer.headers, body=body)
    if answer.status == 413:
        response.force_close()  # the rest of the body is not worth reading
    return response


async def _stream(request: web.BaseRequest, watcher: Watcher) -> web.StreamResponse:
    response = web.StreamResponse(status=watcher.status, headers=watcher.headers)
    response.enable_chunked_encoding()
    try:
        await response.prepare(request)
        async for chunk in watcher:
            async with asyncio.timeout(REQUEST_SECONDS):
                await response.write(chunk)
        await response.write_eof()
    except (ConnectionResetError, TimeoutError):
        log.debug("a watch of %s ended: the client is gone", request.path)
    finally:
        await watcher.aclose()
    return response
