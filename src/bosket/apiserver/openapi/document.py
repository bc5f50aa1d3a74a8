"""OpenAPI documents, for `kubectl explain` and for clients that ask what they may send.

Version 3 has a document for each group and version, version 2 one for all. Schemas of built-in kinds come from their
Structs, those of custom resources from their definitions. Documents are made when asked for, and kept until a kind
comes or goes. Each has a hash that depends on nothing but what is in it, so that clients may keep it, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from bosket import __version__
from bosket.api.authentication import TokenRequest
from bosket.api.autoscaling import Scale
from bosket.api.core import Binding
from bosket.api.policy import Eviction
from bosket.apiserver.objects.kind import Kind, Registry, Version
from bosket.apiserver.openapi.paths import paths_in_version_2, paths_of
from bosket.apiserver.openapi.protobuf import CONTENT_TYPE, MEDIA_TYPES, encode_document
from bosket.apiserver.openapi.schema import (
    META,
    V2,
    V3,
    Dialect,
    add_struct,
    component_name,
    component_prefix,
    custom_schema,
    list_schema,
    meta_struct,
)
from bosket.apiserver.request.executor import LARGE_BYTES, LargeObjectExecutor
from bosket.apiserver.request.response import JSON_HEADERS
from bosket.apiserver.status import JSON, not_acceptable
from bosket.kube.transport import Response

_INFO = {"title": "Kubernetes", "version": "v1.37.0"}
#: Who asks with the right hash may keep the answer for good.
_FOREVER = {"cache-control": "public, immutable"}
_PARTS: dict[str, type[msgspec.Struct]] = {
    "scale": Scale,
    "binding": Binding,
    "eviction": Eviction,
    "token": TokenRequest,
}
_Served = tuple[Kind, Version]


class OpenApi:
    """Answers /openapi."""

    def __init__(self, registry: Registry, executor: LargeObjectExecutor) -> None:
        self._registry = registry
        self._executor = executor
        self._revision = -1
        #: by path, and whether it is in protobuf
        self._bodies: dict[tuple[str, bool], tuple[bytes, str]] = {}

    async def respond(self, path: str, accept: str, known: str = "", asked_hash: str = "") -> Response | None:
        """The document at `path`; `known` are the ETags that the client has, `asked_hash` the hash that it asks for."""
        if not path.startswith("/openapi/"):
            return None
        in_protobuf = _prefers_protobuf(path, accept)
        if self._revision != self._registry.revision:
            self._bodies.clear()
            self._revision = self._registry.revision
        found = await self._body(path, in_protobuf=in_protobuf)
        if found is None:
            return None
        body, etag = found
        headers = {"etag": f'"{etag}"', "vary": "Accept"}
        if asked_hash == etag:
            headers |= _FOREVER
        if f'"{etag}"' in known:
            return Response(304, headers, b"")
        content_type = {"content-type": CONTENT_TYPE} if in_protobuf else JSON_HEADERS
        return Response(200, {**content_type, **headers}, body)

    async def _body(self, path: str, *, in_protobuf: bool) -> tuple[bytes, str] | None:
        """The document in that form, and its hash."""
        found = self._bodies.get((path, in_protobuf))
        if found is None:
            served = [(kind, version) for kind in self._registry for version in kind.versions.values()]
            revision = self._registry.revision
            # With all kinds there are, a document is megabytes.
            found = await self._executor.run(LARGE_BYTES, _made, path, served, in_protobuf=in_protobuf)
            if found is not None and revision == self._registry.revision == self._revision:
                self._bodies[path, in_protobuf] = found
        return found


def _made(path: str, served: list[_Served], *, in_protobuf: bool) -> tuple[bytes, str] | None:
    """The document at a path about the kinds that are served, in that form, and its hash; None where there is none."""
    groups = _group_versions(served)
    kinds = groups.get(path.removeprefix("/openapi/v3/"))
    document = _document(path, served, groups, kinds)
    if document is None:
        return None
    body = encode_document(document) if in_protobuf else msgspec.json.encode(document)
    return body, _hash([body]) if kinds is None else _fingerprint(kinds)


def _document(
    path: str, served: list[_Served], groups: dict[str, list[_Served]], kinds: list[_Served] | None
) -> dict[str, Any] | None:
    if path == "/openapi/v2":
        definitions, paths = _describe(served, V2)
        return {"swagger": "2.0", "info": _INFO, "paths": paths_in_version_2(paths), "definitions": definitions}
    if path == "/openapi/v3":
        return {
            "paths": {
                each: {"serverRelativeURL": f"/openapi/v3/{each}?hash={_fingerprint(members)}"}
                for each, members in groups.items()
            }
        }
    if kinds is None:
        return None
    schemas, paths = _describe(kinds, V3)
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": schemas}}


def _group_versions(served: list[_Served]) -> dict[str, list[_Served]]:
    found: dict[str, list[_Served]] = {}
    for kind, version in served:
        prefix = f"apis/{kind.group}/{version.name}" if kind.group else f"api/{version.name}"
        found.setdefault(prefix, []).append((kind, version))
    return found


def _prefers_protobuf(path: str, accept: str) -> bool:
    """Whether the first form that a client accepts, and that there is, is protobuf (of version 2) and not JSON."""
    for clause in accept.split(","):
        media_type = clause.partition(";")[0].strip().lower()
        if media_type in MEDIA_TYPES and path == "/openapi/v2":
            return True
        if media_type in ("", "*/*", "application/*") or media_type.endswith("json"):
            return False
    raise not_acceptable(", ".join((JSON, *MEDIA_TYPES[1:])) if path == "/openapi/v2" else JSON)


def _describe(served: Iterable[_Served], dialect: Dialect) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schemas of kinds and of all that they contain, and the paths at which they are."""
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for name in ("ObjectMeta", "ListMeta", "DeleteOptions", "Status"):
        add_struct(schemas, meta_struct(name), dialect)
    schemas[f"{META}.Patch"] = {"type": "object", "description": "A change in the form that the content type says."}
    for kind, version in served:
        name = _add_kind(schemas, kind, version, dialect)
        list_name = f"{name}List"
        if "list" in kind.verbs:
            identity = {"group": kind.group, "version": version.name, "kind": kind.list_kind}
            schemas[list_name] = {
                **list_schema(kind.kind, name, dialect),
                "x-kubernetes-group-version-kind": [identity],
            }
        for part in version.subresources & _PARTS.keys():
            add_struct(schemas, _PARTS[part], dialect)
        paths |= paths_of(kind, version, name, list_name)
    return schemas, paths


