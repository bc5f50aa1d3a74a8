"""Requests as they go over the wire, for tests of what an answer is to the letter: status, warnings, body.

The typed client retries, raises and decodes; here nothing is done to an answer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from bosket.kube import transport
from bosket.kube.client import PatchType
from bosket.kube.credentials import Credential, FixedCredential
from bosket.kube.http import HttpTransport
from bosket.kube.kubeconfig import find
from bosket.kube.transport import Request
from tests.e2e.cluster import Cluster

JSON = "application/json"


@dataclass(frozen=True)
class Answer:
    """What the server said."""

    status: int
    headers: dict[str, str]
    body: Any

    @property
    def message(self) -> str:
        return str(self.body["message"])

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def warnings(self) -> str:
        """All of them; empty if there is none."""
        return self.headers.get("warning", "").replace('\\"', '"')

    @property
    def causes(self) -> list[tuple[str, str]]:
        """Reason and field of each cause of a refusal."""
        causes = (self.body.get("details") or {}).get("causes") or ()
        return [(each.get("reason", ""), each.get("field", "")) for each in causes]

    def managers(self) -> dict[tuple[str, str, str], Any]:
        """What is owned, by manager, operation and subresource."""
        return {
            (each["manager"], each["operation"], each.get("subresource", "")): each["fieldsV1"]
            for each in self.body["metadata"].get("managedFields", ())
        }


class Stream:
    """The events of a watch, one after another."""

    def __init__(self, stream: transport.Stream) -> None:
        self._chunks = aiter(stream)
        self._rest = b""

    async def next(self) -> Any:
        """The next event; None when the server has ended the watch."""
        async with asyncio.timeout(120):
            while b"\n" not in self._rest:
                chunk = await anext(self._chunks, None)
                if chunk is None:
                    return None
                self._rest += chunk
        line, self._rest = self._rest.split(b"\n", 1)
        return json.loads(line)

    async def brief(self) -> tuple[str, str]:
        """Type and name of the next event about an object."""
        event = await self.next()
        return event["type"], event["object"]["metadata"]["name"]


class Wire:
    """Sends requests about one resource, by default in the test's namespace."""

    def __init__(self, carrier: HttpTransport, namespace: str) -> None:
        self._transport = carrier
        self._namespace = namespace

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        agent: str = "",
        encoding: str = "identity",
        **query: str,
    ) -> Answer:
        """Any request; a body that isn't bytes is sent as JSON."""
        encoded = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": content_type, "Accept": accept, "Accept-Encoding": encoding}
        headers |= {"User-Agent": agent} if agent else {}
        answer = await self._transport.request(Request(method, path, tuple(query.items()), headers, encoded))
        try:
            decoded = json.loads(answer.body)
        except ValueError:
            decoded = answer.body.decode()
        return Answer(answer.status, answer.headers, decoded)

    def path(self, resource: str, name: str = "") -> str:
        """`pods`, `apps/v1/deployments`: where a resource of the namespace is."""
        prefix, _, plural = resource.rpartition("/")
        group = f"/apis/{prefix}" if prefix else "/api/v1"
        return f"{group}/namespaces/{self._namespace}/{plural}" + (f"/{name}" if name else "")

    async def list(self, resource: str, *, accept: str = JSON, **query: str) -> Answer:
        return await self.send("GET", self.path(resource), accept=accept, **query)

    @asynccontextmanager
    async def watch(self, path: str, *, accept: str = JSON, **query: str) -> AsyncIterator[Stream]:
        """A watch that was granted; its events are for the caller to read."""
        pairs = tuple({"watch": "true", "timeoutSeconds": "20", **query}.items())
        stream = await self._transport.stream(Request("GET", path, pairs, {"Accept": accept}))
        try:
            assert stream.status == 200, await stream.read_all()
            yield Stream(stream)
        finally:
            await stream.aclose()

    async def get(self, resource: str, name: str) -> Answer:
        return await self.send("GET", self.path(resource, name))

    async def create(self, resource: str, body: Any, *, agent: str = "", **query: str) -> Answer:
        return await self.send("POST", self.path(resource), body, agent=agent, **query)

    async def replace(self, resource: str, name: str, body: Any, *, agent: str = "", **query: str) -> Answer:
        return await self.send("PUT", self.path(resource, name), body, agent=agent, **query)

    async def patch(
        self, resource: str, name: str, body: Any, kind: PatchType, *, agent: str = "", **query: str
    ) -> Answer:
        return await self.send("PATCH", self.path(resource, name), body, content_type=kind, agent=agent, **query)

    async def apply(self, resource: str, name: str, body: Any, manager: str, **query: str) -> Answer:
        """Server-side apply."""
        query["fieldManager"] = manager
        return await self.patch(resource, name, body, PatchType.APPLY, **query)

    async def delete(self, resource: str, name: str, body: Any = None, **query: str) -> Answer:
        return await self.send("DELETE", self.path(resource, name), body, **query)


@asynccontextmanager
async def on_the_wire(
    cluster: Cluster, *, user: str = "", groups: Iterable[str] = (), credential: Credential | None = None
) -> AsyncIterator[Wire]:
    """Requests with the rights of the cluster's administrator, or as somebody else.

    The administrator may act as a `user` in `groups`. A `credential` is shown in place of the administrator's; an empty
    one is nobody's.
    """
    config = find(cluster.kubeconfig)
    if user or groups:
        named = [("Impersonate-User", user)] if user else []
        config = replace(config, impersonation=(*named, *(("Impersonate-Group", group) for group in groups)))
    if credential is not None:
        config = replace(config, credentials=FixedCredential(credential))
    carrier = HttpTransport(config)
    try:
        yield Wire(carrier, cluster.namespace)
    finally:
        await carrier.aclose()
