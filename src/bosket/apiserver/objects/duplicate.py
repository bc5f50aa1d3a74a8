"""Keys that are in a JSON object twice: the last one counts, and clients that ask for it are told."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any


class _Object(dict[str, Any]):
    """A JSON object that remembers its repeated keys."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated: list[str] = []
        if len(self) != len(pairs):
            self.repeated = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]


def repeated_keys(body: bytes) -> list[str]:
    """The paths of all keys that are there more than once; the body is JSON that can be decoded."""
    found: list[str] = []
    _visit(json.loads(body, object_pairs_hook=_Object), "", found)
    return found


def _visit(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Object):
        found += [f"{path}.{key}" if path else key for key in value.repeated]
        for key, child in value.items():
            if isinstance(child, _Object | list):
                _visit(child, f"{path}.{key}" if path else key, found)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            if isinstance(child, _Object | list):
                _visit(child, f"{path}[{index}]", found)
