"""OpenAPI documents, for `kubectl explain` and for clients that ask what they may send.

Version 3 has a document for each group and version, version 2 one for all. Schemas of built-in kinds come from their
Structs, those of custom resources from their definitions. Documents are made when asked for, and kept until a kind
comes or goes.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from bosket.api.object import ObjectMeta
from bosket.apiserver.answer import JSON_HEADERS
from bosket.apiserver.kind import Kind, Registry, Version
from bosket.apiserver.openapi_paths import paths_of
from bosket.apiserver.openapi_schema import component_prefix, custom_schema, struct_schemas
from bosket.apiserver.status import not_acceptable
from bosket.kube.transport import Response

_INFO = {"title": "Kubernetes", "version": "v1.37.0"}


class OpenApi:
    """Answers /openapi."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._revision = -1
        self._documents: dict[str, bytes] = {}

    def answer(self, path: str, accept: str) -> Response | None:
        if not path.startswith("/openapi/"):
            return None
        if "json" not in accept and "*/*" not in accept and accept:
            raise not_acceptable("application/json")
        if self._revision != self._registry.revision:
            self._documents.clear()
            self._revision = self._registry.revision
        body = self._documents.get(path)
        if body is None:
            document = self._document(path)
            if document is None:
                return None
            body = self._documents[path] = msgspec.json.encode(document)
        return Response(200, {**JSON_HEADERS, "etag": f'"{_hash(body)}"'}, body)

    def _document(self, path: str) -> dict[str, Any] | None:
        if path == "/openapi/v2":
            return self._version2()
        if path == "/openapi/v3":
            revision = _hash(str(self._registry.revision).encode())
            return {
                "paths": {
                    each: {"serverRelativeURL": f"/openapi/v3/{each}?hash={revision}"}
                    for each in self._group_versions()
                }
            }
        kinds = self._group_versions().get(path.removeprefix("/openapi/v3/"))
        if kinds is None:
            return None
        schemas: dict[str, Any] = {}
        paths: dict[str, Any] = {}
        for kind, version in kinds:
            name = _add_schemas(schemas, kind, version, "#/components/schemas/")
            paths |= paths_of(kind, version, f"#/components/schemas/{name}")
        return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": schemas}}

    def _group_versions(self) -> dict[str, list[tuple[Kind, Version]]]:
        found: dict[str, list[tuple[Kind, Version]]] = {}
        for kind in self._registry:
            for version in kind.versions.values():
                prefix = f"apis/{kind.group}/{version.name}" if kind.group else f"api/{version.name}"
                found.setdefault(prefix, []).append((kind, version))
        return found

    def _version2(self) -> dict[str, Any]:
        definitions: dict[str, Any] = {}
        for kind in self._registry:
            for version in kind.versions.values():
                _add_schemas(definitions, kind, version, "#/definitions/")
        return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": definitions}


def _add_schemas(schemas: dict[str, Any], kind: Kind, version: Version, reference: str) -> str:
    """Put the kind's schema, and what it refers to, into `schemas`; its name."""
    prefix = component_prefix(kind.group, version.name)
    name = f"{prefix}.{kind.kind}"
    if version.strategy.struct is not None:
        schemas |= struct_schemas(version.strategy.struct, prefix, reference)
    else:
        meta = component_prefix("meta.k8s.io", "v1")
        schemas |= struct_schemas(ObjectMeta, meta, reference)
        raw = version.schema() if version.schema is not None else {"type": "object"}
        schemas[name] = custom_schema(raw, f"{reference}{meta}.ObjectMeta")
    identity = [{"group": kind.group, "version": version.name, "kind": kind.kind}]
    schemas[name] = {**schemas.get(name, {"type": "object"}), "x-kubernetes-group-version-kind": identity}
    return name


def _hash(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:32].upper()
