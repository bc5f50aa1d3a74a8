"""OpenAPI documents, for `kubectl explain` and for clients that check before they send."""

from __future__ import annotations

from bosket.apiserver.kind import Registry
from bosket.kube.transport import Response


class OpenApi:
    """Answers /openapi."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def answer(self, path: str, accept: str) -> Response | None:
        return None
