"""Schemas of custom resources in OpenAPI's dialects, from their definitions."""

from __future__ import annotations

from bosket.apiserver.openapi_schema import META, Dialect, Schema, type_meta


def custom_schema(schema: Schema, dialect: Dialect) -> Schema:
    """A definition's schema with the fields that every object has."""
    complete = _custom(schema, dialect)
    metadata = dialect.refer(f"{META}.ObjectMeta", description="Standard metadata of every object.")
    complete["properties"] = {**type_meta(), **complete.get("properties", {}), "metadata": metadata}
    return complete


#: What version 2 can't say.
_NEWER = frozenset({"anyOf", "oneOf", "not", "nullable"})


def _custom(schema: Schema, dialect: Dialect) -> Schema:
    found: Schema = {}
    for key, value in schema.items():
        if dialect.number == 2 and (
            key in _NEWER or (schema.get("nullable") and key in ("type", "items", "properties"))
        ):
            continue
        if key == "properties":
            found[key] = {name: _custom(child, dialect) for name, child in value.items()}
        elif key in ("items", "additionalProperties", "not") and isinstance(value, dict):
            found[key] = _custom(value, dialect)
        elif key in ("allOf", "anyOf", "oneOf"):
            found[key] = [_custom(child, dialect) for child in value]
        else:
            found[key] = value
    if schema.get("x-kubernetes-embedded-resource"):
        metadata = dialect.refer(f"{META}.ObjectMeta", description="Standard metadata of every object.")
        found["properties"] = {**type_meta(), **found.get("properties", {}), "metadata": metadata}
    return found
