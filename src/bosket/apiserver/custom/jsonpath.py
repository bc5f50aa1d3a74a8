"""JSONPath as printer columns use it: `.spec.parts[0].name`, `.status.conditions[?(@.type=="Ready")].status`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_STEP = re.compile(
    r"""
      \.(?P<name>[A-Za-z0-9_$-]+(?:\\\.[A-Za-z0-9_$/-]+)*)
    | \[(?P<index>-?\d+)\]
    | \[(?P<all>\*)\] | \.(?P<dotall>\*)
    | \[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
    | \[\?\(\s*@\.(?P<key>[A-Za-z0-9_.-]+)\s*(?P<operator>==|!=)\s*(?P<literal>"[^"]*"|'[^']*'|[^)\s]+)\s*\)\]
    """,
    re.VERBOSE,
)

Step = Callable[[Any], list[Any]]


class InvalidPath(ValueError):
    """A path that isn't understood; quotes it."""


class JsonPath:
    """A compiled path."""

    def __init__(self, text: str) -> None:
        self.text = text
        path = text.strip()
        if path.startswith("{") and path.endswith("}"):
            path = path[1:-1]
        path = path.removeprefix("$")
        if path and path[0] not in ".[":
            path = "." + path
        self._steps: list[Step] = []
        position = 0
        while position < len(path):
            found = _STEP.match(path, position)
            if found is None:
                raise InvalidPath(f"JSONPath {text!r} is not understood from {path[position:]!r} on")
            self._steps.append(_step(found))
            position = found.end()

    def find(self, value: Any) -> list[Any]:
        """All values that the path leads to."""
        values = [value]
        for step in self._steps:
            values = [found for each in values for found in step(each)]
        return values

    def first(self, value: Any) -> Any:
        found = self.find(value)
        return found[0] if found else None


def _step(found: re.Match[str]) -> Step:
    if found["name"] is not None or found["quoted"] is not None:
        key = (found["name"] or found["quoted"]).replace("\\.", ".")
        return lambda value: [value[key]] if isinstance(value, dict) and key in value else []
    if found["index"] is not None:
        index = int(found["index"])
        return lambda value: [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []
    if found["key"] is not None:
        return _filter(found["key"].split("."), found["literal"].strip("'\""), negated=found["operator"] == "!=")
    return lambda value: list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _filter(keys: list[str], literal: str, *, negated: bool) -> Step:
    def matches(item: Any) -> bool:
        for key in keys:
            if not isinstance(item, dict) or key not in item:
                return False
            item = item[key]
        text = str(item).lower() if isinstance(item, bool) else str(item)
        return (text == literal) != negated

    return lambda value: [item for item in value if matches(item)] if isinstance(value, list) else []
