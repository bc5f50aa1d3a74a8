"""What a watch connection says, decoded event by event.

`Client.watch` opens the stream; this module cuts it into lines and decodes them. Resuming and relisting are the
reflector's business.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Generic, NamedTuple, TypeVar

import msgspec

from bosket.api.object import ObjectKey, Status
from bosket.kube.codec import Codec, identify, identify_raw
from bosket.kube.errors import UnexpectedBody, error_from_answer, quote_beginning
from bosket.kube.transport import Stream

T = TypeVar("T")

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
BOOKMARK = "BOOKMARK"


class WatchEvent(NamedTuple, Generic[T]):
    """One event. `object` is None for a bookmark, and for an object that is malformed (logged and counted already)."""

    type: str
    object: T | None
    key: ObjectKey
    resource_version: str


class _Envelope(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_ENVELOPE = msgspec.json.Decoder(_Envelope)


async def lines(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines of a stream of chunks. Each byte is copied once, however the chunks are cut."""
    unfinished: list[bytes] = []
    async for chunk in stream:
        first, *rest = chunk.split(b"\n")
        unfinished.append(first)
        if rest:
            line = b"".join(unfinished)
            if line:
                yield line
            unfinished = [rest.pop()]
            for line in rest:
                if line:
                    yield line
    # What follows the last newline was cut off by a hang-up; the next connection will say it again.


async def events(codec: Codec[T], stream: Stream) -> AsyncIterator[WatchEvent[T]]:
    """The events of an open watch. An ERROR event raises the `ApiError` in it: 410 is `Gone`."""
    async for line in lines(aiter(stream)):
        try:
            envelope = _ENVELOPE.decode(line)
        except msgspec.MsgspecError:
            raise _not_an_event(stream, line) from None
        if envelope.type == BOOKMARK:
            identity = identify_raw(envelope.object)
            yield WatchEvent(BOOKMARK, None, identity.key, identity.resource_version)
        elif envelope.type == "ERROR":
            raise error_from_answer(500, bytes(envelope.object))
        else:
            yield _decoded(codec, envelope)


def _decoded(codec: Codec[T], envelope: _Envelope) -> WatchEvent[T]:
    try:
        obj = codec.decode(envelope.object)
    except msgspec.MsgspecError as error:
        identity = codec.report_malformed(envelope.object, error)
        return WatchEvent(envelope.type, None, identity.key, identity.resource_version)
    identity = identify(obj)
    return WatchEvent(envelope.type, obj, identity.key, identity.resource_version)


def _not_an_event(stream: Stream, line: bytes) -> UnexpectedBody:
    message = f"expected a watch event, got {quote_beginning(line)}"
    return UnexpectedBody(Status(status="Failure", code=stream.status, reason="UnexpectedBody", message=message))
