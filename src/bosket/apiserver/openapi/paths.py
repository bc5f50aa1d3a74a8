"""The operations on a kind, as OpenAPI lists them: version 3, and version 2 made from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bosket.apiserver.objects.kind import Kind, Version
from bosket.apiserver.openapi.schema import META, V2, V3
from bosket.apiserver.request.resource_request import subresource_verbs
from bosket.apiserver.status import JSON
from bosket.apiserver.writing.patching import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH

Json = dict[str, Any]
_READING = {"pretty": "string"}
_WRITING = {"dryRun": "string", "fieldManager": "string", "fieldValidation": "string"}
_PATCHING = {**_WRITING, "force": "boolean"}
_DELETING = {
    "dryRun": "string",
    "gracePeriodSeconds": "integer",
    "orphanDependents": "boolean",
    "propagationPolicy": "string",
}
_LISTING = {
    "allowWatchBookmarks": "boolean",
    "continue": "string",
    "fieldSelector": "string",
    "labelSelector": "string",
    "limit": "integer",
    "resourceVersion": "string",
    "resourceVersionMatch": "string",
    "sendInitialEvents": "boolean",
    "timeoutSeconds": "integer",
    "watch": "boolean",
}
#: What is sent to subresources and comes back, where it isn't the object itself: the schema's name.
SUBRESOURCE_SCHEMAS = {
    "scale": "io.k8s.api.autoscaling.v1.Scale",
    "binding": "io.k8s.api.core.v1.Binding",
    "eviction": "io.k8s.api.policy.v1.Eviction",
    "token": "io.k8s.api.authentication.v1.TokenRequest",
}
_METHODS = {"get": "get", "post": "create", "put": "update", "patch": "patch", "delete": "delete"}
_ACTIONS = {"get": "read", "post": "create", "put": "replace", "patch": "patch", "delete": "delete"}
_KUBERNETES_ACTIONS = {"read": "get", "create": "post", "replace": "put"}


def paths_of(kind: Kind, version: Version, name: str, list_name: str) -> Json:
    """Paths of the kind's collection, of its objects and of their parts; `name` is what its schema is called."""
    base = f"/apis/{kind.group}/{version.name}" if kind.group else f"/api/{version.name}"
    collection = f"{base}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"
    about = _Operations(kind, version, name, list_name)
    paths: Json = {collection: about.collection()}
    if "get" not in kind.verbs:
        return paths
    paths[f"{collection}/{{name}}"] = about.item()
    if kind.namespaced:
        everywhere = about.operation("list", _LISTING, response=list_name, suffix="ForAllNamespaces", namespaced=False)
        paths[f"{base}/{kind.plural}"] = {"get": everywhere}
    for subresource in sorted(version.subresources):
        paths[f"{collection}/{{name}}/{subresource}"] = about.part(subresource)
    return paths


