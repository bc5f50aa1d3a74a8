"""A server in this process, spoken to as a client would: methods, paths, bodies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bosket.apiserver import ApiServer
from bosket.kube.transport import Request, Stream
from bosket.runtime.clock import LoopClock

Doc = dict[str, Any]
JSON, MERGE, STRATEGIC = (
    "application/json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: Any

    @property
    def message(self) -> str:
        return str(self.body["message"])


class World:
    """A server and what a test says to it."""

    def __init__(self, **options: Any) -> None:
        self.clock = LoopClock()
        self.server = ApiServer(clock=self.clock, **options)
        self.transport = self.server.transport()

    async def call(
        self, method: str, path: str, body: Any = None, content_type: str = JSON, accept: str = "", **query: Any
    ) -> Answer:
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        headers = {"content-type": content_type, "user-agent": "test/1"} | ({"accept": accept} if accept else {})
        pairs = tuple((key, str(value)) for key, value in query.items())
        response = await self.transport.request(Request(method, path, pairs, headers, raw))
        is_json = response.headers.get("content-type", "").startswith(JSON)
        return Answer(response.status, response.headers, json.loads(response.body) if is_json else response.body)

    async def ok(self, method: str, path: str, body: Any = None, content_type: str = JSON, **query: Any) -> Any:
        answer = await self.call(method, path, body, content_type, **query)
        assert answer.status in (200, 201), answer.body
        return answer.body

    async def refused(
        self, status: int, method: str, path: str, body: Any = None, content_type: str = JSON, **query: Any
    ) -> Doc:
        """The Status of a call that must fail."""
        answer = await self.call(method, path, body, content_type, **query)
        assert answer.status == status, answer.body
        assert (answer.body["kind"], answer.body["status"], answer.body["code"]) == ("Status", "Failure", status)
        found: Doc = answer.body
        return found

    async def create_pod(self, name: str = "a", **spec: Any) -> Doc:
        created: Doc = await self.ok("POST", PODS, pod(name, **spec))
        return created

    async def exists(self, path: str) -> bool:
        return (await self.call("GET", path)).status == 200

    async def watch(self, path: str, *, accept: str = "", **query: Any) -> Events:
        pairs = (("watch", "true"), *((key, str(value)) for key, value in query.items()))
        headers = {"accept": accept} if accept else {}
        return Events(await self.transport.stream(Request("GET", path, pairs, headers)))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """With the work behind the requests under way."""
        task = asyncio.create_task(self.server.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def until_gone(self, path: str) -> None:
        """Wait for the object's deletion, as a client would: by watching it."""
        collection, _, name = path.rpartition("/")
        events = await self.watch(collection, fieldSelector=f"metadata.name={name}", resourceVersion="0")
        while await self.exists(path):
            while (await events.next())["type"] != "DELETED":
                pass
        await events.close()


class Events:
    """The events of a watch, one after another."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.status = stream.status
        self._chunks = stream.__aiter__()
        self._rest = b""

    async def next(self) -> Doc:
        async with asyncio.timeout(120):
            while b"\n" not in self._rest:
                self._rest += await anext(self._chunks)
        line, self._rest = self._rest.split(b"\n", 1)
        event: Doc = json.loads(line)
        return event

    async def brief(self) -> tuple[str, str]:
        """Type and name of the next event."""
        event = await self.next()
        return event["type"], event["object"]["metadata"].get("name", "")

    async def ended(self) -> bool:
        async with asyncio.timeout(120):
            return await anext(self._chunks, None) is None

    async def close(self) -> None:
        await self.stream.aclose()


def pod(name: str = "a", *, labels: dict[str, str] | None = None, metadata: Doc | None = None, **spec: Any) -> Doc:
    """A manifest with one container, and whatever else is said."""
    about: Doc = {"name": name, **(metadata or {})}
    if labels:
        about["labels"] = labels
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": about,
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}], **spec},
    }


def config_map(name: str = "a", data: dict[str, str] | None = None, **metadata: Any) -> Doc:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data or {}}


def definition(schema: Doc | None = None, *, scope: str = "Namespaced", **version: Any) -> Doc:
    """The definition of a kind Widget; `schema` is that of its spec."""
    properties = {"spec": schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    properties["status"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": scope,
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
                    **version,
                }
            ],
        },
    }


WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def widget(name: str = "w", spec: Doc | None = None, **metadata: Any) -> Doc:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
        "spec": spec or {},
    }
