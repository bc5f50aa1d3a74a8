"""Messages that have a form of their own in JSON: times, quantities, integers or strings, JSON within, schemas."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from bosket.apiserver.request.protobuf.wire import Malformed, Value, fields, signed, text

#: The seconds of the years 1 and 9999: beyond them a time can't be written.
_FIRST, _LAST = -62135596800, 253402300799
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - a count of seconds has no zone
_NANOS: Final = 1_000_000_000


def _parts(data: memoryview) -> dict[int, Value]:
    """The fields of a small message; the last of a number counts."""
    return {number: value for number, _, value in fields(data)}


def _number(parts: dict[int, Value], number: int) -> int:
    value = parts.get(number, 0)
    if not isinstance(value, int):
        raise Malformed(f"field {number} should be a number")
    return signed(value)


def _text(parts: dict[int, Value], number: int) -> str:
    value = parts.get(number)
    if value is None:
        return ""
    if isinstance(value, int):
        raise Malformed(f"field {number} should be a string")
    return text(value)


def _moment(data: memoryview) -> tuple[str, int] | None:
    """A time up to its seconds, and the nanoseconds; None for Go's zero time."""
    parts = _parts(data)
    if not parts:
        return None
    seconds, nanos = _number(parts, 1), _number(parts, 2)
    if not (_FIRST <= seconds <= _LAST and 0 <= nanos < _NANOS):
        raise Malformed(f"a time of {seconds} s and {nanos} ns can't be written")
    if seconds == _FIRST and not nanos:
        return None
    return (_EPOCH + timedelta(seconds=seconds)).isoformat(), nanos


def _time(data: memoryview) -> str | None:
    found = _moment(data)
    return None if found is None else f"{found[0]}Z"


def _micro_time(data: memoryview) -> str | None:
    found = _moment(data)
    return None if found is None else f"{found[0]}.{found[1] // 1000:06d}Z"


def _quantity(data: memoryview) -> str:
    return _text(_parts(data), 1) or "0"


def _int_or_string(data: memoryview) -> int | str:
    parts = _parts(data)
    return _text(parts, 3) if _number(parts, 1) else _number(parts, 2)


def _json(data: memoryview) -> Any:
    """JSON within a message: managed fields, a custom configuration, a default in a schema."""
    raw = _parts(data).get(1, memoryview(b""))
    if isinstance(raw, int):
        raise Malformed("JSON within the message should be bytes")
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"JSON within the message is not valid: {error}") from None
    except RecursionError:
        raise Malformed("JSON within the message is nested too deeply") from None


#: How each of these forms is read.
SPECIAL: Final[dict[str, Callable[[memoryview], Any]]] = {
    "time": _time,
    "microtime": _micro_time,
    "quantity": _quantity,
    "intorstring": _int_or_string,
    "json": _json,
}

_Schema = Callable[[memoryview], Any]


def _schema_or_list(data: memoryview, schema: _Schema) -> Any:
    one: Any = None
    several = []
    for number, _, value in fields(data):
        if isinstance(value, int):
            raise Malformed("a schema should be a message")
        if number == 1:
            one = schema(value)
        elif number == 2:
            several.append(schema(value))
    return several or one


def _schema_or_bool(data: memoryview, schema: _Schema) -> Any:
    allows: Any = False
    for number, _, value in fields(data):
        if number == 2 and not isinstance(value, int):
            return schema(value)
        if number == 1:
            allows = bool(value)
    return allows


def _schema_or_strings(data: memoryview, schema: _Schema) -> Any:
    strings = []
    for number, _, value in fields(data):
        if isinstance(value, int):
            raise Malformed("a schema should be a message")
        if number == 1:
            return schema(value)
        if number == 2:
            strings.append(text(value))
    return strings


#: The forms that hold a schema, or something simpler in its place; they are given how a schema is read.
SCHEMA: Final[dict[str, Callable[[memoryview, _Schema], Any]]] = {
    "schemaorlist": _schema_or_list,
    "schemaorbool": _schema_or_bool,
    "schemaorstrings": _schema_or_strings,
}
