"""Paths that are not about objects: discovery, version, health, metrics, OpenAPI."""

from __future__ import annotations

import platform
from typing import Any

import msgspec

from bosket.apiserver.answer import JSON_HEADERS
from bosket.apiserver.auth import TokenIssuer
from bosket.apiserver.discovery import Discovery
from bosket.apiserver.metrics import RequestMetrics
from bosket.apiserver.openapi import OpenApi
from bosket.apiserver.status import method_not_allowed, no_such_path
from bosket.kube.transport import Request, Response

#: The Kubernetes whose API this is.
MAJOR, MINOR = "1", "37"
GIT_VERSION = f"v{MAJOR}.{MINOR}.0+bosket"
_HEALTH = ("/healthz", "/livez", "/readyz")
_TEXT = {"content-type": "text/plain; charset=utf-8"}


class NonResource:
    """Answers what `parse_call` says is no resource."""

    def __init__(self, discovery: Discovery, openapi: OpenApi, metrics: RequestMetrics, tokens: TokenIssuer) -> None:
        self._discovery = discovery
        self._openapi = openapi
        self._metrics = metrics
        self._tokens = tokens

    def answer(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed(request.method)
        path = request.path.rstrip("/") or "/"
        accept = next((value for key, value in request.headers.items() if key.lower() == "accept"), "")
        if path in _HEALTH or path.startswith(tuple(f"{each}/" for each in _HEALTH)):
            return Response(200, _TEXT, b"ok")
        if path == "/version":
            return Response(200, JSON_HEADERS, msgspec.json.encode(_version()))
        if path == "/metrics":
            return Response(200, {"content-type": "text/plain; version=0.0.4"}, self._metrics.expose())
        if path == "/.well-known/openid-configuration":
            return Response(200, JSON_HEADERS, msgspec.json.encode(self._tokens.discovery()))
        if path == "/openid/v1/jwks":
            return Response(200, {"content-type": "application/jwk-set+json"}, msgspec.json.encode(self._tokens.keys()))
        if path == "/":
            return Response(
                200, JSON_HEADERS, msgspec.json.encode({"paths": ["/api", "/apis", "/healthz", "/version"]})
            )
        found = self._discovery.answer(path, accept) or self._openapi.answer(path, accept)
        if found is None:
            raise no_such_path()
        return found


def _version() -> dict[str, Any]:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "python",
        "platform": f"{platform.system().lower()}/{machine}",
    }
