"""A message becomes the JSON that the same client would have sent, had it sent JSON.

Fields that aren't in the table are those of a newer release, and are passed over. Depth is bounded: a message within a
message is a call within a call.
"""

from __future__ import annotations

import base64
from functools import partial
from typing import Any, Final

from bosket.apiserver.request.protobuf.form import SCHEMA, SPECIAL
from bosket.apiserver.request.protobuf.schema import META, Field, Message, find_message
from bosket.apiserver.request.protobuf.wire import (
    BYTES,
    FIXED64,
    VARINT,
    Malformed,
    Value,
    double,
    fields,
    signed,
    text,
    varints,
)
from bosket.apiserver.status import bad_request

_NUMBERS: Final = frozenset({"int", "bool"})
_SCHEMA_NAME: Final = "JSONSchemaProps"


def read_message(data: memoryview, message: Message, depth: int) -> Any:
    """The JSON value of a message; `depth` is how many levels it may have."""
    if depth <= 0:
        raise Malformed("messages are nested too deeply")
    found: dict[str, Any] = {}
    known = message.fields
    for number, wire_type, value in fields(data):
        field = known.get(number)
        if field is None:
            continue
        try:
            _add(found, field, wire_type, value, depth)
        except Malformed as error:
            raise Malformed(f"{message.name}.{field.name or field.type}: {error}") from None
    return found.get("[]", []) if message.is_bare_list else found


def _add(found: dict[str, Any], field: Field, wire_type: int, value: Value, depth: int) -> None:
    name = field.name
    if field.is_map:
        key, entry = _entry(field, wire_type, value, depth)
        found.setdefault(name, {})[key] = entry
    elif field.is_list:
        kept = found.setdefault(name, [])
        if field.type in _NUMBERS and wire_type == BYTES and not isinstance(value, int):
            kept.extend(_plain_number(field.type, each) for each in varints(value))
        else:
            kept.append(_value(field, wire_type, value, depth))
    else:
        read = _value(field, wire_type, value, depth)
        if not name:
            found.update(read)
        elif read is not None and not (field.omit_empty and not read):
            found[name] = read


def _entry(field: Field, wire_type: int, value: Value, depth: int) -> tuple[str, Any]:
    """One entry of a map is a message of a key and a value; either may be left out when it is empty."""
    if wire_type != BYTES or isinstance(value, int):
        raise Malformed("should be a map")
    key = ""
    entry: Any = _MISSING
    for number, each_type, each in fields(value):
        if number == 1 and not isinstance(each, int):
            key = text(each)
        elif number == 2:
            entry = _value(field, each_type, each, depth)
    if entry is _MISSING:
        empty: Value = 0 if field.type in _NUMBERS else memoryview(b"")
        entry = _value(field, VARINT if field.type in _NUMBERS else BYTES, empty, depth)
    return key, entry


_MISSING: Final = object()


def _value(field: Field, wire_type: int, value: Value, depth: int) -> Any:
    kind = field.type
    if kind in _NUMBERS:
        if wire_type != VARINT or not isinstance(value, int):
            raise Malformed("should be a number")
        return _plain_number(kind, value)
    if isinstance(value, int):
        raise Malformed("should not be a number")
    if kind == "double":
        if wire_type != FIXED64:
            raise Malformed("should be a floating-point number")
        return double(value)
    if wire_type != BYTES:
        raise Malformed("should not be a number")
    if kind == "str":
        return text(value)
    if kind == "bytes":
        return base64.b64encode(value).decode()
    if (special := SPECIAL.get(kind)) is not None:
        return special(value)
    schema = SCHEMA.get(kind)
    message = find_message(field.api_version, kind if schema is None else _SCHEMA_NAME)
    assert message is not None, f"{field.api_version} {kind} is not in the table"
    if schema is None:
        return read_message(value, message, depth - 1)
    return schema(value, partial(read_message, message=message, depth=depth - 1))


def _plain_number(kind: str, value: int) -> int | bool:
    return bool(value) if kind == "bool" else signed(value)


MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\0"


def decode_protobuf(body: bytes, max_depth: int) -> dict[str, Any]:
    """The object in a body, as JSON would have it; raises a Status with code 400."""
    if not body.startswith(_MAGIC):
        raise bad_request(f"the body is not {MEDIA_TYPE}: it does not begin with 6b 38 73 00")
    try:
        parts = {number: value for number, _, value in fields(memoryview(body)[len(_MAGIC) :])}
        about = {number: text(_bytes(value)) for number, _, value in fields(_bytes(parts.get(1, memoryview(b""))))}
        api_version, kind = about.get(1, ""), about.get(2, "")
        message = find_message(api_version, kind) or find_message(META, kind)
        if message is None:
            raise bad_request(f'no kind "{kind}" is registered for version "{api_version}"')
        if parts.get(3):
            raise Malformed("the object within is compressed, which is not supported")
        found = read_message(_bytes(parts.get(2, memoryview(b""))), message, max_depth)
    except Malformed as error:
        raise bad_request(f"the body is not valid {MEDIA_TYPE}: {error}") from None
    return {"apiVersion": api_version, "kind": kind, **found}


def _bytes(value: Value) -> memoryview:
    if isinstance(value, int):
        raise Malformed("the frame around the object has a number where it should have bytes")
    return value
