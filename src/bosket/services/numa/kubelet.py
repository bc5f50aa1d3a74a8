"""A client of the kubelet's pod resources socket: one gRPC call, `List`, and only as much of gRPC as it needs.

A call is one HTTP/2 stream on its own connection. The request is an empty message, so only frames are written. Of the
response only data frames are read: a server sends a whole message or none, so compressed headers needn't be decoded. A
response without a message is an error.
"""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Final

from bosket.services.numa.pod_resources import MalformedAnswer, PodResources, decode_list

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GO_AWAY, _WINDOW_UPDATE = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7, 0x8
_END_STREAM = _ACK = 0x1
_END_HEADERS, _PADDED = 0x4, 0x8
_STREAM: Final = 1
#: Larger than what any kubelet answers: nobody has to ask for more room in the middle.
_MOST_BYTES: Final = 16 * 1024 * 1024
_SETTING_ENABLE_PUSH, _SETTING_INITIAL_WINDOW = 0x2, 0x4
_INITIAL_WINDOW: Final = 65535
_MESSAGE_HEADER: Final = 5
_REQUEST_HEADERS: Final = (
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/v1.PodResourcesLister/List"),
    (b":authority", b"localhost"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
)


class KubeletUnreachable(Exception):
    """The kubelet didn't answer; the message says how it failed, and names the socket."""


class KubeletSocket:
    """Asks a kubelet which pod has which resources."""

    def __init__(self, path: Path, *, timeout_seconds: float = 10.0) -> None:
        self._path = path
        self._timeout_seconds = timeout_seconds

    async def list(self) -> list[PodResources]:
        """All pods on the node; raises `KubeletUnreachable`."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return decode_list(await self._call())
        except TimeoutError as error:
            raise KubeletUnreachable(f"{self._path}: no answer within {self._timeout_seconds:g} s") from error
        except asyncio.IncompleteReadError as error:
            raise KubeletUnreachable(f"{self._path}: the kubelet hung up in the middle of its answer") from error
        except OSError as error:
            raise KubeletUnreachable(f"{self._path}: {error.strerror or error}") from error
        except MalformedAnswer as error:
            raise KubeletUnreachable(f"{self._path}: the answer can't be read: {error}") from error

    async def _call(self) -> bytes:
        reader, writer = await asyncio.open_unix_connection(str(self._path))
        try:
            writer.write(_request())
            return await _answer(reader, writer)
        finally:
            writer.close()


def _request() -> bytes:
    settings = struct.pack(">HIHI", _SETTING_ENABLE_PUSH, 0, _SETTING_INITIAL_WINDOW, _MOST_BYTES)
    more_room = struct.pack(">I", _MOST_BYTES - _INITIAL_WINDOW)
    # Literal names and values, neither indexed nor compressed: the plainest form there is.
    headers = b"".join(b"\0" + _string(name) + _string(value) for name, value in _REQUEST_HEADERS)
    return b"".join(
        (
            _PREFACE,
            _frame(_SETTINGS, 0, 0, settings),
            _frame(_WINDOW_UPDATE, 0, 0, more_room),
            _frame(_HEADERS, _END_HEADERS, _STREAM, headers),
            _frame(_DATA, _END_STREAM, _STREAM, bytes(_MESSAGE_HEADER)),
        )
    )


def _string(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """The message that the stream ends with."""
    data = bytearray()
    while True:
        header = await reader.readexactly(9)
        kind, flags, stream = struct.unpack(">BBI", header[3:])
        payload = await reader.readexactly(int.from_bytes(header[:3], "big"))
        if kind == _SETTINGS and not flags & _ACK:
            writer.write(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            writer.write(_frame(_PING, _ACK, 0, payload))
        elif kind == _GO_AWAY and not data:
            raise MalformedAnswer("the kubelet ends the connection")
        elif kind == _RESET and stream == _STREAM:
            raise MalformedAnswer("the kubelet breaks the call off")
        elif kind == _DATA and stream == _STREAM:
            data += payload[1 : len(payload) - payload[0]] if flags & _PADDED else payload
            if len(data) > _MOST_BYTES:
                raise MalformedAnswer(f"it has more than {_MOST_BYTES} bytes")
        if kind in (_DATA, _HEADERS) and stream == _STREAM and flags & _END_STREAM:
            return _message(bytes(data))


def _message(data: bytes) -> bytes:
    if not data:
        raise MalformedAnswer("the kubelet refuses the call")
    compressed, length = data[0], int.from_bytes(data[1:_MESSAGE_HEADER], "big")
    if compressed or len(data) != _MESSAGE_HEADER + length:
        raise MalformedAnswer("it is no message in gRPC's plain form")
    return data[_MESSAGE_HEADER:]
