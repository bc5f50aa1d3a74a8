"""The frame around an object: four bytes that say what it is, its API version and kind, and the object's own bytes."""

from __future__ import annotations

from typing import Any, Final

from bosket.apiserver.request.protobuf.message import read_message
from bosket.apiserver.request.protobuf.schema import META, find_message
from bosket.apiserver.request.protobuf.wire import Malformed, Value, fields, text
from bosket.apiserver.status import bad_request

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
