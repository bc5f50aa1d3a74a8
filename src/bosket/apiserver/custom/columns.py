"""What definitions say about reading objects: columns of tables, and fields that can be selected by."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from bosket.apiserver.custom.jsonpath import InvalidPath, JsonPath
from bosket.apiserver.custom.strategy import CustomStrategy
from bosket.apiserver.objects.kind import Column
from bosket.apiserver.printers.table import AGE, NAME, age
from bosket.apiserver.store.entry import Doc, Fields


def selectable_fields(strategies: Iterable[CustomStrategy]) -> Callable[[Doc], Fields] | None:
    """How the store reads what field selectors may speak of, in any version."""
    paths: dict[str, JsonPath] = {}
    for strategy in strategies:
        paths.update(strategy.selectable_paths())
    if not paths:
        return None

    def read(doc: Doc) -> Fields:
        values = {name: path.first(doc) for name, path in paths.items()}
        return {name: "" if value is None else _text(value) for name, value in values.items()}

    return read


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def columns_of(raw: Any) -> tuple[Column, ...]:
    """The columns of a version's table."""
    if not raw:
        return (NAME, AGE)
    return (NAME, *(_column(each) for each in raw))


def _path(text: str) -> JsonPath | None:
    """A column whose path can't be read is empty, as in Kubernetes."""
    try:
        return JsonPath(text)
    except InvalidPath:
        return None


def _column(raw: dict[str, Any]) -> Column:
    path, kind = _path(raw["jsonPath"]), raw["type"]

    def value(doc: Doc, now: float) -> object:
        found = None if path is None else path.first(doc)
        if found is None:
            return None
        if kind == "date":
            return age(str(found), now)
        if kind in ("integer", "number", "boolean"):
            return found
        return found if isinstance(found, str) else msgspec.json.encode(found).decode()

    return Column(
        raw["name"],
        value,
        type=kind,
        format=raw.get("format", ""),
        description=raw.get("description", ""),
        priority=raw.get("priority", 0),
    )
