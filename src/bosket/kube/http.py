"""HttpTransport: HTTP over TLS.

Connections for requests are pooled. A watch has a connection of its own, so that many watches never delay a write.
Created by `bosket.kube.kubeconfig.connect`; connections open on first use, inside the event loop. A server behind a
proxy is reached with aiohttp (`proxied_http`), any other directly (`http_connection`), which costs less.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from bosket.kube.carrier import KEEP_SECONDS, AnswerStream, Carrier, ClusterConfig, Limits, NeverSent, Outgoing
from bosket.kube.credentials import Certificate, Credential
from bosket.kube.errors import ConfigError, TransportError, failure_in_words
from bosket.kube.http_connection import Connection, Head, connect
from bosket.kube.transport import Request, Response, Stream

#: Rounds of the event loop after which cancelled connections are closed.
CLOSING_ROUNDS: Final = 5
#: Characters that may stand in a path as they are, beside letters and digits.
_PATH_SAFE: Final = "/:@!$&'()*+,;=~-._"
_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9/:@!$&'()*+,;=~._-]*")
#: Characters that can't be in a header: they would end it and start another.
_NO_HEADER: Final = re.compile(r"[\r\n\0]")
#: Methods that may be sent again on a new connection when the server closed the old one without an answer.
_REPEATABLE: Final = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})


class HttpTransport:
    """Carries requests to one server. Repeats a request only after a 401."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        timeout_seconds: float = 60.0,
        connect_timeout_seconds: float = 10.0,
        idle_limit_seconds: float = 180.0,
        connection_limit: int = 64,
    ) -> None:
        """`idle_limit_seconds`: a watch without any data for so long, not even a bookmark, counts as broken."""
        self._config = config
        self._timeout_seconds = timeout_seconds
        self._limits = Limits(connect_timeout_seconds, idle_limit_seconds, connection_limit)
        self._carrier: Carrier | None = None
        self._retired: Carrier | None = None

    async def request(self, request: Request) -> Response:
        credential = await self._config.credentials.current()
        answer = await self._ask_as(credential, request)
        if answer.status == 401:
            other = await self._config.credentials.after_refusal(credential)
            if other is not None:
                return await self._ask_as(other, request)
        return answer

    async def stream(self, request: Request) -> Stream:
        credential = await self._config.credentials.current()
        answer = await self._open_as(credential, request)
        if answer.status == 401:
            other = await self._config.credentials.after_refusal(credential)
            if other is not None:
                await answer.aclose()
                return await self._open_as(other, request)
        return answer

    async def aclose(self) -> None:
        open_ones = (self._carrier, self._retired)
        self._carrier = self._retired = None
        for carrier in open_ones:
            if carrier is not None:
                await carrier.aclose()
        # A connection whose request was cancelled closes in the next rounds of the event loop, if it gets any.
        for _ in range(CLOSING_ROUNDS):
            await asyncio.sleep(0)

    async def _ask_as(self, credential: Credential, request: Request) -> Response:
        total = self._timeout_seconds if request.timeout_seconds is None else request.timeout_seconds
        try:
            carrier = await self._carrier_for(credential)
            head, body = await carrier.ask(self._outgoing(credential, request), total)
        # ValueError: of an address or a header that can't be one, as a kubeconfig may have it.
        except (TimeoutError, OSError, ValueError) as error:
            raise _transport_error(request, error, self._config.server) from error
        return Response(head.status, head.headers, body)

    async def _open_as(self, credential: Credential, request: Request) -> _HttpStream:
        try:
            carrier = await self._carrier_for(credential)
            return _HttpStream(request, await carrier.open(self._outgoing(credential, request)))
        except (TimeoutError, OSError, ValueError) as error:
            raise _transport_error(request, error, self._config.server) from error

    def _outgoing(self, credential: Credential, request: Request) -> Outgoing:
        # Of names that differ in their case alone, the last one counts.
        own = {name.lower(): (name, value) for name, value in request.headers.items()}
        headers = (*own.values(), *self._config.impersonation)
        if credential.authorization is not None:
            headers += (("Authorization", credential.authorization),)
        path = request.path if _PLAIN_PATH.fullmatch(request.path) else quote(request.path, safe=_PATH_SAFE)
        target = f"{path}?{urlencode(request.query)}" if request.query else path
        return Outgoing(request.method, target, headers, request.body)

    async def _carrier_for(self, credential: Credential) -> Carrier:
        """The open connections; new ones when the client certificate was renewed, since connections are bound to it."""
        carrier = self._carrier
        if carrier is not None and carrier.certificate == credential.certificate:
            return carrier
        context = _tls_context(self._config, credential.certificate)
        fresh = self._carrier = self._make_carrier(credential.certificate, context)
        # Old connections may be in use for some minutes, so they are closed at the renewal after this one.
        longest_retired, self._retired = self._retired, carrier
        if longest_retired is not None:
            await longest_retired.aclose()
        return fresh

    def _make_carrier(self, certificate: Certificate | None, context: ssl.SSLContext) -> Carrier:
        if self._config.proxy_url:
            from bosket.kube.proxied_http import ProxiedCarrier

            return ProxiedCarrier(certificate, self._config, context, self._limits)
        return _DirectCarrier(certificate, self._config, context, self._limits)


