"""Schemas of built-in kinds in OpenAPI's dialects, from their Structs. Made once for each Struct and dialect.

Types are named as Kubernetes names them (`io.k8s.api.core.v1.PodSpec`): clients that know a type by its name find it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from bosket.api.table import TABLE
from bosket.apiserver.apply.shape import StructShape
from bosket.apiserver.objects.strategic import merge_key
from bosket.apiserver.objects.types import struct_info

Schema = dict[str, Any]
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
#: Modules whose types have names of another form.
_MODULES = {
    "bosket.api.object": META,
    "bosket.api.meta": META,
    "bosket.api.apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    "bosket.api.authentication": "io.k8s.api.authentication.v1",
    "bosket.api.authorization": "io.k8s.api.authorization.v1",
    "bosket.api.core": "io.k8s.api.core.v1",
}
#: Types that are of another version than the rest of their module.
_OLDER = {"bosket.api.autoscaling": ("io.k8s.api.autoscaling.v1", ("Scale", "ScaleSpec", "ScaleStatus"))}


@dataclass(frozen=True, slots=True)
class Dialect:
    """A version of OpenAPI."""

    number: int
    #: what references begin with
    reference: str

    def refer(self, name: str, **more: Any) -> Schema:
        """A reference, with what else is to be said about the place."""
        ref = {"$ref": self.reference + name}
        if not more:
            return ref
        return {**more, **ref} if self.number == 2 else {**more, "allOf": [ref]}


V2 = Dialect(2, "#/definitions/")
V3 = Dialect(3, "#/components/schemas/")


def component_prefix(group: str, version: str) -> str:
    """The first part of a type's name: `io.k8s.api.apps.v1`, `ai.run.scheduling.v2`."""
    if "." not in group or group.endswith(".k8s.io"):
        return f"io.k8s.api.{group.split('.', maxsplit=1)[0] or 'core'}.{version}"
    return ".".join([*reversed(group.split(".")), version])


@cache
def _prefixes() -> dict[str, str]:
    found = {resource.struct.__module__: component_prefix(resource.group, resource.version) for resource in TABLE}
    return {**found, **_MODULES}


@cache
def component_name(struct: type) -> str:
    """What a Struct is called."""
    module = struct.__module__
    prefix, older = _OLDER.get(module, ("", ()))
    if struct.__name__ in older:
        return f"{prefix}.{struct.__name__}"
    while module not in _prefixes():
        module = module.rpartition(".")[0]
        if not module:
            return f"{META}.{struct.__name__}"
    return f"{_prefixes()[module]}.{struct.__name__}"


def add_struct(schemas: dict[str, Any], struct: type, dialect: Dialect) -> str:
    """Put a Struct's schema, and those of all that it contains, into `schemas`; its name."""
    name = component_name(struct)
    if name not in schemas:
        schema, parts, plain = _struct_schema(struct, dialect)
        schemas[name] = schema
        schemas.update(plain)
        for part in parts:
            add_struct(schemas, part, dialect)
    return name


@cache
def _struct_schema(struct: type, dialect: Dialect) -> tuple[Schema, tuple[type, ...], Schema]:
    """The schema, the Structs that it refers to, and the plain types that it does."""
    info = struct_info(struct)
    writer = _Writer(struct, dialect)
    properties = {field.encode_name: writer.field(field) for field in info.fields}
    schema: Schema = {"type": "object", "description": _described(struct), "properties": properties}
    if required := [field.encode_name for field in info.fields if field.required]:
        schema["required"] = required
    if StructShape(struct).kind == "atomic":
        schema["x-kubernetes-map-type"] = "atomic"
    return schema, tuple(writer.parts), writer.plain


def _described(struct: type) -> str:
    return " ".join((struct.__doc__ or "").split())


