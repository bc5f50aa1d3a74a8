"""Health server: /metrics for Prometheus, /healthz and /readyz for the kubelet.

Healthy: the event loop answers. Ready: every check passes; for services, that the informers are synced. Both answer 200
`ok`, or 503 with one line per failed check. The server listens on loopback by default, and refuses requests of foreign
web pages.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, exposition

from bosket.runtime.browser_guard import guarded, is_loopback

if TYPE_CHECKING:
    from aiohttp import web

_log = logging.getLogger(__name__)

#: Whether a part of the process is ready, by the name that /readyz shows.
Checks = Mapping[str, Callable[[], bool]]


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; port 0 takes any that is free."""

    host: str = "127.0.0.1"
    port: int = 0


@asynccontextmanager
async def serve_health(registry: CollectorRegistry, checks: Checks, address: Address) -> AsyncIterator[str]:
    """Serve while the block runs; gives the URL."""
    from aiohttp import web  # who only decides does without it

    runner = web.AppRunner(
        _application(registry, checks, local=is_loopback(address.host)), access_log=None, shutdown_timeout=1.0
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, address.host, address.port)
        await site.start()
        url = url_of(runner, address.host)
        _log.info("serving metrics and health", extra={"url": url})
        yield url
    finally:
        await runner.cleanup()


def _application(registry: CollectorRegistry, checks: Checks, *, local: bool) -> web.Application:
    from aiohttp import web

    async def metrics(request: web.Request) -> web.Response:
        encode, content_type = exposition.choose_encoder(request.headers.get("Accept", ""))
        # On the event loop: collectors read services' state and rely on nothing changing meanwhile.
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    async def healthy(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(_: web.Request) -> web.Response:
        results = {name: check() for name, check in checks.items()}

        if all(results.values()):
            return web.Response(text="ok\n")
        lines = (f"{name}: {'ok' if passed else 'not ready'}\n" for name, passed in results.items())
        return web.Response(status=503, text="".join(lines))

    application = web.Application()
    application.add_routes(
        [
            web.get(path, guarded(handler, local=local))
            for path, handler in (
                ("/metrics", metrics),
                ("/healthz", healthy),
                ("/livez", healthy),
                ("/readyz", ready),
            )
        ]
    )
    return application


def url_of(runner: web.AppRunner, host: str) -> str:
    """Where a server that has started is reached."""
    port = runner.addresses[0][1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
