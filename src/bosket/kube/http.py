"""The network transport: HTTP over TLS with aiohttp, the only module of this layer that imports it.

Connections for requests and for watches are kept apart: a watch occupies one for minutes, and many watches must not
leave a write waiting. Made by `bosket.kube.kubeconfig.connect`; the sessions open on first use, inside the event loop.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote, urlencode

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from bosket.kube.credentials import Certificate, Credential
from bosket.kube.errors import ConfigError, TransportError
from bosket.kube.kubeconfig import ClusterConfig
from bosket.kube.transport import Request, Response, Stream

#: Rounds of the event loop after which cancelled connections are closed.
CLOSING_ROUNDS = 5
#: Characters that may stand in a path as they are, beside letters and digits.
_PATH_SAFE = "/:@!$&'()*+,;=~-._"


class HttpTransport:
    """Carries requests to one server. Sends a request a second time only when the first was refused with 401."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        timeout_seconds: float = 60.0,
        connect_timeout_seconds: float = 10.0,
        idle_limit_seconds: float = 180.0,
        connection_limit: int = 64,
    ) -> None:
        """`idle_limit_seconds`: a watch on which nothing arrives for so long, not even a bookmark, counts as dead."""
        self._config = config
        self._timeout_seconds = timeout_seconds
        self._connect_timeout_seconds = connect_timeout_seconds
        self._connection_limit = connection_limit
        self._stream_timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=connect_timeout_seconds, sock_read=idle_limit_seconds
        )
        self._sessions: _Sessions | None = None
        self._retired: _Sessions | None = None

    async def request(self, request: Request) -> Response:
        total = self._timeout_seconds if request.timeout_seconds is None else request.timeout_seconds
        timeout = aiohttp.ClientTimeout(total=total, sock_connect=self._connect_timeout_seconds)
        answer = await self._send(request, timeout, streaming=False)
        try:
            body = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _transport_error(request, error) from error
        finally:
            answer.release()
        return Response(answer.status, _lower(answer), body)

    async def stream(self, request: Request) -> Stream:
        return _HttpStream(request, await self._send(request, self._stream_timeout, streaming=True))

    async def aclose(self) -> None:
        open_ones = (self._sessions, self._retired)
        self._sessions = self._retired = None
        for sessions in open_ones:
            if sessions is not None:
                await sessions.aclose()
        # What was being connected when its request was cancelled closes in the loop's next rounds, if it has any.
        for _ in range(CLOSING_ROUNDS):
            await asyncio.sleep(0)

    async def _send(
        self, request: Request, timeout: aiohttp.ClientTimeout, *, streaming: bool
    ) -> aiohttp.ClientResponse:
        credential = await self._config.credentials.current()
        answer = await self._send_as(credential, request, timeout, streaming=streaming)
        if answer.status != 401:
            return answer
        other = await self._config.credentials.after_refusal(credential)
        if other is None:
            return answer
        answer.release()
        return await self._send_as(other, request, timeout, streaming=streaming)

    async def _send_as(
        self, credential: Credential, request: Request, timeout: aiohttp.ClientTimeout, *, streaming: bool
    ) -> aiohttp.ClientResponse:
        sessions = await self._sessions_for(credential)
        headers: CIMultiDict[str] = CIMultiDict(request.headers)
        headers.extend(self._config.impersonation)
        if credential.authorization is not None:
            headers["Authorization"] = credential.authorization
        if not self._config.compression:
            headers["Accept-Encoding"] = "identity"
        session = sessions.streams if streaming else sessions.requests
        try:
            return await session.request(
                request.method,
                self._url(request),
                headers=headers,
                data=request.body or None,
                timeout=timeout,
                allow_redirects=False,
                proxy=self._config.proxy_url,
                server_hostname=self._config.tls_server_name,
            )
        # ValueError: of an address or a header that can't be one, as a kubeconfig may have it.
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise _transport_error(request, error) from error

    def _url(self, request: Request) -> URL:
        text = self._config.server + quote(request.path, safe=_PATH_SAFE)
        if request.query:
            text += "?" + urlencode(request.query)
        return URL(text, encoded=True)

    async def _sessions_for(self, credential: Credential) -> _Sessions:
        """The open sessions; new ones when the client certificate was renewed, since connections are bound to it."""
        sessions = self._sessions
        if sessions is not None and sessions.certificate == credential.certificate:
            return sessions
        context = _tls_context(self._config, credential.certificate)
        fresh = self._sessions = _Sessions(credential.certificate, context, self._connection_limit)
        # The replaced ones may be in use for some more minutes. By the next renewal they are not.
        longest_retired, self._retired = self._retired, sessions
        if longest_retired is not None:
            await longest_retired.aclose()
        return fresh


class _Sessions:
    """The connections made with one client certificate."""

    def __init__(self, certificate: Certificate | None, context: ssl.SSLContext, connection_limit: int) -> None:
        self.certificate = certificate
        self.requests = _session(context, connection_limit)
        self.streams = _session(context, 0)

    async def aclose(self) -> None:
        await end_session(self.requests)
        await end_session(self.streams)


def _session(context: ssl.SSLContext, connection_limit: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, limit=connection_limit, keepalive_timeout=60.0),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


async def end_session(session: aiohttp.ClientSession) -> None:
    """Closes all connections of a session at once."""
    if session.connector is not None:
        # No polite end of TLS, for which the server may take longer than the event loop lives.
        await session.connector.close(abort_ssl=True)
    await session.close()


class _HttpStream:
    """The body of an answer as it arrives."""

    def __init__(self, request: Request, answer: aiohttp.ClientResponse) -> None:
        self.status = answer.status
        self.headers = _lower(answer)
        self._request = request
        self._answer = answer

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._answer.content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _transport_error(self._request, error) from error
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def read_all(self) -> bytes:
        try:
            return await self._answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _transport_error(self._request, error) from error

    async def aclose(self) -> None:
        # Not `release`, which would wait for the rest: a watch has no end. And not a polite end of TLS either, for
        # which the server may take its time, perhaps longer than the event loop lives.
        connection = self._answer.connection
        transport = connection.transport if connection is not None else None
        self._answer.close()
        if transport is not None:
            transport.abort()
            await asyncio.sleep(0)  # The socket closes in the loop's next round.


def _lower(answer: aiohttp.ClientResponse) -> dict[str, str]:
    """By name; one that is there several times (warnings) with all its values."""
    headers: dict[str, str] = {}
    for name, value in answer.headers.items():
        key = name.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return headers


def _transport_error(request: Request, error: Exception) -> TransportError:
    never_left = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | ValueError)
    what = str(error) or type(error).__name__
    if isinstance(error, TimeoutError):
        what = f"timed out ({what})"
    message = f"{request.method} {request.path}: no answer: {what}"
    return TransportError(message, maybe_carried_out=not never_left)


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
