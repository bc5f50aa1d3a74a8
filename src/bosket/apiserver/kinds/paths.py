"""Reading selectable fields by their dotted names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bosket.apiserver.store.entry import Doc


def paths(*names: str) -> dict[str, Callable[[Doc], Any]]:
    """A reader for each dotted name; a field that isn't there reads as None."""
    return {name: _reader(name.split(".")) for name in names}


def _reader(path: list[str]) -> Callable[[Doc], Any]:
    def read(doc: Doc) -> Any:
        value: Any = doc
        for key in path:
            value = value.get(key)
            if value is None:
                return None
        return value

    return read