def _add_kind(schemas: dict[str, Any], kind: Kind, version: Version, dialect: Dialect) -> str:
    """Put the kind's schema, and what it refers to, into `schemas`; its name."""
    struct = version.strategy.struct or (Binding if kind.kind == "Binding" else None)
    if struct is not None:
        name = component_name(struct)
        add_struct(schemas, struct, dialect)
    else:
        name = f"{component_prefix(kind.group, version.name)}.{kind.kind}"
        raw = version.schema() if version.schema is not None else {"type": "object"}
        schemas[name] = custom_schema(raw, dialect)
    identity = [{"group": kind.group, "version": version.name, "kind": kind.kind}]
    schemas[name] = {**schemas[name], "x-kubernetes-group-version-kind": identity}
    return name


def _fingerprint(kinds: list[_Served]) -> str:
    """A hash of what a document is made of, which is quicker to have than the document."""
    parts = [__version__.encode()]
    for kind, version in kinds:
        parts.append(f"{kind.plural} {kind.kind} {kind.namespaced} {sorted(version.subresources)}".encode())
        if version.schema is not None:
            parts.append(msgspec.json.encode(version.schema()))
    return _hash(parts)


def _hash(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha512()
    for part in parts:
        digest.update(part)
    return digest.hexdigest().upper()
