"""Protobuf's wire format: bytes become fields with a number and a value. Nothing here knows Kubernetes.

Whatever the bytes are, reading ends after one pass over them, and what isn't the format raises `Malformed`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

#: How a field's value is written: the low three bits of its tag.
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED_BYTES: Final = {FIXED64: 8, FIXED32: 4}
_MAX_VARINT_BYTES: Final = 10
_SIGN, _MODULUS = 1 << 63, 1 << 64

Value = int | memoryview


class Malformed(ValueError):
    """These bytes are no message; the text says why."""


def fields(data: memoryview) -> Iterator[tuple[int, int, Value]]:
    """Number, wire type and value of each field: an integer for varints, the bytes for everything else."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position, end)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise Malformed("a field has the number 0")
        if wire_type == VARINT:
            value, position = _varint(data, position, end)
            yield number, wire_type, value
            continue
        if wire_type == BYTES:
            size, position = _varint(data, position, end)
        elif wire_type in _FIXED_BYTES:
            size = _FIXED_BYTES[wire_type]
        else:
            raise Malformed(f"field {number} has the wire type {wire_type}, which is not used")
        if size > end - position:
            raise Malformed(f"field {number} should have {size} bytes, and {end - position} are left")
        yield number, wire_type, data[position : position + size]
        position += size


def _varint(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """An unsigned number of up to 64 bits, and where it ends."""
    value = shift = 0
    for _ in range(_MAX_VARINT_BYTES):
        if position >= end:
            raise Malformed("a number ends too early")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value % _MODULUS, position
        shift += 7
    raise Malformed("a number has more than 64 bits")


def varints(data: memoryview) -> Iterator[int]:
    """The numbers of a packed list."""
    position, end = 0, len(data)
    while position < end:
        value, position = _varint(data, position, end)
        yield value


def signed(value: int) -> int:
    """A varint as the integer that it stands for."""
    return value - _MODULUS if value >= _SIGN else value


def double(data: memoryview) -> float:
    """The floating-point number in eight bytes."""
    (number,) = struct.unpack("<d", data)
    return float(number)


def text(data: memoryview) -> str:
    """A string; it must be UTF-8."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        raise Malformed("a string is not valid UTF-8") from None