class _DirectCarrier:
    """Connections straight to the server, those of requests kept for the next ones."""

    def __init__(
        self, certificate: Certificate | None, config: ClusterConfig, context: ssl.SSLContext, limits: Limits
    ) -> None:
        self.certificate = certificate
        url = urlsplit(config.server)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(f"{config.server!r} is no address of a server, such as https://name:6443")
        self._host = url.hostname
        self._port = url.port or (443 if url.scheme == "https" else 80)
        self._context = context if url.scheme == "https" else None
        self._server_name = config.tls_server_name
        self._encoding = f"Accept-Encoding: {'gzip' if config.compression else 'identity'}\r\n"
        self._base = url.path.rstrip("/")
        self._headers = f" HTTP/1.1\r\nHost: {url.netloc.rpartition('@')[2]}\r\n"
        self._limits = limits
        self._turns = asyncio.Semaphore(limits.connections)
        self._idle: list[tuple[float, Connection]] = []  # since when, the latest last
        self._open: set[Connection] = set()

    async def ask(self, request: Outgoing, timeout_seconds: float) -> tuple[Head, bytes]:
        content = self._encode(request)
        async with self._turns:
            kept = self._take_idle()
            if kept is not None:
                try:
                    return await self._ask_on(kept, content, timeout_seconds)
                except OSError:
                    # The server may have closed the idle connection while the request was being sent.
                    if kept.has_answered or request.method not in _REPEATABLE:
                        raise
            return await self._ask_on(await self._connect(), content, timeout_seconds)

    async def open(self, request: Outgoing) -> AnswerStream:
        content = self._encode(request)
        connection = await self._connect()
        try:
            await connection.open(content, self._limits.idle_seconds)
        except BaseException:
            self._forget(connection)
            raise
        return _DirectStream(connection, self._limits.idle_seconds, self._forget)

    async def aclose(self) -> None:
        for connection in [*self._open]:
            self._forget(connection)
        self._idle.clear()

    async def _ask_on(self, connection: Connection, content: bytes, timeout_seconds: float) -> tuple[Head, bytes]:
        try:
            return await connection.ask(content, timeout_seconds)
        finally:
            if connection.is_reusable:
                self._idle.append((asyncio.get_running_loop().time(), connection))
            else:
                self._forget(connection)

    def _take_idle(self) -> Connection | None:
        while self._idle:
            since, connection = self._idle.pop()
            if not connection.is_closed and asyncio.get_running_loop().time() - since < KEEP_SECONDS:
                return connection
            self._forget(connection)
        return None

    async def _connect(self) -> Connection:
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                made = await connect(self._host, self._port, self._context, self._server_name)
        except TimeoutError:
            raise NeverSent("timed out: no connection") from None
        except (OSError, UnicodeError) as error:
            raise NeverSent(failure_in_words(error)) from error
        self._open.add(made)
        return made

    def _forget(self, connection: Connection) -> None:
        # Abort instead of a TLS shutdown, which may outlive the event loop.
        connection.transport.abort()
        self._open.discard(connection)

    def _encode(self, request: Outgoing) -> bytes:
        """The request in bytes; ValueError where a header can't be one."""
        lines = [f"{name}: {value}\r\n" for name, value in request.headers]
        for line in lines:
            if _NO_HEADER.search(line, 0, len(line) - 2):
                raise ValueError(f"a header can't have line breaks: {line!r}")
        if not any(name.lower() == "accept-encoding" for name, _ in request.headers):
            lines.append(self._encoding)
        if request.body or request.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(request.body)}\r\n")
        head = f"{request.method} {self._base}{request.target}{self._headers}{''.join(lines)}\r\n"
        return head.encode() + request.body


class _DirectStream:
    """A streamed answer on its own connection."""

    def __init__(self, connection: Connection, idle_seconds: float, forget: Callable[[Connection], None]) -> None:
        assert connection.head is not None
        self.head = connection.head
        self._connection, self._idle_seconds, self._forget = connection, idle_seconds, forget

    async def read(self) -> bytes:
        return await self._connection.read(self._idle_seconds)

    async def close(self) -> None:
        self._forget(self._connection)
        await asyncio.sleep(0)  # The socket closes in the loop's next round.


class _HttpStream:
    """The body of an answer as it arrives."""

    def __init__(self, request: Request, answer: AnswerStream) -> None:
        self.status = answer.head.status
        self.headers = answer.head.headers
        self._request = request
        self._answer = answer

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._answer.read()
        except (TimeoutError, OSError) as error:
            raise _transport_error(self._request, error) from error
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def read_all(self) -> bytes:
        return b"".join([chunk async for chunk in self])

    async def aclose(self) -> None:
        await self._answer.close()


def _transport_error(request: Request, error: Exception, server: str = "") -> TransportError:
    never_left = isinstance(error, NeverSent | ValueError)
    what = failure_in_words(error)
    if isinstance(error, TimeoutError):
        what = f"timed out ({what})"
    message = f"{request.method} {request.path}: no answer: {what}"
    return TransportError(message, maybe_carried_out=not never_left, why=what, server=server)


def _tls_context(config: ClusterConfig, certificate: Certificate | None) -> ssl.SSLContext:
    try:
        authority = config.certificate_authority.decode() if config.certificate_authority is not None else None
        context = ssl.create_default_context(cadata=authority)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"the certificate authority of {config.server} can't be used: {error}") from error
    # Python 3.13 refuses authorities without key usage and the like, which many clusters have and kubectl accepts.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not config.verify_server:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        _load_client_certificate(context, certificate, config.server)
    return context


def _load_client_certificate(context: ssl.SSLContext, certificate: Certificate, server: str) -> None:
    # OpenSSL takes certificates from files alone. The directory is readable by this user only, and gone right after.
    with tempfile.TemporaryDirectory(prefix="bosket-") as directory:
        path = Path(directory) / "client.pem"
        path.write_bytes(certificate.chain + b"\n" + certificate.key)
        try:
            context.load_cert_chain(path)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"the client certificate and key for {server} can't be used: {error}") from error
