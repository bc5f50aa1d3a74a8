"""Kubernetes' rules for structural schemas.

A structural schema says of every place what it is: a type, or that anything goes. What stands inside `allOf`, `anyOf`,
`oneOf` and `not` may only narrow down the values of places that are described outside. That is what makes pruning and
defaults possible. Called for definitions on their way in, when their types are known to be right; fields are named as
kube-apiserver names them (`…openAPIV3Schema.properties[spec].items`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

from bosket.api.field_error import FieldError, forbidden_field, invalid_value, required
from bosket.apiserver.custom.check import InvalidSchema, check_pattern

Schema = dict[str, Any]
_Level = Literal["root", "item", "field"]

_JUNCTORS = ("allOf", "anyOf", "oneOf")
_NO_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_EITHER = [{"type": "integer"}, {"type": "string"}]
#: What describes a place, and so has no business where values are only narrowed down.
_DESCRIPTIVE = {
    "type": "must be empty to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
}
_UNDEFINED = ("additionalProperties", "default", "x-kubernetes-list-type", "x-kubernetes-map-type")


def structural_errors(schema: Schema, path: str) -> list[FieldError]:
    """All ways in which a schema is not structural."""
    errors = [*_invariants(schema, "root", path), *_completeness(schema, schema, path, path)]
    return sorted(errors, key=str)


def sub_schemas(schema: Schema, path: str) -> Iterator[tuple[Schema, str]]:
    """The schemas inside a schema that describe places, with their paths."""
    for name, child in (schema.get("properties") or {}).items():
        yield child, f"{path}.properties[{name}]"
    for key in ("additionalProperties", "items"):
        if isinstance(schema.get(key), dict):
            yield schema[key], f"{path}.{key}"


def narrowing_schemas(schema: Schema, path: str) -> Iterator[tuple[Schema, str]]:
    """The schemas inside a schema that narrow its values down, with their paths."""
    for key in _JUNCTORS:
        for index, child in enumerate(schema.get(key) or ()):
            yield child, f"{path}.{key}[{index}]"
    if schema.get("not") is not None:
        yield schema["not"], f"{path}.not"


# every place is described


def _invariants(schema: Schema, level: _Level, path: str) -> Iterator[FieldError]:
    if schema.get("type") == "array" and schema.get("items") is None:
        yield required(f"{path}.items", "must be specified")
    if level == "root" and schema.get("additionalProperties") is not None:
        yield forbidden_field(f"{path}.additionalProperties", "must not be used at the root")
    for child, where in sub_schemas(schema, path):
        yield from _invariants(child, "item" if where.endswith(".items") else "field", where)
    for key in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
        if schema.get("x-kubernetes-int-or-string") and schema.get(key):
            yield invalid_value(f"{path}.{key}", schema[key], "must be false if x-kubernetes-int-or-string is true")
    yield from _type_errors(schema, level, path)
    yield from _meta_errors(schema, level, path)
    yield from _value_errors(schema, path)


def _type_errors(schema: Schema, level: _Level, path: str) -> Iterator[FieldError]:
    kind = schema.get("type") or ""
    if schema.get("x-kubernetes-embedded-resource"):
        if kind != "object":
            detail = "must be object if x-kubernetes-embedded-resource is true"
            yield invalid_value(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail)
        if schema.get("additionalProperties") is not None:
            detail = "must not be used if x-kubernetes-embedded-resource is set"
            yield forbidden_field(f"{path}.additionalProperties", detail)
        if not schema.get("x-kubernetes-preserve-unknown-fields") and not schema.get("properties"):
            yield required(
                f"{path}.properties",
                "must not be empty if x-kubernetes-embedded-resource is true without "
                "x-kubernetes-preserve-unknown-fields",
            )
    elif not (kind or schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")):
        yield required(f"{path}.type", _NO_TYPE[level])
    if level == "root" and kind not in ("", "object"):
        yield invalid_value(f"{path}.type", kind, "must be object at the root")


def _meta_errors(schema: Schema, level: _Level, path: str) -> Iterator[FieldError]:
    """What makes an object an object can't be redefined."""
    properties = schema.get("properties") or {}
    if level == "root" or schema.get("x-kubernetes-embedded-resource"):
        for name, kind in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
            if name in properties and properties[name].get("type") != kind:
                where = f"{path}.properties[{name}].type"
                yield invalid_value(where, properties[name].get("type", ""), f"must be {kind}")
    if level == "root" and "metadata" in properties:
        said = {key for key, value in properties["metadata"].items() if value not in (None, "", [], {}, False)}
        if set(properties["metadata"].get("properties") or {}) <= {"name", "generateName"}:
            said.discard("properties")
        if said - {"type", "default"}:
            yield forbidden_field(
                f"{path}.properties[metadata]",
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            )


# what narrows values down does nothing else


def _value_errors(schema: Schema, path: str, *, skip_any_of: bool = False) -> Iterator[FieldError]:
    skip_any_of = skip_any_of or schema.get("anyOf") == _EITHER
    for child, where in narrowing_schemas(schema, path):
        if skip_any_of and where.startswith(f"{path}.anyOf["):
            continue  # the way to say "integer or string"
        first = where == f"{path}.allOf[0]" and child.get("anyOf") == _EITHER
        yield from _narrowing_errors(child, where, skip_any_of=first)
    if schema.get("pattern"):
        try:
            check_pattern(schema["pattern"])
        except InvalidSchema as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield invalid_value(f"{path}.pattern", schema["pattern"], detail)


def _narrowing_errors(schema: Schema, path: str, *, skip_any_of: bool = False) -> Iterator[FieldError]:
    yield from _value_errors(schema, path, skip_any_of=skip_any_of)
    for child, where in sub_schemas({**schema, "additionalProperties": None}, path):
        yield from _narrowing_errors(child, where)
    for key, detail in _DESCRIPTIVE.items():
        if schema.get(key):
            yield forbidden_field(f"{path}.{key}", detail)
    for key in _UNDEFINED:
        if schema.get(key) is not None:
            yield forbidden_field(f"{path}.{key}", "must be undefined to be structural")
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden_field(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _completeness(schema: Schema, described: Schema, path: str, described_path: str) -> Iterator[FieldError]:
    """Whatever is narrowed down inside a junctor is described outside."""
    for child, where in narrowing_schemas(schema, path):
        yield from _nested_completeness(child, described, where, described_path)


def _nested_completeness(schema: Schema, described: Schema, path: str, described_path: str) -> Iterator[FieldError]:
    yield from _completeness(schema, described, path, described_path)
    for child, where in sub_schemas({**schema, "additionalProperties": None}, path):
        step = where.removeprefix(path)
        name = re.fullmatch(r"\.properties\[(.*)\]", step, re.DOTALL)
        outer = described.get("items") if name is None else (described.get("properties") or {}).get(name[1])
        if isinstance(outer, dict):
            yield from _nested_completeness(child, outer, where, described_path + step)
        else:
            yield required(described_path + step, f"because it is defined in {where}")
