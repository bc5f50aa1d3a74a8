"""Request bodies: bytes in an accepted format become an object, or the client is told what is wrong with them."""

from __future__ import annotations

from typing import Any

import msgspec

from bosket.apiserver.call import Call
from bosket.apiserver.entry import Doc
from bosket.apiserver.protobuf import MEDIA_TYPE as PROTOBUF
from bosket.apiserver.protobuf import decode_protobuf
from bosket.apiserver.status import JSON, WrongType, bad_request, unsupported_media_type
from bosket.apiserver.yaml_body import decode_yaml

YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml")
#: Deeper nesting than any schema has; keeps recursive walks within Python's stack.
MAX_DEPTH = 100

_decode = msgspec.json.Decoder().decode


def media_type(headers_value: str) -> str:
    """A content type without its parameters."""
    return headers_value.partition(";")[0].strip().lower()


def decode_body(body: bytes, content_type: str) -> Any:
    """The value in a body of JSON, YAML or Kubernetes' protobuf."""
    kind = media_type(content_type)
    if kind in ("", JSON) or kind.endswith("+json"):
        try:
            value = _decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise bad_request(f"the body is not valid JSON: {error}") from None
        except RecursionError:
            raise bad_request("the body is nested too deeply") from None
    elif kind in YAML_TYPES or kind.endswith("+yaml"):
        value = decode_yaml(body, MAX_DEPTH)
        _check_depth(value, MAX_DEPTH)  # aliases may have made it deeper than it is written
    elif kind == PROTOBUF:
        value = decode_protobuf(body, MAX_DEPTH)
    else:
        raise unsupported_media_type(f"accepted media types include: {JSON}, {YAML_TYPES[0]}, {PROTOBUF}")
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        _check_depth(value, MAX_DEPTH)
    return value


def _check_depth(value: Any, allowed: int) -> None:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(allowed):
        if not level:
            return
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
    raise bad_request(f"the body is nested more than {allowed} levels deep")


def decode_object(call: Call) -> Doc:
    """The object that a request carries, of the kind that its path names."""
    content_type = call.headers.get("content-type", "")
    if call.kind.custom and media_type(content_type) == PROTOBUF:  # it has no numbers for custom resources' fields
        raise unsupported_media_type(f"accepted media types include: {JSON}, {YAML_TYPES[0]}")
    return check_object(call, decode_body(call.body, content_type))


def check_object(call: Call, value: Any) -> Doc:
    """Insist that `value` is an object of the call's kind and version, with metadata that can be one."""
    if not isinstance(value, dict):
        raise bad_request(f"the body must be a JSON object of kind {call.kind.kind}, not {describe(value)}")
    doc: Doc = value
    expected = call.api_version
    given_version, given_kind = doc.get("apiVersion") or expected, doc.get("kind") or call.kind.kind
    if given_version != expected:
        raise WrongType(
            f"the API version in the data ({given_version}) does not match the expected API version ({expected})"
        )
    if given_kind != call.kind.kind:
        raise WrongType(f"the kind in the data ({given_kind}) does not match the expected kind ({call.kind.kind})")
    if b"null" in call.body and not call.kind.custom:
        drop_nulls(doc)  # they mean "not set"; a custom resource's schema may say otherwise
    metadata = doc.pop("metadata", None)
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise bad_request(f"metadata must be an object, not {describe(metadata)}")
    doc.pop("apiVersion", None)
    doc.pop("kind", None)
    return {"apiVersion": expected, "kind": call.kind.kind, "metadata": metadata, **doc}


def describe(value: object) -> str:
    """A JSON value's type, in JSON's words."""
    if value is None:
        return "null"
    for python, name in (
        (bool, "a boolean"),
        (str, "a string"),
        (int, "a number"),
        (float, "a number"),
        (list, "a list"),
    ):
        if isinstance(value, python):
            return name
    return "an object"


def drop_nulls(value: Any) -> None:
    """Take out of every map the keys that are null."""
    if isinstance(value, dict):
        for key in [key for key, child in value.items() if child is None]:
            del value[key]
        for child in value.values():
            if isinstance(child, dict | list):
                drop_nulls(child)
    elif isinstance(value, list):
        for child in value:
            if isinstance(child, dict | list):
                drop_nulls(child)
