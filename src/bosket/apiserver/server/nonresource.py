"""Paths that are not about objects: discovery, version, health, metrics, OpenAPI."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

import msgspec

from bosket.apiserver.auth import TokenIssuer
from bosket.apiserver.openapi.document import OpenApi
from bosket.apiserver.request.request_info import RequestInfo
from bosket.apiserver.request.response import JSON_HEADERS
from bosket.apiserver.server.discovery import Discovery
from bosket.apiserver.server.metrics import RequestMetrics
from bosket.apiserver.status import method_not_allowed, no_such_path
from bosket.kube.transport import Response

#: The Kubernetes whose API this is.
MAJOR, MINOR = "1", "37"
GIT_VERSION = f"v{MAJOR}.{MINOR}.0+bosket"
_HEALTH = ("healthz", "livez", "readyz")
#: The health checks in the order of the response. All of them pass whenever the server can respond at all.
_CHECKS = ("ping", "log", "storage", "poststarthook/crd-informer-synced", "shutdown")
_TEXT = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}


class NonResource:
    """Answers requests whose attributes name a path; what it answers is the path that was judged, to the letter."""

    def __init__(self, discovery: Discovery, openapi: OpenApi, metrics: RequestMetrics, tokens: TokenIssuer) -> None:
        self._discovery = discovery
        self._openapi = openapi
        self._metrics = metrics
        self._tokens = tokens

    async def respond(self, info: RequestInfo) -> Response:
        path = info.attributes.path
        if info.attributes.verb not in ("get", "head"):
            raise method_not_allowed(info.method)
        accept, known = info.headers.get("accept", ""), info.headers.get("if-none-match", "")
        if not path.startswith("/") or path.startswith("//"):
            raise no_such_path()
        health, slash, check = path[1:].partition("/")
        if health in _HEALTH and (check or not slash):
            return _health(health, check, info.parameters)
        if path.rstrip("/") == "/version":
            return Response(200, JSON_HEADERS, msgspec.json.encode(_version()))
        if path == "/metrics":
            return Response(200, {"content-type": "text/plain; version=0.0.4; charset=utf-8"}, self._metrics.expose())
        if path == "/.well-known/openid-configuration":
            return Response(200, JSON_HEADERS, msgspec.json.encode(self._tokens.discovery()))
        if path == "/openid/v1/jwks":
            return Response(200, {"content-type": "application/jwk-set+json"}, msgspec.json.encode(self._tokens.keys()))
        if path == "/":
            return Response(200, JSON_HEADERS, msgspec.json.encode({"paths": self._paths()}))
        found = self._discovery.respond(path.rstrip("/"), accept, known)  # kube-apiserver bears a slash at the end here
        if found is None:
            found = await self._openapi.respond(path, accept, known, info.query.get("hash", ""))
        if found is None:
            raise no_such_path()
        return found

    def _paths(self) -> list[str]:
        others = ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
        return sorted([*self._discovery.paths(), *others, *(f"/{kind}/{each}" for kind in _HEALTH for each in _CHECKS)])


def _health(kind: str, check: str, query: Sequence[tuple[str, str]]) -> Response:
    """All checks, or one of them; `?verbose` tells which there are, `?exclude=` leaves one out."""
    if check:
        if check not in _CHECKS:
            raise no_such_path()
        return Response(200, _TEXT, b"ok")
    if not any(name == "verbose" for name, _ in query):
        return Response(200, _TEXT, b"ok")
    excluded = {value for name, value in query if name == "exclude"}
    lines = [f"[+]{each} excluded: ok" if each in excluded else f"[+]{each} ok" for each in _CHECKS]
    return Response(200, _TEXT, "\n".join([*lines, f"{kind} check passed", ""]).encode())


def _version() -> dict[str, Any]:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "python",
        "platform": f"{platform.system().lower()}/{machine}",
    }
