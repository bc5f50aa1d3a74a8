"""Schemas in OpenAPI's dialect, from Structs and from definitions of custom resources."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec


def component_prefix(group: str, version: str) -> str:
    """The first part of a schema's name: `io.k8s.api.apps.v1`, `ai.run.scheduling.v2`."""
    if "." not in group or group.endswith(".k8s.io"):
        return f"io.k8s.api.{group.split('.', maxsplit=1)[0] or 'core'}.{version}"
    return ".".join([*reversed(group.split(".")), version])


@lru_cache(maxsize=256)
def struct_schemas(struct: type[msgspec.Struct], prefix: str, reference: str) -> dict[str, Any]:
    """The schemas of a Struct and of all that it contains, under names that begin with `prefix`."""
    _, components = msgspec.json.schema_components([struct], ref_template="{name}")
    return {
        f"{prefix}.{_short(name)}": _converted(schema, f"{reference}{prefix}.") for name, schema in components.items()
    }


def _short(name: str) -> str:
    """Names of types that exist twice carry their module, which is nobody's business."""
    return name.rpartition(".")[2]


def _converted(schema: Any, reference: str) -> Any:
    """From JSON Schema's newest dialect to OpenAPI 3.0's."""
    if isinstance(schema, list):
        return [_converted(each, reference) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {"$ref": reference + _short(schema["$ref"])}
    choices = schema.get("anyOf")
    if choices is not None:
        known = [each for each in choices if each != {"type": "null"}]
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
        if len(known) == 1:
            only = _converted(known[0], reference)
            # What stands beside a reference is ignored, unless the reference is wrapped.
            return {"allOf": [only], **rest} if "$ref" in only and rest else {**only, **rest}
        kinds = {each.get("type") for each in known}
        if kinds <= {"string", "integer", "number"}:
            return (
                {"type": "string", "x-kubernetes-int-or-string": True, **rest}
                if "string" in kinds
                else {"type": "number", **rest}
            )
        return {**rest, "x-kubernetes-preserve-unknown-fields": True}
    converted: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("title", "default"):
            continue
        if key == "properties":
            converted[key] = {name: _converted(child, reference) for name, child in value.items()}
        elif key == "required":
            if value:
                converted[key] = value
        elif key in ("items", "additionalProperties", "allOf", "oneOf"):
            converted[key] = _converted(value, reference)
        else:
            converted[key] = value
    return converted


def custom_schema(schema: dict[str, Any], metadata_reference: str) -> dict[str, Any]:
    """A definition's schema with the fields that every object has."""
    properties = {
        "apiVersion": {"type": "string", "description": "Group and version of this object's schema."},
        "kind": {"type": "string", "description": "Kind of this object."},
        **schema.get("properties", {}),
        "metadata": {"allOf": [{"$ref": metadata_reference}], "description": "Standard metadata of every object."},
    }
    return {**schema, "properties": properties}
