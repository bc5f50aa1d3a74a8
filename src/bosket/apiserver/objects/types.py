"""Types of built-in kinds: an object is checked by converting it to its Struct.

The Struct also knows every field: `field_validation` drops the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from bosket.api.field_error import quote, required
from bosket.apiserver.status import StatusError, WrongType, describe, invalid
from bosket.apiserver.store.entry import Doc

_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?P<key>key in )?\$(?P<path>.*)`)?$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]|\[\"([^\"]*)\"\]")
_SIMPLE = re.compile(r"[A-Za-z0-9_-]+")


def check_types(doc: Doc, struct: type[msgspec.Struct], group: str, kind: str, version: str) -> None:
    """Raise unless all fields have their types: a 400 names field, value and type; a missing one is a 422.

    A plain value that is missing becomes empty, as it does in Kubernetes: whether it may be is for the kind's rules.
    """
    try:
        msgspec.convert(doc, struct)
    except msgspec.ValidationError as error:
        if _MISSING.match(str(error)) is None:
            raise _explain(error, doc, group, kind, version) from None
        _fill_missing(doc, struct_info(struct))
        try:
            msgspec.convert(doc, struct)
        except msgspec.ValidationError as second:
            raise _explain(second, doc, group, kind, version) from None


def _explain(error: msgspec.ValidationError, doc: Doc, group: str, kind: str, version: str) -> StatusError:
    found = _AT.match(str(error))
    assert found is not None
    what, path = found["what"], _with_keys(doc, found["path"] or "", found["what"])
    field = path.removeprefix(".")
    if missing := _MISSING.match(what):
        where = f"{field}.{missing[1]}" if field else missing[1]
        return invalid(group, kind, doc["metadata"].get("name", ""), [required(where)])
    value = _lookup(doc, path)
    got = "" if value is _ABSENT else f", got {describe(value)}: {quote(value)}"
    expected = what.split(", got ")[0].replace("Expected ", "expected ")
    return WrongType(
        f'{kind} in version "{version}" cannot be handled as a {kind}: {field or "the object"}: {expected}{got}'
    )


_ABSENT = object()
_PYTHON = {"str": str, "int": int, "float": float, "bool": bool, "array": list, "object": dict, "null": type(None)}


def _with_keys(doc: Doc, path: str, what: str) -> str:
    """The path with names for map keys, which are `[...]` to msgspec: that of the first value of the type it met."""
    got = _PYTHON.get(what.rpartition(", got `")[2].rstrip("`"))
    while "[...]" in path:
        before, _, after = path.partition("[...]")
        entries = _lookup(doc, before)
        if not isinstance(entries, dict):
            break
        keys = (key for key in entries if "[...]" in after or type(_lookup(entries[key], after)) is got)
        key = next(keys, None)
        if key is None:
            break
        path = f"{before}.{key}{after}" if _SIMPLE.fullmatch(key) else f'{before}["{key}"]{after}'
    return path


def _lookup(value: Any, path: str) -> Any:
    """The value at a path as msgspec writes it."""
    for step in _STEP.finditer(path):
        key, index = step[1] or step[3], step[2]
        try:
            value = value[key] if key is not None else value[int(index)]
        except (KeyError, IndexError, TypeError, ValueError):
            return _ABSENT
    return value


_ZEROS: dict[type, Any] = {
    msgspec.inspect.StrType: "",
    msgspec.inspect.IntType: 0,
    msgspec.inspect.FloatType: 0,
    msgspec.inspect.BoolType: False,
}


@lru_cache(maxsize=4096)
def _required_zeros(struct: type) -> dict[str, Any]:
    """The plain fields that a Struct insists on, with their empty values."""
    zeros = {}
    for field in struct_info(struct).fields:
        kind = field.type
        while isinstance(kind, msgspec.inspect.Metadata):
            kind = kind.type
        if field.required and type(kind) in _ZEROS:
            zeros[field.encode_name] = _ZEROS[type(kind)]
    return zeros


def _fill_missing(value: Any, info: msgspec.inspect.Type) -> None:
    for struct, found in _structs_in(value, info):
        for name, zero in _required_zeros(struct).items():
            found.setdefault(name, zero)


def _structs_in(value: Any, info: msgspec.inspect.Type) -> Iterator[tuple[type, Doc]]:
    """Every object in `value` that has a Struct, with it."""
    while isinstance(info, msgspec.inspect.Metadata):
        info = info.type
    if isinstance(info, msgspec.inspect.UnionType):
        for choice in info.types:
            yield from _structs_in(value, choice)
    elif isinstance(info, msgspec.inspect.StructType) and isinstance(value, dict):
        yield info.cls, value
        fields = struct_fields(info.cls)
        for key, child in value.items():
            if key in fields and isinstance(child, dict | list):
                yield from _structs_in(child, fields[key])
    elif isinstance(info, msgspec.inspect.DictType) and isinstance(value, dict):
        for child in value.values():
            yield from _structs_in(child, info.value_type)
    elif isinstance(info, msgspec.inspect.VarTupleType | msgspec.inspect.ListType) and isinstance(value, list):
        for child in value:
            yield from _structs_in(child, info.item_type)


_infos: dict[type, msgspec.inspect.StructType] = {}


def struct_info(struct: type) -> msgspec.inspect.StructType:
    """What msgspec knows of a Struct; as it then knows all that are in it, those are kept, too."""
    found = _infos.get(struct)
    if found is None:
        waiting = [msgspec.inspect.type_info(struct)]
        while waiting:
            info = waiting.pop()
            if isinstance(info, msgspec.inspect.StructType):
                if info.cls not in _infos:
                    _infos[info.cls] = info
                    waiting.extend(field.type for field in info.fields)
            elif isinstance(info, msgspec.inspect.Metadata):
                waiting.append(info.type)
            elif isinstance(info, msgspec.inspect.UnionType):
                waiting.extend(info.types)
            elif isinstance(info, msgspec.inspect.DictType):
                waiting.append(info.value_type)
            elif isinstance(info, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
                waiting.append(info.item_type)
        found = _infos[struct]
    return found


@lru_cache(maxsize=4096)
def struct_fields(struct: type) -> dict[str, msgspec.inspect.Type]:
    """The fields of a Struct by their names on the wire."""
    return {field.encode_name: field.type for field in struct_info(struct).fields}
