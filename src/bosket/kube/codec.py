"""Codec: between objects and bytes, with one prebuilt encoder and decoder per kind.

Objects are decoded with empty `apiVersion` and `kind` (a Struct knows its own); dicts get both. A `null` for a list or
map, as Go writes for an empty one, counts as absent. An object that still doesn't fit its Struct must not hide the
others: in lists and watches it is logged, counted in `MALFORMED` and left out.
"""

from __future__ import annotations

import dataclasses
import gc
import logging
import threading
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar, cast

import msgspec
from prometheus_client import Counter

from bosket.api.meta import PartialObjectMetadata
from bosket.api.object import ListMeta, ObjectKey, Status
from bosket.api.resource import AnyResource, Resource
from bosket.api.table import resource_for, resource_of
from bosket.kube.errors import ApiError, UnexpectedBody, api_error, error_from_answer, quote_beginning
from bosket.kube.transport import Response

T = TypeVar("T")
#: A kind: its Struct, or its entry in a table of resources.
Kind = type[T] | Resource[T]

log = logging.getLogger(__name__)

#: Not registered here: the exporter of metrics registers it.
MALFORMED = Counter(
    "bosket_malformed_objects", "Objects left out because they don't fit their type", ["kind"], registry=None
)


class ObjectList(msgspec.Struct, Generic[T], gc=False):
    """A list as on the wire. Without `items` it is no list, which is not the same as an empty one."""

    items: list[T]
    metadata: ListMeta = ListMeta()


class _HeadMeta(msgspec.Struct, gc=False):
    name: str | None = None
    namespace: str | None = None
    resourceVersion: str | None = None  # noqa: N815 - a name on the wire


class _Head(msgspec.Struct, gc=False):
    """The metadata needed to identify an object that can't be decoded."""

    apiVersion: str | None = None  # noqa: N815 - a name on the wire
    kind: str | None = None
    metadata: _HeadMeta | None = None


_HEAD = msgspec.json.Decoder(_Head)
_STATUS = msgspec.json.Decoder(Status)
_RAW_LIST: msgspec.json.Decoder[ObjectList[msgspec.Raw]] = msgspec.json.Decoder(ObjectList[msgspec.Raw])


class Identity(msgspec.Struct, frozen=True, gc=False):
    """Key and resourceVersion of an object."""

    key: ObjectKey
    resource_version: str


def identify_raw(body: bytes | msgspec.Raw) -> Identity:
    """The name of the object in these bytes, as far as it can be read."""
    try:
        meta = _HEAD.decode(body).metadata or _HeadMeta()
    except msgspec.MsgspecError:
        meta = _HeadMeta()
    return Identity(ObjectKey(meta.namespace or "", meta.name or ""), meta.resourceVersion or "")


def identify(obj: Any) -> Identity:
    """Key and version of a decoded object, Struct or dict."""
    if isinstance(obj, dict):
        meta = obj.get("metadata") or {}
        key = ObjectKey(meta.get("namespace") or "", meta.get("name") or "")
        return Identity(key, meta.get("resourceVersion") or "")
    return Identity(obj.key, obj.metadata.resourceVersion)


class Codec(Generic[T]):
    """Encodes and decodes the objects of one resource."""

    __slots__ = ("_is_dict", "_many", "_one", "_prefix", "resource")

    def __init__(self, resource: Resource[T]) -> None:
        self.resource = resource
        self._is_dict = resource.struct is dict
        wire_type: Any = dict[str, Any] if self._is_dict else resource.struct
        self._one: msgspec.json.Decoder[T] = msgspec.json.Decoder(wire_type)
        self._many: msgspec.json.Decoder[ObjectList[T]] = msgspec.json.Decoder(ObjectList[wire_type])
        self._prefix = b'{"apiVersion":"%s","kind":"%s"' % (resource.api_version.encode(), resource.kind.encode())

    def encode(self, obj: T) -> bytes:
        """The object as JSON, with its apiVersion and kind."""
        anything: Any = obj
        if self._is_dict:
            return msgspec.json.encode(
                {**anything, "apiVersion": self.resource.api_version, "kind": self.resource.kind}
            )
        if anything.apiVersion or anything.kind:
            anything = msgspec.structs.replace(anything, apiVersion="", kind="")
        body = msgspec.json.encode(anything)
        return self._prefix + (b"}" if body == b"{}" else b"," + body[1:])

    def decode(self, body: bytes | msgspec.Raw) -> T:
        """One object; raises msgspec's errors."""
        try:
            obj = self._one.decode(body)
        except msgspec.ValidationError:
            stripped = strip_nulls(msgspec.json.decode(body))
            obj = self._one.decode(msgspec.json.encode(stripped))
        return self._settled(obj)

    def decode_answer(self, response: Response) -> T:
        """The object in a successful answer; raises `ApiError` for anything else."""
        body = response.body
        try:
            obj = self._one.decode(body)
        except msgspec.MsgspecError:
            return self._decode_odd_answer(response)
        anything: Any = obj
        kind = anything.get("kind", "") if self._is_dict else anything.kind
        if kind != self.resource.kind and kind:
            return self._decode_odd_answer(response)
        return self._settled(obj)

    def _decode_odd_answer(self, response: Response) -> T:
        """The slow path: nulls, a Status instead of an object, another kind, or garbage."""
        body, wanted = response.body, self.resource.kind
        try:
            head = _HEAD.decode(body)
        except msgspec.MsgspecError:
            raise unexpected(response, f"expected a {wanted}, got {quote_beginning(body)}") from None
        if head.kind == "Status" and head.apiVersion == "v1":
            raise _from_status(response, wanted)
        if head.kind and head.kind != wanted:
            raise unexpected(response, f"expected a {wanted}, got a {head.kind}")
        try:
            return self.decode(body)
        except msgspec.MsgspecError as error:
            raise unexpected(response, f"{wanted} {identify_raw(body).key}: {error}") from error

    def decode_list(self, response: Response) -> tuple[ObjectList[T], list[ObjectKey]]:
        """The items of a list, and the keys of malformed ones; raises if the answer is no list."""
        with gc_paused():
            try:
                page = self._many.decode(response.body)
            except msgspec.MsgspecError:
                return self._decode_list_one_by_one(response)
            for item in page.items:
                self._settled(item)
            return page, []

    def _decode_list_one_by_one(self, response: Response) -> tuple[ObjectList[T], list[ObjectKey]]:
        try:
            raw = _RAW_LIST.decode(response.body)
        except msgspec.MsgspecError as error:
            raw = self._decode_odd_list(response, error)
        items: list[T] = []
        left_out: list[ObjectKey] = []
        for item in raw.items:
            try:
                items.append(self.decode(item))
            except msgspec.MsgspecError as error:
                left_out.append(self.report_malformed(item, error).key)
        return ObjectList(items, raw.metadata), left_out

    def _decode_odd_list(self, response: Response, error: Exception) -> ObjectList[msgspec.Raw]:
        """Go writes `"items": null` for an empty list; anything else is the wrong answer."""
        check_verdict(response)
        document = msgspec.json.decode(response.body)
        if isinstance(document, dict) and "items" in document:
            try:
                return msgspec.convert({"items": [], **strip_nulls(document)}, ObjectList[msgspec.Raw])
            except msgspec.ValidationError as still:
                error = still
        beginning = quote_beginning(response.body)
        raise unexpected(response, f"expected a list of {self.resource.plural}: {error}: {beginning}") from None

    def report_malformed(self, body: bytes | msgspec.Raw, error: Exception) -> Identity:
        """Logs and counts an object that can't be used; says which it was."""
        identity = identify_raw(body)
        log.error("leaving out malformed %s %s: %s", self.resource.kind, identity.key, error)
        MALFORMED.labels(self.resource.kind).inc()
        return identity

    def _settled(self, obj: T) -> T:
        """The object as everyone may expect it in memory. It was just decoded and is nobody else's yet."""
        anything: Any = obj
        if self._is_dict:
            anything.setdefault("apiVersion", self.resource.api_version)
            anything.setdefault("kind", self.resource.kind)
        elif anything.kind or anything.apiVersion:
            msgspec.structs.force_setattr(anything, "kind", "")
            msgspec.structs.force_setattr(anything, "apiVersion", "")
        return obj


