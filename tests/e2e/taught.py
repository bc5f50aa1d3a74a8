"""A kind that one test teaches to the cluster, in a group that no other test has."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from bosket.kube.errors import ApiError, NotFound
from bosket.kube.transport import Response
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import Manifest

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = {"content-type": "application/merge-patch+json"}
Cause = tuple[str, str, str]


def fields(**properties: Manifest) -> Manifest:
    """A schema of an object with these fields."""
    return {"type": "object", "properties": properties}


def version(spec: Manifest, name: str = "v1", *, storage: bool = True, **more: Any) -> Manifest:
    """A version whose objects have that spec, and any status."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "status": free}}
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


@dataclass
class Taught:
    """The kind Widget in a group of its own."""

    cluster: Cluster
    group: str

    @property
    def name(self) -> str:
        return f"widgets.{self.group}"

    def path(self, name: str = "", *, version: str = "v1", part: str = "") -> str:
        base = f"/apis/{self.group}/{version}/namespaces/{self.cluster.namespace}/widgets"
        return "/".join(each for each in (base, name, part) if each)

    def definition(self, *versions: Manifest, **names: Any) -> Manifest:
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {
                "group": self.group,
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget", **names},
                "versions": list(versions),
            },
        }

    def widget(self, name: str, spec: Manifest, *, version: str = "v1", **more: Any) -> Manifest:
        metadata = {"name": name, **more.pop("metadata", {})}
        return {"apiVersion": f"{self.group}/{version}", "kind": "Widget", "metadata": metadata, "spec": spec, **more}

    # requests

    async def call(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, **query: str
    ) -> Response:
        about = {"content-type": "application/json", **(headers or {})}
        pairs = tuple(query.items())
        return await self.cluster.client.raw(method, path, query=pairs, body=body, headers=about)

    async def ok(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, **query: str
    ) -> Any:
        return json.loads((await self.call(method, path, body, headers, **query)).body)

    async def refused(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, **query: str
    ) -> ApiError:
        """The error of a request that must fail."""
        try:
            await self.call(method, path, body, headers, **query)
        except ApiError as error:
            return error
        raise AssertionError(f"{method} {path} was not refused: {body}")

    async def causes(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> set[Cause]:
        """What is wrong, by field, of a request that must be refused as invalid."""
        error = await self.refused(method, path, body, headers)
        assert error.code == 422, error
        return {(each.field, each.reason, each.message) for each in error.details.causes}

    async def create(self, name: str, spec: Manifest, **more: Any) -> Any:
        return await self.ok("POST", self.path(version=more.get("version", "v1")), self.widget(name, spec, **more))

    async def get(self, name: str, version: str = "v1") -> Any:
        return await self.ok("GET", self.path(name, version=version))

    async def change(self, name: str, patch: Manifest, part: str = "") -> Any:
        return await self.ok("PATCH", self.path(name, part=part), patch, MERGE)

    # the definition

    async def teach(self, *versions: Manifest, **names: Any) -> Any:
        """Make the definition, and wait until its kind is served."""
        await self.ok("POST", DEFINITIONS, self.definition(*versions, **names))

        async def established() -> Any:
            found = await self.ok("GET", f"{DEFINITIONS}/{self.name}")
            conditions = {each["type"]: each["status"] for each in found["status"].get("conditions") or ()}
            assert conditions.get("Established") == "True"
            return found

        found = await self.cluster.eventually(established)

        async def served() -> bool:
            first = next(each["name"] for each in versions if each["served"])
            return bool(await self.ok("GET", self.path(version=first)))

        await self.cluster.eventually(served)
        return found

    async def change_versions(self, *versions: Manifest) -> None:
        await self.ok("PATCH", f"{DEFINITIONS}/{self.name}", {"spec": {"versions": list(versions)}}, MERGE)


@asynccontextmanager
async def teaching(cluster: Cluster, prefix: str = "") -> AsyncIterator[Taught]:
    """For the length of a test."""
    taught = Taught(cluster, f"{prefix}{cluster.namespace}.example.com")
    try:
        yield taught
    finally:
        with suppress(NotFound):
            await taught.call("DELETE", f"{DEFINITIONS}/{taught.name}")
