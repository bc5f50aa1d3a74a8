"""Decodes the events of a watch connection.

`Client.watch` opens the stream; this module splits it into lines and decodes them. Resuming and relisting is done by
the reflector.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import msgspec

from bosket.api.object import ObjectKey, Status
from bosket.kube.codec import Codec, identify, identify_raw
from bosket.kube.errors import UnexpectedBody, error_from_answer, quote_beginning

T = TypeVar("T")

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
BOOKMARK = "BOOKMARK"


class WatchEvent(NamedTuple, Generic[T]):
    """One event. `object` is None for a bookmark and for a malformed object, which was logged and counted."""

    type: str
    object: T | None
    key: ObjectKey
    resource_version: str


class _Envelope(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_ENVELOPE = msgspec.json.Decoder(_Envelope)


class Lines:
    """Splits chunks into lines. Each byte is copied once, whatever the size of chunks."""

    def __init__(self) -> None:
        self._unfinished: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes. An unfinished last line is never returned."""
        first, *rest = chunk.split(b"\n")
        self._unfinished.append(first)
        if not rest:
            return []
        lines = [b"".join(self._unfinished), *rest]
        self._unfinished = [lines.pop()]
        return [line for line in lines if line]


def decode_event(codec: Codec[T], line: bytes) -> WatchEvent[T]:
    """The event in a line. An ERROR event raises the `ApiError` in it: 410 is `Gone`."""
    try:
        envelope = _ENVELOPE.decode(line)
    except msgspec.MsgspecError:
        raise _not_an_event(line) from None
    if envelope.type == BOOKMARK:
        identity = identify_raw(envelope.object)
        return WatchEvent(BOOKMARK, None, identity.key, identity.resource_version)
    if envelope.type == "ERROR":
        raise error_from_answer(500, bytes(envelope.object))
    try:
        obj = codec.decode(envelope.object)
    except msgspec.MsgspecError as error:
        identity = codec.report_malformed(envelope.object, error)
        return WatchEvent(envelope.type, None, identity.key, identity.resource_version)
    identity = identify(obj)
    return WatchEvent(envelope.type, obj, identity.key, identity.resource_version)


def _not_an_event(line: bytes) -> UnexpectedBody:
    message = f"expected a watch event, got {quote_beginning(line)}"
    return UnexpectedBody(Status(status="Failure", code=200, reason="UnexpectedBody", message=message))
