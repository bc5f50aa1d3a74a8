"""Calls a webhook: one POST over TLS, bounded in time and size. The only module here that uses aiohttp as a client.

Connections stay open between questions. The library is loaded when the first webhook is asked.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from bosket.apiserver.admission.webhook.address import Address
from bosket.apiserver.status import JSON

if TYPE_CHECKING:
    import aiohttp

#: Two objects of the largest size, and some.
MAX_ANSWER_BYTES: Final = 7 * 1024 * 1024
_SHOWN_BYTES: Final = 2048
_HEADERS: Final = {"Content-Type": JSON, "Accept": JSON, "User-Agent": "kube-apiserver-admission"}


class CallFailed(Exception):
    """No usable answer came; says why."""


class Caller:
    """Asks webhooks."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            from bosket.kube.proxied_http import end_session

            await end_session(session)

    async def post(self, address: Address, body: bytes, tls: ssl.SSLContext, timeout_seconds: float) -> bytes:
        """The body of the answer, which was a success."""
        import aiohttp
        from yarl import URL

        if self._session is None:
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        try:
            async with self._session.post(
                URL(address.url, encoded=True),
                data=body,
                headers=_HEADERS,
                ssl=tls,
                server_hostname=address.server_name,
                timeout=aiohttp.ClientTimeout(total=timeout_seconds),
                allow_redirects=False,
            ) as response:
                content = await _bounded(response)
                if response.status != 200:
                    raise CallFailed(_unsuccessful(response.status, content))
                return content
        except TimeoutError:
            raise CallFailed(f'Post "{address.shown}": context deadline exceeded') from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise CallFailed(f'Post "{address.shown}": {_described(error)}') from None


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for chunk in response.content.iter_any():
        content += chunk
        if len(content) > MAX_ANSWER_BYTES:
            raise CallFailed(f"the answer is larger than {MAX_ANSWER_BYTES} bytes")
    return bytes(content)


def _unsuccessful(status: int, content: bytes) -> str:
    match status:
        case 404:
            return "the server could not find the requested resource"
        case 400:
            return "the server rejected our request for an unknown reason"
    if status >= 500:
        said = content[:_SHOWN_BYTES].decode(errors="replace").strip() or "unknown"
        return f'an error on the server ("{said}") has prevented the request from succeeding'
    return f"the server responded with the status code {status} but did not return more information"


def _described(error: Exception) -> str:
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
        return f"tls: failed to verify certificate: x509: {reason}"
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = (error.os_error.strerror or str(error.os_error)).lower()
        if isinstance(error.os_error, ConnectionRefusedError):
            reason = "connect: connection refused"
        return f"dial tcp {error.host}:{error.port}: {reason}"
    return str(error) or type(error).__name__
