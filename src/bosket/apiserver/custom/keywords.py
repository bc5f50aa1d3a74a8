"""Errors of single schema keywords. Called when a definition is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bosket.api.field_error import FieldError, forbidden_field, invalid_value, not_supported, required
from bosket.apiserver.custom.structural import Schema, narrowing_schemas, sub_schemas

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_NOT_SUPPORTED = ("additionalItems", "patternProperties", "definitions", "dependencies", "id", "$ref")


def keyword_errors(schema: Schema, path: str, *, root: bool = True) -> Iterator[FieldError]:
    """What is wrong with single keywords, anywhere in a schema."""
    yield from _plain_keyword_errors(schema, path)
    if schema.get("additionalProperties") not in (None, True) and schema.get("properties"):
        detail = "additionalProperties and properties are mutual exclusive"
        yield forbidden_field(f"{path}.additionalProperties", detail)
    for child, where in sub_schemas(schema, path):
        if root and where in (f"{path}.properties[{name}]" for name in ("metadata", "kind", "apiVersion")):
            yield from _default_errors(child, where, f"in top-level {where.removeprefix(path)[12:-1]}")
        yield from keyword_errors(child, where, root=False)
    for child, where in narrowing_schemas(schema, path):
        yield from keyword_errors(child, where, root=False)
    yield from _map_type_errors(schema, path)
    yield from _list_type_errors(schema, path)


def _plain_keyword_errors(schema: Schema, path: str) -> Iterator[FieldError]:
    kind = schema.get("type") or ""
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if kind == "null":
        yield forbidden_field(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    for key in _NOT_SUPPORTED:
        if schema.get(key):
            yield forbidden_field(f"{path}.{key}", f"{key} is not supported")
    if isinstance(schema.get("items"), list):
        yield forbidden_field(f"{path}.items", "items must be a schema object and not an array")
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_field(f"{path}.uniqueItems", detail)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid_value(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")


def _default_errors(schema: Schema, path: str, reason: str) -> Iterator[FieldError]:
    if schema.get("default") is not None:
        yield forbidden_field(f"{path}.default", f"must not be set {reason}")
    for child, where in sub_schemas(schema, path):
        yield from _default_errors(child, where, reason)


def _map_type_errors(schema: Schema, path: str) -> Iterator[FieldError]:
    map_type, kind = schema.get("x-kubernetes-map-type"), schema.get("type") or ""
    if map_type is None:
        return
    if kind != "object":
        detail = "must be object if x-kubernetes-map-type is specified"
        yield invalid_value(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail)
    if map_type not in ("atomic", "granular"):
        yield not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))


def _list_type_errors(schema: Schema, path: str) -> Iterator[FieldError]:
    list_type, kind = schema.get("x-kubernetes-list-type"), schema.get("type") or ""
    keys, items = schema.get("x-kubernetes-list-map-keys") or [], schema.get("items")
    if keys and list_type != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        where = f"{path}.x-kubernetes-list-type"
        yield required(where, detail) if list_type is None else invalid_value(where, list_type, detail)
    if list_type is None:
        return
    if kind != "array":
        detail = "must be array if x-kubernetes-list-type is specified"
        yield invalid_value(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail)
    if list_type not in ("atomic", "set", "map"):
        yield not_supported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "set", "map"))
    if list_type == "map":
        yield from _keyed_list_errors(items, keys, path)
    if list_type in ("set", "map") and isinstance(items, dict) and items.get("nullable"):
        detail = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        yield forbidden_field(f"{path}.items.nullable", detail)
    if list_type == "set" and kind == "array" and isinstance(items, dict):
        for of, key in (("array", "x-kubernetes-list-type"), ("object", "x-kubernetes-map-type")):
            implicit = "atomic" if of == "array" else "granular"
            if items.get("type") == of and items.get(key, implicit) != "atomic":
                detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
                yield invalid_value(f"{path}.items.{key}", items.get(key), detail)


def _keyed_list_errors(items: Any, keys: list[str], path: str) -> Iterator[FieldError]:
    where = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        yield required(where, "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    if not isinstance(items, dict):
        return
    if items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid_value(f"{path}.items.type", items.get("type", ""), detail)
        return
    properties = items.get("properties") or {}
    if len(set(keys)) != len(keys):
        yield invalid_value(where, keys, "must not contain duplicate entries")
    for key in keys:
        if key not in properties:
            yield invalid_value(where, keys, "entries must all be names of item properties")
            continue
        place, item = f"{path}.items.properties[{key}]", properties[key]
        if item.get("type") in ("array", "object"):
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid_value(f"{place}.type", item["type"], detail)
        if key not in (items.get("required") or ()) and item.get("default") is None:
            yield required(
                f"{place}.default",
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            )
        if item.get("nullable"):
            detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            yield forbidden_field(f"{place}.nullable", detail)
