"""Tables for people: `kubectl get` asks the server for rows and prints them.

Columns of built-in kinds are in the modules beside this one, those of custom resources come from their definitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bosket.api.time import parse_time
from bosket.apiserver.objects.kind import Column
from bosket.apiserver.store.entry import Doc


def age(timestamp: str | None, now: float) -> str:
    """How long ago, in the unit that people would say: `37s`, `5m2s`, `3d4h`."""
    if not timestamp:
        return "<unknown>"
    try:
        return human_duration(now - parse_time(timestamp))
    except ValueError:
        return "<invalid>"


def human_duration(seconds: float) -> str:
    """Two units at most, the second only while it matters; as kubectl prints durations."""
    if seconds < -1:
        return "<invalid>"
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    years = days // 365
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def _name(doc: Doc, _now: float) -> object:
    return doc["metadata"]["name"]


def _age(doc: Doc, now: float) -> object:
    return age(doc["metadata"].get("creationTimestamp"), now)


NAME = Column("Name", _name, format="name", description="Name must be unique within a namespace.")
AGE = Column("Age", _age, description="How long ago the object was created.")
DEFAULT_COLUMNS = (NAME, AGE)


def table_head(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """The columns as a Table describes them."""
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in columns or DEFAULT_COLUMNS
    ]


def table_row(doc: Doc, columns: Sequence[Column], now: float, *, include: str) -> dict[str, Any]:
    """One object's cells; a cell that can't be read from the object is empty rather than an error."""
    row: dict[str, Any] = {"cells": [_cell(doc, column, now) for column in columns or DEFAULT_COLUMNS]}
    if include == "Object":
        row["object"] = doc
    elif include == "None":
        row["object"] = None
    else:
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": doc["metadata"],
        }
    return row


def _cell(doc: Doc, column: Column, now: float) -> object:
    try:
        return column.value(doc, now)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None
