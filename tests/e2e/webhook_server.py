"""A webhook server for tests: TLS on loopback, each path answered by a function from request to response."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from bosket.runtime.certificates import make_authority
from bosket.runtime.serving import server_context, stop_serving

Review = dict[str, Any]
#: From the `request` of a review to its `response`, or to a whole answer of another form.
Judge = Callable[[Review], Review | web.Response]


class WebhookServer:
    """What was asked is in `asked`, by path."""

    def __init__(self, url: str, ca_pem: bytes) -> None:
        self.url = url
        self.ca_bundle = base64.b64encode(ca_pem).decode()
        self.judges: dict[str, Judge] = {}
        self.asked: dict[str, list[Review]] = {}
        self.uris: list[str] = []

    def hook(self, name: str, judge: Judge, namespace: str, **more: Any) -> Review:
        """A webhook for configurations that is about that namespace alone, and about ConfigMaps unless `rules` say
        otherwise; answered by `judge`.
        """
        path = f"/{name.partition('.')[0]}"
        self.judges[path] = judge
        own = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        return {
            "name": name,
            "clientConfig": {"url": self.url + path, "caBundle": self.ca_bundle},
            "rules": [rule("configmaps", "CREATE", "UPDATE")],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": own,
            "timeoutSeconds": 5,
            **more,
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.uris.append(str(request.rel_url))
        review = json.loads(await request.read())
        asked = review["request"]
        self.asked.setdefault(request.path, []).append(asked)
        answer = self.judges[request.path](asked)
        if isinstance(answer, web.Response):
            return answer
        return web.json_response(
            {
                "apiVersion": review["apiVersion"],
                "kind": "AdmissionReview",
                "response": {"uid": asked["uid"], **answer},
            }
        )


def rule(resource: str, *operations: str, group: str = "", version: str = "v1", **more: Any) -> Review:
    """A rule about one resource."""
    return {
        "operations": list(operations),
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [resource],
        **more,
    }


def allow(_request: Review) -> Review:
    """Whatever it is."""
    return {"allowed": True}


def deny(message: str, **status: Any) -> Judge:
    """Whatever it is, with that message."""
    return lambda _request: {"allowed": False, "status": {"message": message, **status}}


def patching(*operations: Review) -> Judge:
    """Agrees, and changes the object."""
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _request: {"allowed": True, "patchType": "JSONPatch", "patch": patch}


@asynccontextmanager
async def serving_webhooks(*, dns: tuple[str, ...] = ()) -> AsyncIterator[WebhookServer]:
    """Serve while the block runs; the certificate is for loopback, and for `dns`."""
    authority = make_authority("webhooks")
    pair = authority.issue("webhook", ips=("127.0.0.1",), dns=dns, server=True)
    server = WebhookServer("", authority.cert_pem)
    runner = web.ServerRunner(web.Server(server.handle, access_log=None), shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_context(pair)).start()
        server.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        await stop_serving(runner)
