"""The network listener: HTTP before the server, with TLS and authentication. The one module that serves with aiohttp.

Everything of Kubernetes happens in `ApiServer.handle`; here are bytes, limits and time-outs. Listens on loopback unless
configured otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from aiohttp import web

from bosket.apiserver.auth import ANONYMOUS, PUBLIC_PATHS
from bosket.apiserver.auth.impersonation import impersonated
from bosket.apiserver.handlers.watch import Watcher
from bosket.apiserver.http.connection import HEADER_SECONDS, MAX_CONNECTIONS, LimitedServer
from bosket.apiserver.request.resource_request import User
from bosket.apiserver.server.api_server import ApiServer, refusal
from bosket.apiserver.status import StatusError, timeout, too_large, too_many_requests, unauthorized
from bosket.kube.transport import Request, Response
from bosket.runtime.certificates import KeyPair
from bosket.runtime.serving import server_context, stop_serving

log = logging.getLogger(__name__)

_STOP_SECONDS = 2.0
_SMALL_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What clients may ask of the listener, all of them together and each of them."""

    body_bytes: int = 3 * 1024 * 1024
    #: of all bodies that are being read
    bodies_bytes: int = 256 * 1024 * 1024
    #: requests that are being answered; watches aren't counted once they have begun
    in_flight: int = 400
    connections: int = MAX_CONNECTIONS
    header_seconds: float = HEADER_SECONDS
    #: for the body to arrive, and for each piece of the answer to be taken
    seconds: float = 60.0


DEFAULT_LIMITS = Limits()


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
    limits: Limits = DEFAULT_LIMITS,
) -> Listener:
    """Start listening. Without `tls` it's plain HTTP, for tests; then, too, only known tokens get in."""
    server.authenticator.trust(tokens or {})
    handler = _Handler(server, limits)
    low_level = LimitedServer(handler.handle, max_connections=limits.connections, header_seconds=limits.header_seconds)
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

    def __init__(self, server: ApiServer, limits: Limits) -> None:
        self._server = server
        self._limits = limits
        self._in_flight = 0
        #: of bodies that are being read
        self._reading_bytes = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            user = self._user(request)
            if self._in_flight >= self._limits.in_flight:
                raise _busy()
            self._in_flight += 1
            try:
                response = await self._server.handle(await self._request(request), user)
            finally:
                self._in_flight -= 1
        except StatusError as error:
            response = refusal(error)
        if isinstance(response, Watcher):
            return await self._stream(request, response)
        return await self._whole(request, await compressed(response, request.headers.get("Accept-Encoding", "")))

    def _user(self, request: web.BaseRequest) -> User:
        certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
        user = self._server.authenticator.authenticate(request.headers.get("authorization", ""), certificate)
        if user is None:
            if not request.path.startswith(PUBLIC_PATHS):
                raise unauthorized()
            return ANONYMOUS
        return impersonated(user, request.headers.items(), self._server.authorizer)

    async def _request(self, request: web.BaseRequest) -> Request:
        return Request(
            method=request.method,
            path=unquote(request.rel_url.raw_path),
            query=tuple(request.query.items()),
            headers={key.lower(): value for key, value in request.headers.items()},
            body=await self._body(request) if request.can_read_body else b"",
        )

    async def _body(self, request: web.BaseRequest) -> bytes:
        limits = self._limits
        if (request.content_length or 0) > limits.body_bytes:
            raise too_large(limits.body_bytes)
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(limits.seconds):
                async for chunk in request.content.iter_any():
                    size += len(chunk)
                    self._reading_bytes += len(chunk)
                    if size > limits.body_bytes:
                        raise too_large(limits.body_bytes)
                    if self._reading_bytes > limits.bodies_bytes:
                        raise _busy()
                    chunks.append(chunk)
        except TimeoutError:
            raise timeout(f"the body did not arrive within {limits.seconds:g} s") from None
        finally:
            self._reading_bytes -= size
        return b"".join(chunks)

    async def _whole(self, request: web.BaseRequest, response: Response) -> web.StreamResponse:
        body = b"" if request.method == "HEAD" else response.body
        http_response = web.Response(status=response.status, headers=response.headers, body=body)
        if not request.content.at_eof():
            http_response.force_close()  # the rest of the body is not worth reading
        if len(body) <= _SMALL_BYTES:
            return http_response  # the socket takes it at once, however slow the client is
        try:
            async with asyncio.timeout(self._limits.seconds):
                await http_response.prepare(request)
                await http_response.write_eof()
        except TimeoutError:
            log.debug("an answer to %s %s was not taken", request.method, request.path)
            _abort(request)
        return http_response

    async def _stream(self, request: web.BaseRequest, watcher: Watcher) -> web.StreamResponse:
        http_response = web.StreamResponse(status=watcher.status, headers=watcher.headers)
        http_response.enable_chunked_encoding()
        try:
            await http_response.prepare(request)
            async for chunk in watcher:
                async with asyncio.timeout(self._limits.seconds):
                    await http_response.write(chunk)
            await http_response.write_eof()
        except TimeoutError:
            log.debug("a watch of %s was not read", request.path)
            _abort(request)
        except ConnectionResetError:
            log.debug("a watch of %s ended: the client is gone", request.path)
        finally:
            await watcher.aclose()
        return http_response


def _busy() -> StatusError:
    return too_many_requests("too many requests, please try again later.", retry_after_seconds=1)


def _abort(request: web.BaseRequest) -> None:
    """End the connection without waiting for the client to take what is left."""
    if request.transport is not None:
        request.transport.abort()


#: Below, compressing costs more than it saves.
MIN_BYTES = 128 * 1024
#: From here on others get a turn meanwhile.
_LARGE_BYTES = 1024 * 1024
_FASTEST = 1
#: Tells zlib to write gzip's header and checksum.
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


async def compressed(response: Response, accept_encoding: str) -> Response:
    """The same answer, smaller if it is large and the client understands gzip."""
    if len(response.body) < MIN_BYTES or not _takes_gzip(accept_encoding) or "content-encoding" in response.headers:
        return response
    body = await asyncio.to_thread(_gzip, response.body) if len(response.body) > _LARGE_BYTES else _gzip(response.body)
    return Response(response.status, {**response.headers, "content-encoding": "gzip", "vary": "Accept-Encoding"}, body)


def _takes_gzip(accept_encoding: str) -> bool:
    for choice in accept_encoding.split(","):
        coding, _, weight = choice.partition(";")
        if coding.strip().lower() == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0")
    return False


def _gzip(body: bytes) -> bytes:
    compressor = zlib.compressobj(_FASTEST, zlib.DEFLATED, _GZIP_WINDOW)
    return compressor.compress(body) + compressor.flush()
