"""Structs → structural OpenAPI schemas, as kube-apiserver wants them in CustomResourceDefinitions.

The Struct is the only source. Types give types, a field without default is required, `bosket.api.crd_marks` gives
constraints and rules, docstrings (of classes, and the strings under their fields) give descriptions. A default that
says more than "empty" is also the server's: a value equal to it isn't sent, so both sides must agree on what absence
means.

Objects of Kubernetes itself that are embedded (pod specs, claims) keep fields that our Structs don't know, so that a
newer cluster's pods can be described by an older CRD.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect as types

from bosket.api import core
from bosket.api.object import KubeObject, ObjectMeta, Wire

Schema = dict[str, Any]

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_OWN_MODULES = ("bosket.api.kai", "bosket.api.grove", "bosket.api.object")

_ROOT_PROPERTIES: Schema = {
    "apiVersion": {"type": "string", "description": "Group and version of this object's schema."},
    "kind": {"type": "string", "description": "Kind of this object."},
    "metadata": {"type": "object"},
}


def _by(*keys: str) -> Schema:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


# What core/v1 says about its own fields beyond their types: by which keys lists are merged, and what those keys need.
_CORE_MARKS: dict[tuple[type, str], Schema] = {
    (core.PodSpec, "containers"): _by("name"),
    (core.PodSpec, "initContainers"): _by("name"),
    (core.PodSpec, "ephemeralContainers"): _by("name"),
    (core.PodSpec, "volumes"): _by("name"),
    (core.PodSpec, "imagePullSecrets"): _by("name"),
    (core.PodSpec, "hostAliases"): _by("ip"),
    (core.PodSpec, "schedulingGates"): _by("name"),
    (core.PodSpec, "resourceClaims"): _by("name"),
    (core.PodSpec, "topologySpreadConstraints"): _by("topologyKey", "whenUnsatisfiable"),
    **{
        (container, field): keys
        for container in (core.Container, core.EphemeralContainer)
        for field, keys in {
            "env": _by("name"),
            "ports": _by("containerPort", "protocol"),
            "volumeMounts": _by("mountPath"),
            "volumeDevices": _by("devicePath"),
        }.items()
    },
    (core.ContainerPort, "protocol"): {"default": "TCP"},
    (core.LocalObjectReference, "name"): {"default": ""},
    (core.ResourceRequirements, "claims"): _by("name"),
}


def structural_schema(struct: type[KubeObject]) -> Schema:
    """The schema of a kind's objects."""
    info = types.type_info(struct)
    assert isinstance(info, types.StructType)
    schema = _struct_schema(info)
    schema["properties"] = _ROOT_PROPERTIES | {
        name: field for name, field in schema["properties"].items() if name not in _ROOT_PROPERTIES
    }
    return schema


def schema_of(struct: type[Wire]) -> Schema:
    """The schema of a part of objects."""
    return _schema(types.type_info(struct))


def _schema(info: types.Type) -> Schema:
    match info:
        case types.Metadata():
            return _schema(info.type) | (info.extra_json_schema or {})
        case types.UnionType():
            return _union_schema([member for member in info.types if not isinstance(member, types.NoneType)])
        case types.StructType():
            return _struct_schema(info)
        case types.VarTupleType():
            return {"type": "array", "items": _schema(info.item_type)}
        case types.DictType(value_type=types.AnyType()):
            return {"type": "object", _PRESERVE: True}
        case types.DictType():
            return {"type": "object", "additionalProperties": _schema(info.value_type)}
        case types.LiteralType():
            # An empty choice stands for an absent field.
            return {"type": "string", "enum": [choice for choice in info.values if choice != ""]}
        case types.StrType():
            return {"type": "string"}
        case types.IntType():
            return {"type": "integer"}
        case types.FloatType():
            return {"type": "number"}
        case types.BoolType():
            return {"type": "boolean"}
        case types.AnyType():
            return {_PRESERVE: True}
    raise TypeError(f"{info} has no place in a CustomResourceDefinition")


def _union_schema(members: list[types.Type]) -> Schema:
    if len(members) == 1:
        return _schema(members[0])
    kinds = {type(member) for member in members}
    schema: Schema = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    if kinds == {types.StrType, types.IntType, types.FloatType}:
        return schema | {"pattern": QUANTITY_PATTERN}
    if kinds == {types.StrType, types.IntType}:
        return schema
    raise TypeError(f"a field that may be any of {members} has no place in a CustomResourceDefinition")


def _struct_schema(info: types.StructType) -> Schema:
    struct = info.cls
    schema: Schema = {"type": "object"}
    if description := _description(struct):
        schema["description"] = description
    if struct is ObjectMeta:
        # Metadata of an embedded template; Go programs write `creationTimestamp: null` there.
        return schema | {_PRESERVE: True}
    fields = {field.encode_name: _field_schema(struct, field) for field in info.fields}
    schema["properties"] = fields
    required = [
        field.encode_name for field in info.fields if field.required and "default" not in fields[field.encode_name]
    ]
    if required:
        schema["required"] = required
    if rules := getattr(struct, "RULES", ()):
        schema["x-kubernetes-validations"] = [rule.validation for rule in rules]
    if not struct.__module__.startswith(_OWN_MODULES):
        schema[_PRESERVE] = True
    return schema


def _field_schema(struct: type, field: types.Field) -> Schema:
    schema = _schema(field.type)
    if field.default is not msgspec.NODEFAULT and isinstance(field.default, (str, int, float, bool)) and field.default:
        schema.setdefault("default", field.default)
    schema |= _CORE_MARKS.get((struct, field.encode_name), {})
    if description := _field_descriptions(struct).get(field.name):
        schema["description"] = description
    return schema


def _description(struct: type) -> str:
    return inspect.cleandoc(struct.__doc__ or "").split("\n\n")[0].replace("\n", " ")


def _field_descriptions(struct: type) -> dict[str, str]:
    """The strings under the fields of a class and of those it inherits from."""
    descriptions: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        descriptions |= _module_field_descriptions(base.__module__).get(base.__qualname__, {})
    return descriptions


@cache
def _module_field_descriptions(module: str) -> dict[str, dict[str, str]]:
    """By class and field. Empty where the source isn't at hand: descriptions are for people, and can be missed."""
    if not module.startswith("bosket."):
        return {}
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except OSError:
        return {}
    return {node.name: _class_field_descriptions(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _class_field_descriptions(node: ast.ClassDef) -> dict[str, str]:
    descriptions: dict[str, str] = {}
    for field, below in zip(node.body, node.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                descriptions[name] = inspect.cleandoc(text).replace("\n", " ")
    return descriptions
