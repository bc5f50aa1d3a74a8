"""Conditions in the status of objects that the server itself writes."""

from __future__ import annotations

from typing import Any


def find_condition(conditions: list[dict[str, Any]] | None, kind: str) -> dict[str, Any] | None:
    """The condition of a type, if it is there."""
    return next((each for each in conditions or () if each.get("type") == kind), None)


def set_condition(conditions: list[dict[str, Any]], wanted: dict[str, Any], now: str) -> None:
    """Put a condition in; its transition time moves only when its status does."""
    for index, known in enumerate(conditions):
        if known.get("type") == wanted["type"]:
            same = known.get("status") == wanted["status"]
            since = known.get("lastTransitionTime", now) if same else now
            conditions[index] = {**wanted, "lastTransitionTime": since}
            return
    conditions.append({**wanted, "lastTransitionTime": now})
