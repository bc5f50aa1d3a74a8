"""Reading requests and scenarios: keys in capital letters or not, nulls as if left out, what is wrong by its field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)
Report = Callable[[str], None]


class InvalidDocument(ValueError):
    """A document that can't be followed; the message names the field."""


def fields_of(where: str, value: Any, kind: type[T], report: Report) -> T:
    """A map as a Struct whose fields are named in small letters; `report` is called with keys that have no effect."""
    if not isinstance(value, dict):
        raise InvalidDocument(f"{where or 'the document'} must be a map, it is {type(value).__name__}")
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    given: dict[str, Any] = {}
    for key, item in value.items():
        name = str(key).lower()
        if name not in known:
            report(f"{_at(where, str(key))} has no effect")
        elif item is not None:
            given[name] = item
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        raise InvalidDocument(f"{_at(where, path.rstrip('`').lstrip('.'))}: {text}") from error


def items_of(where: str, value: Any) -> list[tuple[str, Any]]:
    """The elements of a list, each with its place."""
    if not isinstance(value, list):
        raise InvalidDocument(f"{where} must be a list, it is {type(value).__name__}")
    return [(f"{where}[{number}]", item) for number, item in enumerate(value)]


def _at(where: str, key: str) -> str:
    return f"{where}.{key}" if where and key else where or key