_CODECS: dict[Any, Codec[Any]] = {}


def codec_of(kind: Kind[T]) -> Codec[T]:
    """The codec of a kind, made on first use."""
    codec = _CODECS.get(kind)
    if codec is None:
        codec = _CODECS[kind] = Codec(kind if isinstance(kind, Resource) else resource_of(kind))
    return cast("Codec[T]", codec)


def codec_of_object(obj: T) -> Codec[T]:
    """The codec for an object: by its type, or for a dict by its apiVersion and kind."""
    if not isinstance(obj, dict):
        return codec_of(type(obj))
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    resource = resource_for(api_version, kind) if api_version and kind else None
    if resource is None:
        raise ValueError(f"can't tell which resource apiVersion {api_version!r}, kind {kind!r} is; pass kind=")
    return cast("Codec[T]", codec_of(untyped(resource)))


def untyped(resource: AnyResource) -> Resource[dict[str, Any]]:
    """The same kind, its objects as dicts with every field the server sends."""
    return cast("Resource[dict[str, Any]]", dataclasses.replace(resource, struct=dict))


def metadata_of(kind: Kind[Any]) -> Resource[PartialObjectMetadata]:
    """The same kind, its objects without their contents: lists and watches then ask the server for metadata alone."""
    return dataclasses.replace(codec_of(kind).resource, struct=PartialObjectMetadata)


def check_verdict(response: Response) -> None:
    """For answers whose content doesn't matter: raises if it is a Status of a failure."""
    if response.status == 204:
        return
    try:
        head = _HEAD.decode(response.body)
    except msgspec.MsgspecError:
        raise unexpected(response, f"expected JSON, got {quote_beginning(response.body)}") from None
    if head.kind == "Status" and _STATUS.decode(response.body).status == "Failure":
        raise error_from_answer(response.status, response.body)


def _from_status(response: Response, wanted: str) -> ApiError:
    status = _STATUS.decode(response.body)
    if status.status == "Failure":
        return api_error(status if status.code else msgspec.structs.replace(status, code=response.status))
    return unexpected(response, f"expected a {wanted}, got a Status: {status.message or status.status}")


def unexpected(response: Response, message: str) -> UnexpectedBody:
    """The error for an answer that can't be used."""
    return UnexpectedBody(Status(status="Failure", code=response.status, reason="UnexpectedBody", message=message))


def strip_nulls(document: Any) -> Any:
    """The document without the members of maps that are null."""
    if isinstance(document, dict):
        return {key: strip_nulls(value) for key, value in document.items() if value is not None}
    if isinstance(document, list):
        return [strip_nulls(element) for element in document]
    return document


class _GcPause:
    """Counts the blocks that keep the cyclic garbage collector paused: they nest, and run in several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._was_enabled = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._count:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            if not self._count and self._was_enabled:
                gc.enable()


_gc_pause = _GcPause()


def gc_paused() -> AbstractContextManager[None]:
    """Pauses the cyclic garbage collector within the block: while many objects are created and none dies, it would be
    most of the cost.

    Reference counting still frees objects without cycles. The collector is global: it is paused for all threads until
    the last block ends.
    """
    return _gc_pause
