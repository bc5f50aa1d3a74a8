"""Connections to a server behind a proxy, with aiohttp: `http` has them where a kubeconfig names a proxy."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from bosket.kube.carrier import KEEP_SECONDS, ClusterConfig, Limits, NeverSent, Outgoing
from bosket.kube.credentials import Certificate
from bosket.kube.errors import failure_in_words
from bosket.kube.http_connection import Broken, Head


class ProxiedCarrier:
    """Two sessions, so that many watches never leave a write waiting."""

    def __init__(
        self, certificate: Certificate | None, config: ClusterConfig, context: ssl.SSLContext, limits: Limits
    ) -> None:
        self.certificate = certificate
        self._config, self._limits = config, limits
        self._requests = _session(context, limits.connections)
        self._streams = _session(context, 0)

    async def ask(self, request: Outgoing, timeout_seconds: float) -> tuple[Head, bytes]:
        timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=self._limits.connect_seconds)
        with _as_ours():
            answer = await self._send(self._requests, request, timeout)
            try:
                return _head(answer), await answer.read()
            finally:
                answer.release()

    async def open(self, request: Outgoing) -> _ProxiedStream:
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self._limits.connect_seconds, sock_read=self._limits.idle_seconds
        )
        with _as_ours():
            return _ProxiedStream(await self._send(self._streams, request, timeout))

    async def aclose(self) -> None:
        await end_session(self._requests)
        await end_session(self._streams)

    async def _send(
        self, session: aiohttp.ClientSession, request: Outgoing, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        headers: CIMultiDict[str] = CIMultiDict(request.headers)
        if not self._config.compression:
            headers["Accept-Encoding"] = "identity"
        return await session.request(
            request.method,
            URL(self._config.server + request.target, encoded=True),
            headers=headers,
            data=request.body or None,
            timeout=timeout,
            allow_redirects=False,
            proxy=self._config.proxy_url,
            server_hostname=self._config.tls_server_name,
        )


class _ProxiedStream:
    """A streamed answer."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.head = _head(answer)
        self._answer = answer

    async def read(self) -> bytes:
        with _as_ours():
            return await self._answer.content.readany()

    async def close(self) -> None:
        # Not `release`, which would wait for the rest: a watch has no end. And not a polite end of TLS either, for
        # which the server may take its time, perhaps longer than the event loop lives.
        connection = self._answer.connection
        transport = connection.transport if connection is not None else None
        self._answer.close()
        if transport is not None:
            transport.abort()
            await asyncio.sleep(0)  # The socket closes in the loop's next round.


async def end_session(session: aiohttp.ClientSession) -> None:
    """Closes all connections of a session at once."""
    if session.connector is not None:
        # No polite end of TLS, for which the server may take longer than the event loop lives.
        await session.connector.close(abort_ssl=True)
    await session.close()


def _session(context: ssl.SSLContext, connection_limit: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, limit=connection_limit, keepalive_timeout=KEEP_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


def _head(answer: aiohttp.ClientResponse) -> Head:
    headers: dict[str, str] = {}
    for name, value in answer.headers.items():
        key = name.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return Head(answer.status, headers, is_last=False)


@contextmanager
def _as_ours() -> Iterator[None]:
    """Raises aiohttp's errors as those that a `Carrier` promises."""
    try:
        yield
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise NeverSent(failure_in_words(error)) from error
    except aiohttp.ClientError as error:
        raise Broken(failure_in_words(error)) from error