@dataclass
class _Operations:
    """Operations of one kind."""

    kind: Kind
    version: Version
    name: str
    list_name: str
    _identity: Json = field(init=False)
    _title: str = field(init=False)

    def __post_init__(self) -> None:
        self._identity = {"group": self.kind.group, "version": self.version.name, "kind": self.kind.kind}
        group = (self.kind.group or "core").removesuffix(".k8s.io")
        self._title = "".join(part[:1].upper() + part[1:] for part in (*group.split("."), self.version.name))

    def collection(self) -> Json:
        path: Json = {}
        if "list" in self.kind.verbs:
            path["get"] = self.operation("list", _LISTING, response=self.list_name)
            options = f"{META}.DeleteOptions"
            path["delete"] = self.operation(
                "deletecollection", {**_LISTING, **_DELETING}, body=options, response=f"{META}.Status"
            )
        if "create" in self.kind.verbs:
            path["post"] = self.operation("create", _WRITING, body=self.name, response=self.name)
        path["parameters"] = self._parameters()
        return path

    def item(self) -> Json:
        options, status = f"{META}.DeleteOptions", f"{META}.Status"
        return {
            "get": self.operation("read", _READING, response=self.name),
            "put": self.operation("replace", _WRITING, body=self.name, response=self.name),
            "patch": self.operation("patch", _PATCHING, body=f"{META}.Patch", response=self.name),
            "delete": self.operation("delete", _DELETING, body=options, response=status),
            "parameters": self._parameters("name"),
        }

    def part(self, subresource: str) -> Json:
        schema = SUBRESOURCE_SCHEMAS.get(subresource, self.name)
        suffix = subresource[:1].upper() + subresource[1:]
        path: Json = {"parameters": self._parameters("name")}
        verbs = subresource_verbs(subresource)
        for method in (method for method, verb in _METHODS.items() if verb in verbs):
            queries = {"get": _READING, "patch": _PATCHING}.get(method, _WRITING)
            body = {"patch": f"{META}.Patch", "get": None, "delete": None}.get(method, schema)
            path[method] = self.operation(_ACTIONS[method], queries, body=body, response=schema, suffix=suffix)
        return path

    def operation(
        self,
        action: str,
        queries: dict[str, str],
        *,
        response: str,
        body: str | None = None,
        suffix: str = "",
        namespaced: bool = True,
    ) -> Json:
        scope = "Namespaced" if self.kind.namespaced and namespaced else ""
        verb, place = ("delete", "Collection") if action == "deletecollection" else (action, "")
        ok = {"description": "OK", "content": {JSON: {"schema": V3.refer(response)}}}
        operation: Json = {
            "description": f"{verb} {'objects' if place or action == 'list' else 'an object'} of kind {self.kind.kind}",
            "operationId": f"{verb}{self._title}{place}{scope}{self.kind.kind}{suffix}",
            "parameters": [{"name": name, "in": "query", "schema": {"type": kind}} for name, kind in queries.items()],
            "responses": {"200": ok, **({"201": ok} if body else {}), "401": {"description": "Unauthorized"}},
            "tags": [f"{(self.kind.group or 'core').split('.')[0]}_{self.version.name}"],
            "x-kubernetes-action": _KUBERNETES_ACTIONS.get(action, action),
            "x-kubernetes-group-version-kind": self._identity,
        }
        if body is not None:
            types = [JSON]
            if action == "patch":
                types = [APPLY_PATCH, JSON_PATCH, MERGE_PATCH, *(() if self.kind.custom else (STRATEGIC_PATCH,))]
            content = {each: {"schema": V3.refer(body)} for each in types}
            operation["requestBody"] = {"content": content, "required": not body.endswith("DeleteOptions")}
        return operation

    def _parameters(self, *names: str) -> list[Json]:
        listed = [*names, *(("namespace",) if self.kind.namespaced else ())]
        return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in listed]


def paths_in_version_2(paths: Json) -> Json:
    """The same operations in the older words."""
    return {
        path: {
            method: [_older_parameter(each) for each in value] if method == "parameters" else _older(value)
            for method, value in operations.items()
        }
        for path, operations in paths.items()
    }


def _older(operation: Json) -> Json:
    older = {key: value for key, value in operation.items() if key not in ("requestBody", "parameters", "responses")}
    older["parameters"] = [_older_parameter(each) for each in operation["parameters"]]
    older["produces"] = [JSON]
    body = operation.get("requestBody")
    if body is not None:
        older["consumes"] = list(body["content"])
        schema = _older_schema(next(iter(body["content"].values()))["schema"])
        older["parameters"].append({"name": "body", "in": "body", "required": body["required"], "schema": schema})
    older["responses"] = {
        code: {
            "description": response["description"],
            **({"schema": _older_schema(response["content"][JSON]["schema"])} if "content" in response else {}),
        }
        for code, response in operation["responses"].items()
    }
    return older


def _older_parameter(parameter: Json) -> Json:
    return {**{key: value for key, value in parameter.items() if key != "schema"}, **parameter["schema"]}


def _older_schema(schema: Json) -> Json:
    return V2.refer(schema["$ref"].removeprefix(V3.reference))
