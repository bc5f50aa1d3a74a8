"""The OpenAPI v2 document in protobuf, as kubectl asks for it when it meets a kind that it doesn't know.

The form is gnostic's `openapi.v2.Document`. `_MESSAGES` has the fields that our documents use: the key in JSON, the
number on the wire, and what is there: text, a whole number, a flag, any value (as YAML, of which JSON is a part),
a message, a list (`*`) or a map (`%`, a list of named messages). What a key says in JSON and a choice (`oneof`) in
protobuf is a function. Called by `openapi.document`; the argument is a document that it made itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import msgspec

from bosket.apiserver.request.protobuf.wire import BYTES, FIXED64, VARINT

#: What clients accept, in the older and in the current spelling, and what is sent.
MEDIA_TYPES: Final = (
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
)
CONTENT_TYPE: Final = MEDIA_TYPES[1]

Json = dict[str, Any]
#: Field by key: its number, and what writes a value of it.
_Fields = dict[str, tuple[int, str]]

_SUB_SCHEMA: Final = "required 1 flag, in 2 text, description 3 text, name 4 text"
_MESSAGES: Final[dict[str, str]] = {
    "Document": "swagger 1 text, info 2 Info, paths 8 Paths, definitions 9 %Schema",
    "Info": "title 1 text, version 2 text, description 3 text",
    "PathItem": (
        "get 2 Operation, put 3 Operation, post 4 Operation, delete 5 Operation, options 6 Operation, "
        "head 7 Operation, patch 8 Operation, parameters 9 *ParametersItem, x- 10 extension"
    ),
    "Operation": (
        "tags 1 *text, summary 2 text, description 3 text, operationId 5 text, produces 6 *text, consumes 7 *text, "
        "parameters 8 *ParametersItem, responses 9 Responses, schemes 10 *text, deprecated 11 flag, x- 13 extension"
    ),
    "BodyParameter": "description 1 text, name 2 text, in 3 text, required 4 flag, schema 5 Schema, x- 6 extension",
    "PathParameter": f"{_SUB_SCHEMA}, type 5 text, format 6 text, pattern 16 text, x- 22 extension",
    "QueryParameter": f"{_SUB_SCHEMA}, type 6 text, format 7 text, pattern 17 text, x- 23 extension",
    "Response": "description 1 text, schema 2 SchemaItem, x- 5 extension",
    "Schema": (
        "$ref 1 text, format 2 text, title 3 text, description 4 text, default 5 any, multipleOf 6 real, "
        "maximum 7 real, exclusiveMaximum 8 flag, minimum 9 real, exclusiveMinimum 10 flag, maxLength 11 whole, "
        "minLength 12 whole, pattern 13 text, maxItems 14 whole, minItems 15 whole, uniqueItems 16 flag, "
        "maxProperties 17 whole, minProperties 18 whole, required 19 *text, enum 20 *any, "
        "additionalProperties 21 AdditionalProperties, type 22 TypeItem, items 23 ItemsItem, allOf 24 *Schema, "
        "properties 25 %Schema, readOnly 27 flag, example 30 any, x- 31 extension"
    ),
}


def _read(text: str) -> _Fields:
    fields: _Fields = {}
    for each in text.split(","):
        key, number, form = each.split()
        fields[key] = int(number), form
    return fields


_FIELDS: Final = {name: _read(text) for name, text in _MESSAGES.items()}


def encode_document(document: Json) -> bytes:
    """An OpenAPI v2 document, as a dictionary, in protobuf."""
    return _message(document, "Document")


def _message(value: Json, name: str) -> bytes:
    fields = _FIELDS[name]
    out: list[bytes] = []
    for key, each in value.items():
        number, form = fields.get(key) or (fields.get("x-", (0, "")) if key.startswith("x-") else (0, ""))
        if not number:
            continue  # JSON may say more than the message has: anyOf, not
        if form == "extension":
            out.append(_field(number, _named(key, _any(each))))
        elif form.startswith("*"):
            out.extend(_field(number, _bytes_of(child, form[1:])) for child in each)
        elif form.startswith("%"):
            named = (_named(key, _bytes_of(child, form[1:])) for key, child in each.items())
            out.append(_field(number, b"".join(_field(1, child) for child in named)))
        else:
            out.append(_single(number, each, form))
    return b"".join(out)


def _single(number: int, value: Any, form: str) -> bytes:
    if form == "flag":
        return _varint(number << 3 | VARINT) + b"\x01" if value else b""
    if form == "whole":
        return _varint(number << 3 | VARINT) + _varint(value % (1 << 64))
    if form == "real":
        return _varint(number << 3 | FIXED64) + struct.pack("<d", value)
    return _field(number, _bytes_of(value, form))


def _bytes_of(value: Any, form: str) -> bytes:
    if form == "text":
        return str(value).encode()
    special = _SPECIAL.get(form)
    return special(value) if special is not None else _message(value, form)


def _any(value: Any) -> bytes:
    return _field(2, msgspec.json.encode(value) + b"\n")


def _paths(paths: Json) -> bytes:
    return b"".join(_field(2, _named(path, _message(item, "PathItem"))) for path, item in paths.items())


def _parameter(value: Json) -> bytes:
    """A ParametersItem: a parameter of the body, or one of the others by where it is."""
    if value["in"] == "body":
        return _field(1, _field(1, _message(value, "BodyParameter")))
    number, name = (4, "PathParameter") if value["in"] == "path" else (3, "QueryParameter")
    return _field(1, _field(2, _field(number, _message(value, name))))


def _responses(responses: Json) -> bytes:
    return b"".join(
        _field(1, _named(code, _field(1, _message(response, "Response")))) for code, response in responses.items()
    )


def _additional(value: Any) -> bytes:
    return _single(2, value, "flag") if isinstance(value, bool) else _field(1, _message(value, "Schema"))


def _type(value: Any) -> bytes:
    return b"".join(_field(1, name.encode()) for name in ([value] if isinstance(value, str) else value))


def _schema_in_field_1(value: Json) -> bytes:
    return _field(1, _message(value, "Schema"))


_SPECIAL: Final[dict[str, Callable[[Any], bytes]]] = {
    "any": _any,
    "Paths": _paths,
    "ParametersItem": _parameter,
    "Responses": _responses,
    "AdditionalProperties": _additional,
    "TypeItem": _type,
    "ItemsItem": _schema_in_field_1,
    "SchemaItem": _schema_in_field_1,
}


def _named(name: str, value: bytes) -> bytes:
    return _field(1, name.encode()) + _field(2, value)


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | BYTES) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    if value < 0x80:
        return value.to_bytes(1, "little")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
