"""OpenAPI v2 in protobuf says what it says in JSON; the field numbers are those of gnostic's openapi.v2.Document."""

from __future__ import annotations

import json
import struct
from typing import Any

from bosket.apiserver.openapi.protobuf import CONTENT_TYPE, MEDIA_TYPES, encode_document
from bosket.apiserver.request.protobuf.wire import FIXED64, VARINT, fields
from tests.apiserver.world import DEFINITIONS, World, definition

Message = dict[int, list[Any]]


def message(data: memoryview | bytes) -> Message:
    """All values of a message by the numbers of their fields."""
    found: Message = {}
    for number, wire_type, value in fields(memoryview(data)):
        if wire_type == FIXED64:
            assert isinstance(value, memoryview)
            found.setdefault(number, []).append(struct.unpack("<d", value)[0])
        else:
            found.setdefault(number, []).append(value if wire_type == VARINT else memoryview(value))  # type: ignore[arg-type]
    return found


def text(value: memoryview) -> str:
    return bytes(value).decode()


def named(values: list[Any]) -> dict[str, Any]:
    """A list of NamedX: the values by their names."""
    pairs = [message(value) for value in values]
    return {text(each[1][0]): each[2][0] for each in pairs}


def extensions(values: list[Any]) -> dict[str, Any]:
    return {name: json.loads(bytes(message(value)[2][0])) for name, value in named(values).items()}


def schema(data: memoryview | bytes) -> dict[str, Any]:
    """A Schema as JSON has it."""
    found = message(data)
    out: dict[str, Any] = {}
    for number, key in ((1, "$ref"), (2, "format"), (3, "title"), (4, "description"), (13, "pattern")):
        if number in found:
            out[key] = text(found[number][0])
    for number, key in ((7, "maximum"), (9, "minimum")):
        if number in found:
            out[key] = found[number][0]
    for number, key in ((11, "maxLength"), (12, "minLength"), (14, "maxItems"), (15, "minItems")):
        if number in found:
            out[key] = found[number][0]
    if 5 in found:
        out["default"] = json.loads(bytes(message(found[5][0])[2][0]))
    if 19 in found:
        out["required"] = [text(each) for each in found[19]]
    if 20 in found:
        out["enum"] = [json.loads(bytes(message(each)[2][0])) for each in found[20]]
    if 21 in found:
        choice = message(found[21][0])
        out["additionalProperties"] = schema(choice[1][0]) if 1 in choice else bool(choice[2][0])
    if 22 in found:
        out["type"] = text(message(found[22][0])[1][0])
    if 23 in found:
        out["items"] = schema(message(found[23][0])[1][0])
    if 24 in found:
        out["allOf"] = [schema(each) for each in found[24]]
    if 25 in found:
        properties = named(message(found[25][0]).get(1, []))
        out["properties"] = {name: schema(each) for name, each in properties.items()}
    if 31 in found:
        out |= extensions(found[31])
    assert not found.keys() - {1, 2, 3, 4, 5, 7, 9, 11, 12, 13, 14, 15, 19, 20, 21, 22, 23, 24, 25, 31}
    return out


def parameter(data: memoryview) -> dict[str, Any]:
    choice = message(message(data)[1][0])
    if 1 in choice:
        found = message(choice[1][0])
        name, place, required = found[2][0], found[3][0], found.get(4, [0])[0]
        return {"name": text(name), "in": text(place), "required": bool(required), "schema": schema(found[5][0])}
    ((number, (value,)),) = message(choice[2][0]).items()
    found = message(value)
    out = {"name": text(found[4][0]), "in": text(found[2][0]), "type": text(found[{3: 6, 4: 5}[number]][0])}
    return out | ({"required": True} if found.get(1) == [1] else {})


def response(data: memoryview) -> dict[str, Any]:
    found = message(message(data)[1][0])
    out: dict[str, Any] = {"description": text(found[1][0])}
    return out | ({"schema": schema(message(found[2][0])[1][0])} if 2 in found else {})


def operation(data: memoryview) -> dict[str, Any]:
    found = message(data)
    out: dict[str, Any] = {"description": text(found[3][0]), "operationId": text(found[5][0])}
    for number, key in ((1, "tags"), (6, "produces"), (7, "consumes")):
        if number in found:
            out[key] = [text(each) for each in found[number]]
    out["parameters"] = [parameter(each) for each in found.get(8, [])]
    out["responses"] = {code: response(each) for code, each in named(message(found[9][0])[1]).items()}
    return out | extensions(found[13])


def path_item(data: memoryview) -> dict[str, Any]:
    found = message(data)
    out: dict[str, Any] = {}
    for number, method in ((2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")):
        if number in found:
            out[method] = operation(found[number][0])
    return out | {"parameters": [parameter(each) for each in found.get(9, [])]}


async def test_the_document_is_the_same_in_protobuf_and_in_json(world: World) -> None:
    limited = {"type": "integer", "minimum": 1, "maximum": 5, "default": 2}
    listed = {"type": "array", "maxItems": 300, "items": {"type": "string", "enum": ["a", "b"], "minLength": 1}}
    spec = {"type": "object", "required": ["x"], "properties": {"x": limited, "l": listed}}
    await world.ok("POST", DEFINITIONS, definition(spec))
    in_json = await world.ok("GET", "/openapi/v2")
    answer = await world.call("GET", "/openapi/v2", accept=MEDIA_TYPES[0])
    assert (answer.status, answer.headers["content-type"]) == (200, CONTENT_TYPE)
    document = message(answer.body)
    assert text(document[1][0]) == "2.0"
    info = message(document[2][0])
    assert {"title": text(info[1][0]), "version": text(info[2][0])} == in_json["info"]
    definitions = named(message(document[9][0])[1])
    assert {name: schema(each) for name, each in definitions.items()} == in_json["definitions"]
    paths = named(message(document[8][0])[2])
    expected = {name: {"parameters": [], **item} for name, item in in_json["paths"].items()}
    assert {name: path_item(each) for name, each in paths.items()} == expected


async def test_it_is_kept_like_the_one_in_json_and_only_there_is_one(world: World) -> None:
    first = await world.call("GET", "/openapi/v2", accept=MEDIA_TYPES[0])
    in_json = await world.call("GET", "/openapi/v2", accept="application/json")
    assert first.headers["etag"] != in_json.headers["etag"]
    assert first.headers["vary"] == "Accept"
    for accept in (MEDIA_TYPES[1], f"{MEDIA_TYPES[0]}, */*;q=0.5"):
        assert (await world.call("GET", "/openapi/v2", accept=accept)).body == first.body
    assert (await world.call("GET", "/openapi/v2", accept=f"application/json, {MEDIA_TYPES[0]}")).body == in_json.body
    assert (await world.call("GET", "/openapi/v2", accept="text/html")).status == 406
    assert (await world.call("GET", "/openapi/v3", accept=MEDIA_TYPES[0])).status == 406


def test_what_only_json_can_say_is_left_out() -> None:
    odd = {"anyOf": [{}], "type": ["string", "null"], "additionalProperties": True, "minimum": -1.5}
    found = message(encode_document({"swagger": "2.0", "definitions": {"Odd": odd}}))
    (written,) = (message(each) for each in named(message(found[9][0])[1]).values())
    assert written.keys() == {22, 21, 9}
    assert (written[9], message(written[21][0])) == ([-1.5], {2: [1]})
    assert [text(each) for each in message(written[22][0])[1]] == ["string", "null"]
