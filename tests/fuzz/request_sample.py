"""Values that a schema allows, as far as a schema can say: where mutations begin.

Schemas are the server's own, read from its OpenAPI. What a schema doesn't say (a quantity, a name, a selector's
operator) is guessed from the field's name, so that a good part of the objects is accepted.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any, Final

from bosket.apiserver import ApiServer
from bosket.kube.transport import Request

Json = dict[str, Any]

_DEPTH: Final = 9
#: How likely a field is there that needn't be, by depth.
_OPTIONAL: Final = (1.0, 0.5, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05, 0.0, 0.0)
NAMES: Final = ("a", "b", "main", "fuzz", "fuzz-1", "team-a", "default", "x.example.com", "example.com/x", "0")
_TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "operator": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Equal"),
    "effect": ("NoSchedule", "NoExecute", "PreferNoSchedule"),
    "protocol": ("TCP", "UDP"),
    "restartPolicy": ("Always", "Never", "OnFailure"),
    "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
    "mountPath": ("/a", "/b"),
    "path": ("/a", "/a/b"),
    "accessModes": ("ReadWriteOnce", "ReadOnlyMany"),
    "verbs": ("get", "list", "*"),
    "resources": ("pods", "configmaps", "*"),
    "apiGroups": ("", "apps", "*"),
    "apiVersions": ("v1", "*"),
    "operations": ("CREATE", "UPDATE", "*"),
    "scope": ("Namespaced", "Cluster", "*"),
    "expression": ("true", "object.metadata.name != 'x'", "has(object.spec)"),
    "roleRef": ("a",),
    "apiGroup": ("rbac.authorization.k8s.io", ""),
    "clusterIP": ("None", "10.0.0.1"),
    "url": ("https://127.0.0.1:9/",),
    "schedule": ("*/5 * * * *", "@daily"),
    "jsonPath": (".spec.x", ".metadata.name"),
    "lastTransitionTime": ("2026-01-01T00:00:00Z",),
    "uid": ("11111111-1111-1111-1111-111111111111",),
}
QUANTITIES: Final = ("1", "500m", "1Gi", "0", "2", "0.5", "1e3", "100Mi")


class Schemas:
    """The schemas that a server tells of, and objects made by them."""

    def __init__(self) -> None:
        self._schemas: dict[str, Json] = {}
        self._names: dict[tuple[str, str, str], str] = {}

    async def read(self, server: ApiServer) -> None:
        """Learn what is served now."""
        transport = server.transport()

        async def get(path: str) -> Json:
            document: Json = json.loads((await transport.request(Request("GET", path))).body)
            return document

        for place in (await get("/openapi/v3"))["paths"]:
            for name, schema in (await get(f"/openapi/v3/{place}"))["components"]["schemas"].items():
                self._schemas[name] = schema
                for each in schema.get("x-kubernetes-group-version-kind", ()):
                    self._names[each["group"], each["version"], each["kind"]] = name

    def object(self, rng: random.Random, group: str, version: str, kind: str, name: str) -> Json:
        """An object of that kind; its metadata is what few would refuse."""
        schema = self._schemas.get(self._names.get((group, version, kind), ""), {"type": "object"})
        made: Json = {"apiVersion": f"{group}/{version}" if group else version, "kind": kind}
        for key, child in (self._resolved(schema).get("properties") or {}).items():
            if key not in ("apiVersion", "kind", "metadata", "status") or (key == "status" and rng.random() < 0.1):
                made[key] = self.value(rng, child, key, 1)
        made["metadata"] = {"name": name}
        if rng.random() < 0.5:
            made["metadata"]["labels"] = {"a": rng.choice("bc"), "n": str(rng.randrange(5))}
        if rng.random() < 0.1:
            made["metadata"]["finalizers"] = ["example.com/f"]
        if rng.random() < 0.1:
            owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": _TEXTS["uid"][0]}
            made["metadata"]["ownerReferences"] = [owner]
        return made

    def _resolved(self, schema: Json) -> Json:
        for _ in range(10):
            if "$ref" in schema:
                schema = self._schemas.get(schema["$ref"].rpartition("/")[2], {})
            elif schema.get("allOf") and "properties" not in schema:
                schema = schema["allOf"][0]
            else:
                break
        return schema

    def value(self, rng: random.Random, schema: Json, key: str, depth: int) -> Any:
        """A value that the schema of the field `key` allows."""
        schema = self._resolved(schema)
        if "enum" in schema:
            return rng.choice(schema["enum"])
        if schema.get("x-kubernetes-int-or-string"):
            return rng.choice((1, 3, "50%", *QUANTITIES))
        match schema.get("type"):
            case "object":
                return self._object(rng, schema, depth)
            case "array":
                return self._list(rng, schema, key, depth)
            case "boolean":
                return rng.random() < 0.5
            case "integer" | "number":
                low = int(schema.get("minimum", 0))
                return low + rng.choice((0, 1, 2, 5, 80))
            case "string":
                return self._text(rng, schema, key)
        return rng.choice((None, 1, "x", True, {"a": "b"}, ["a"])) if depth < _DEPTH else None

    def _object(self, rng: random.Random, schema: Json, depth: int) -> Json:
        made: Json = {}
        required = set(schema.get("required", ()))
        for key, child in (schema.get("properties") or {}).items():
            if depth < _DEPTH and (key in required or rng.random() < _OPTIONAL[depth]):
                made[key] = self.value(rng, child, key, depth + 1)
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            for key in rng.sample(("a", "cpu", "memory", "nvidia.com/gpu", "b"), rng.randrange(3)):
                made[key] = self.value(rng, more, key, depth + 1)
        return made

    def _list(self, rng: random.Random, schema: Json, key: str, depth: int) -> list[Any]:
        if depth >= _DEPTH:
            return []
        items = schema.get("items") or {}
        made = [self.value(rng, items, key, depth + 1) for _ in range(rng.choice((0, 1, 1, 1, 2, 3)))]
        keys = schema.get("x-kubernetes-list-map-keys", ("name",))
        for place, each in enumerate(made):
            if isinstance(each, dict) and rng.random() < 0.9:
                each |= {name: f"{each[name]}{place}" for name in keys if isinstance(each.get(name), str) and place}
        return made

    def _text(self, rng: random.Random, schema: Json, key: str) -> str:
        if schema.get("format") in ("date-time", "micro-time"):
            return "2026-01-01T00:00:00Z" if schema["format"] == "date-time" else "2026-01-01T00:00:00.000000Z"
        if schema.get("format") == "byte":
            return "aGk="
        choices = _TEXTS.get(key) or (QUANTITIES if key in ("cpu", "memory", "storage", "nvidia.com/gpu") else NAMES)
        if pattern := schema.get("pattern"):
            fitting = [text for text in (*choices, *QUANTITIES, "30s", "1h", "/a") if _matches(pattern, text)]
            choices = tuple(fitting) or choices
        return rng.choice(choices)


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return False
