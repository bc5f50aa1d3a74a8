"""Keeps web pages out of what a process answers over HTTP without authentication.

A page that a person looks at can make the browser send requests to 127.0.0.1. The browser says so: in `Sec-Fetch-Site`
and, where something is posted or read by a script, in `Origin`. A page whose own name resolves to 127.0.0.1 (DNS
rebinding) counts as the same origin; it is known by the name in `Host`. Programs (curl, Prometheus, kubelets, `bosket`)
send neither of the first two.

`local_server` and `health` refuse with what `foreign_page` says.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiohttp import web

#: What a request that is meant for this machine calls it in its Host header.
_OWN_NAME: Final = re.compile(r"(127(\.\d{1,3}){3}|localhost|\[::1\])(:\d+)?", re.IGNORECASE)
#: `none`: a person typed the address.
_OWN_SITES: Final = ("same-origin", "none")
#: What a browser may do with answers, where it gets one after all.
_HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin"}

Handler = Callable[["web.Request"], Awaitable["web.StreamResponse"]]


def foreign_page(host: str, headers: Mapping[str, str], *, local: bool) -> str:
    """Why a request is refused as one that a web page from elsewhere made; empty if it isn't.

    `local` servers also refuse who calls them by a name that isn't this machine's.
    """
    if local and not _OWN_NAME.fullmatch(host):
        return "only asked for as 127.0.0.1 or localhost is this answered"
    site = headers.get("Sec-Fetch-Site", "none").strip().lower()
    if site not in _OWN_SITES:
        return f"not answered to web pages from elsewhere (Sec-Fetch-Site: {site[:40]})"
    origin = headers.get("Origin")
    if origin is not None and origin.strip().lower() != f"http://{host}".lower():
        return f"not answered to web pages from elsewhere (Origin: {origin[:80]})"
    return ""


def is_loopback(host: str) -> bool:
    """Whether a server that listens there is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def guarded(handler: Handler, *, local: bool) -> Handler:
    """A handler that refuses what `foreign_page` names."""
    from aiohttp import web  # who only decides does without it

    async def handle(request: web.Request) -> web.StreamResponse:
        if why := foreign_page(request.host, request.headers, local=local):
            return web.Response(status=403, text=f"{why}\n")
        answer = await handler(request)
        answer.headers.update(_HEADERS)
        return answer

    return handle