class _Writer:
    """Writes the fields of one Struct, and remembers what they refer to."""

    def __init__(self, struct: type, dialect: Dialect) -> None:
        self._struct = struct
        self._dialect = dialect
        self.parts: dict[type, None] = {}
        self.plain: Schema = {}

    def field(self, field: inspect.Field) -> Schema:
        schema = self._type(field.type, described=True)
        shape = StructShape(self._struct).field(field.encode_name)
        if schema.get("type") == "array":
            schema["x-kubernetes-list-type"] = {"keyed": "map", "set": "set"}.get(shape.kind, "atomic")
            if shape.kind == "keyed":
                schema["x-kubernetes-list-map-keys"] = list(shape.keys)
            key = merge_key(self._struct, field.encode_name)
            if key is not None:
                schema["x-kubernetes-patch-strategy"] = "merge"
                if key:
                    schema["x-kubernetes-patch-merge-key"] = key
        elif schema.get("type") == "object" and shape.kind == "atomic":
            schema["x-kubernetes-map-type"] = "atomic"
        return schema

    def _type(self, info: inspect.Type, *, described: bool = False) -> Schema:
        match info:
            case inspect.Metadata():
                return {**self._type(info.type, described=described), **(info.extra_json_schema or {})}
            case inspect.UnionType():
                return self._union([each for each in info.types if not isinstance(each, inspect.NoneType)], described)
            case inspect.StructType():
                self.parts[info.cls] = None
                about = {"description": _described(info.cls)} if described else {}
                return self._dialect.refer(component_name(info.cls), **about)
            case inspect.DictType():
                values = self._type(info.value_type)
                return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
            case inspect.VarTupleType() | inspect.ListType():
                items = self._type(info.item_type)
                about = {}
                if described and isinstance(info.item_type, inspect.StructType):
                    about = {"description": _described(info.item_type.cls)}
                return {**about, "type": "array", "items": items or {"type": "object"}}
            case inspect.LiteralType():
                return {"type": "string", "enum": list(info.values)}
            case inspect.BoolType():
                return {"type": "boolean"}
            case inspect.IntType():
                return {"type": "integer"}
            case inspect.FloatType():
                return {"type": "number", "format": "double"}
            case inspect.StrType():
                return {"type": "string"}
        return {}

    def _union(self, types: list[inspect.Type], described: bool) -> Schema:
        if len(types) == 1:
            return self._type(types[0], described=described)
        kinds = {type(each) for each in types}
        if kinds == {inspect.StrType, inspect.IntType}:
            return self._plain(_INT_OR_STRING, "integer", "string", format="int-or-string")
        if kinds == {inspect.StrType, inspect.IntType, inspect.FloatType}:
            return self._plain(_QUANTITY, "string", "number")
        if kinds == {inspect.IntType, inspect.FloatType}:
            return {"type": "number"}
        return {"x-kubernetes-preserve-unknown-fields": True}

    def _plain(self, name: str, *types: str, **more: str) -> Schema:
        """A type that is several plain ones."""
        several = {"type": "string"} if self._dialect.number == 2 else {"oneOf": [{"type": each} for each in types]}
        self.plain[name] = {**several, **more}
        return self._dialect.refer(name)


def list_schema(kind: str, name: str, dialect: Dialect) -> Schema:
    """The schema of a list of objects whose own schema is called `name`."""
    return {
        "type": "object",
        "description": f"A list of objects of kind {kind}.",
        "required": ["items"],
        "properties": {
            **type_meta(),
            "metadata": dialect.refer(f"{META}.ListMeta", description="What is known about the list as a whole."),
            "items": {"type": "array", "items": dialect.refer(name)},
        },
    }


def type_meta() -> Schema:
    """The fields that say what an object is."""
    return {
        "apiVersion": {"type": "string", "description": "Group and version of this object's schema."},
        "kind": {"type": "string", "description": "Kind of this object."},
    }


def meta_struct(name: str) -> type[msgspec.Struct]:
    """A type of the API machinery itself."""
    from bosket.api import meta, object

    found: type[msgspec.Struct] = getattr(object, name, None) or getattr(meta, name)
    return found


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
