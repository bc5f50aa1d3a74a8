"""Request bodies: bytes in an accepted format become an object, or an error that says what is wrong."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from bosket.api.document import UnreadableDocument, read_yaml
from bosket.apiserver.request.executor import LargeObjectExecutor
from bosket.apiserver.request.protobuf import MEDIA_TYPE as PROTOBUF
from bosket.apiserver.request.protobuf import decode_protobuf
from bosket.apiserver.request.resource_request import ResourceRequest
from bosket.apiserver.status import JSON, WrongType, bad_request, describe, too_large, unsupported_media_type
from bosket.apiserver.store.entry import Doc

YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml")
#: Deeper nesting than any schema has; keeps recursive walks within Python's stack.
MAX_DEPTH = 100
#: Parts that a body of YAML may have: values, and beginnings and ends of collections. Each takes some ten microseconds;
#: an object of 3 MiB that people would write has a tenth of them.
MAX_EVENTS = 500_000
#: Bytes of a body that only says what is to be done, or asks something: DeleteOptions, a Binding, a review. Nothing of
#: it is stored, and the largest that make sense have some hundreds.
MAX_ORDER_BYTES: Final = 64 * 1024
#: How much longer a byte of YAML takes than one of JSON.
_YAML_EFFORT: Final = 16

S = TypeVar("S")

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
        value = _decode_json_in_yaml(body)
        if value is None:
            value = _decode_yaml(body)
        check_depth(value)  # aliases may have made it deeper than it is written
    elif kind == PROTOBUF:
        value = decode_protobuf(body, MAX_DEPTH)
    else:
        raise unsupported_media_type(f"accepted media types include: {JSON}, {YAML_TYPES[0]}, {PROTOBUF}")
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        check_depth(value)
    return value


def _decode_json_in_yaml(body: bytes) -> Any:
    """The value in YAML that is JSON, as most programs write it, in a hundredth of the time; None where it isn't."""
    if body.lstrip()[:1] != b"{":
        return None
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _decode_yaml(body: bytes) -> Any:
    """The one document in `body`, as JSON would have it."""
    try:
        return _decode(
            msgspec.json.encode(read_yaml(body, MAX_DEPTH, max_events=MAX_EVENTS))
        )  # dates and the like become what JSON has
    except (UnreadableDocument, TypeError, ValueError, RecursionError) as error:
        raise bad_request(f"the body is not valid YAML: {error}") from None


def check_depth(value: Any, allowed: int = MAX_DEPTH) -> None:
    """Refuse what is nested so deeply that recursive walks might not come back."""
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


def body_work(request: ResourceRequest) -> int:
    """What reading the body is worth in bytes of JSON."""
    kind = media_type(request.headers.get("content-type", ""))
    is_yaml = (kind in YAML_TYPES or kind.endswith("+yaml")) and request.body.lstrip()[:1] != b"{"
    return len(request.body) * (_YAML_EFFORT if is_yaml else 1)


def check_order_size(request: ResourceRequest) -> None:
    """Refuse a body that is larger than any that says what to do, before it is read."""
    if len(request.body) > MAX_ORDER_BYTES:
        raise too_large(MAX_ORDER_BYTES)


async def decode_value(request: ResourceRequest, executor: LargeObjectExecutor) -> Any:
    """The value in a call's body, whatever it is about."""
    return await executor.run(body_work(request), decode_body, request.body, request.headers.get("content-type", ""))


async def decode_order(
    request: ResourceRequest, executor: LargeObjectExecutor, wanted: type[S], named: str, *, optional: bool = False
) -> S:
    """What a body says is to be done; all defaults where there is none and it is `optional`."""
    check_order_size(request)
    value = await decode_value(request, executor) if request.body or not optional else {}
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        raise bad_request(f"the body is not {named}: {error}") from None


def decode_object(request: ResourceRequest) -> Doc:
    """The object that a request carries, of the kind that its path names."""
    content_type = request.headers.get("content-type", "")
    if request.kind.custom and media_type(content_type) == PROTOBUF:  # it has no numbers for custom resources' fields
        raise unsupported_media_type(f"accepted media types include: {JSON}, {YAML_TYPES[0]}")
    return check_object(request, decode_body(request.body, content_type))


def check_object(request: ResourceRequest, value: Any) -> Doc:
    """Insist that `value` is an object of the call's kind and version, with metadata that can be one."""
    if not isinstance(value, dict):
        raise bad_request(f"the body must be a JSON object of kind {request.kind.kind}, not {describe(value)}")
    doc: Doc = value
    expected = request.api_version
    given_version, given_kind = doc.get("apiVersion") or expected, doc.get("kind") or request.kind.kind
    if given_version != expected:
        raise WrongType(
            f"the API version in the data ({given_version}) does not match the expected API version ({expected})"
        )
    if given_kind != request.kind.kind:
        raise WrongType(f"the kind in the data ({given_kind}) does not match the expected kind ({request.kind.kind})")
    if b"null" in request.body and not request.kind.custom:
        drop_nulls(doc)  # they mean "not set"; a custom resource's schema may say otherwise
    metadata = doc.pop("metadata", None)
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise bad_request(f"metadata must be an object, not {describe(metadata)}")
    doc.pop("apiVersion", None)
    doc.pop("kind", None)
    return {"apiVersion": expected, "kind": request.kind.kind, "metadata": metadata, **doc}


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
