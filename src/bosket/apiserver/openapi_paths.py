"""The operations on a kind, as OpenAPI 3 lists them."""

from __future__ import annotations

from typing import Any

from bosket.apiserver.kind import Kind, Version
from bosket.apiserver.patching import JSON_PATCH, MERGE_PATCH
from bosket.apiserver.status import JSON

_WRITING = ("dryRun", "fieldManager", "fieldValidation")
_LISTING = {
    "labelSelector": "string",
    "fieldSelector": "string",
    "limit": "integer",
    "continue": "string",
    "resourceVersion": "string",
    "resourceVersionMatch": "string",
    "watch": "boolean",
    "allowWatchBookmarks": "boolean",
    "sendInitialEvents": "boolean",
    "timeoutSeconds": "integer",
}


def paths_of(kind: Kind, version: Version, schema: str) -> dict[str, Any]:
    """Paths of the kind's collection and of its objects."""
    base = f"/apis/{kind.group}/{version.name}" if kind.group else f"/api/{version.name}"
    collection = f"{base}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"
    builder = _Operations(kind, version, schema)
    paths: dict[str, Any] = {collection: builder.collection()}
    if "get" in kind.verbs:
        paths[f"{collection}/{{name}}"] = builder.item()
        if kind.namespaced:
            paths[f"{base}/{kind.plural}"] = {"get": builder.operation("list", parameters=_query(_LISTING))}
    if "status" in version.subresources:
        paths[f"{collection}/{{name}}/status"] = builder.item(subresource="Status")
    return paths


class _Operations:
    """Operations of one kind."""

    def __init__(self, kind: Kind, version: Version, schema: str) -> None:
        self._kind = kind
        self._identity = {"group": kind.group, "version": version.name, "kind": kind.kind}
        self._schema = {"$ref": schema}
        self._body = {"content": {JSON: {"schema": self._schema}}, "required": True}

    def collection(self) -> dict[str, Any]:
        path: dict[str, Any] = {"post": self.operation("create", parameters=_query(_WRITING), body=self._body)}
        if "list" in self._kind.verbs:
            path["get"] = self.operation("list", parameters=_query(_LISTING))
            path["delete"] = self.operation("deletecollection", parameters=_query(("labelSelector", "fieldSelector")))
        if self._kind.namespaced:
            path["parameters"] = [_path_parameter("namespace")]
        return path

    def item(self, subresource: str = "") -> dict[str, Any]:
        patch = {"content": {each: {"schema": {}} for each in (JSON_PATCH, MERGE_PATCH)}, "required": True}
        parameters = [_path_parameter("name")]
        if self._kind.namespaced:
            parameters.append(_path_parameter("namespace"))
        path: dict[str, Any] = {
            "get": self.operation("get", subresource=subresource),
            "put": self.operation("replace", parameters=_query(_WRITING), body=self._body, subresource=subresource),
            "patch": self.operation(
                "patch", parameters=_query((*_WRITING, "force")), body=patch, subresource=subresource
            ),
            "parameters": parameters,
        }
        if not subresource:
            deleting = _query(("dryRun", "gracePeriodSeconds", "propagationPolicy"))
            path["delete"] = self.operation("delete", parameters=deleting)
        return path

    def operation(
        self,
        action: str,
        *,
        parameters: list[dict[str, Any]] | None = None,
        body: dict[str, Any] | None = None,
        subresource: str = "",
    ) -> dict[str, Any]:
        scope = "Namespaced" if self._kind.namespaced else ""
        group = "".join(part.capitalize() for part in (self._kind.group or "core").split("."))
        version = self._identity["version"].capitalize()
        operation: dict[str, Any] = {
            "operationId": f"{action}{group}{version}{scope}{self._kind.kind}{subresource}",
            "responses": {"200": {"description": "OK", "content": {JSON: {"schema": self._schema}}}},
            "x-kubernetes-action": {"replace": "put", "create": "post"}.get(action, action),
            "x-kubernetes-group-version-kind": self._identity,
        }
        if parameters:
            operation["parameters"] = parameters
        if body is not None:
            operation["requestBody"] = body
        return operation


def _query(names: dict[str, str] | tuple[str, ...]) -> list[dict[str, Any]]:
    types = names if isinstance(names, dict) else dict.fromkeys(names, "string")
    return [{"name": name, "in": "query", "schema": {"type": kind}} for name, kind in types.items()]


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
