"""jq expressions, compiled once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jq

from bosket.podgrouper.owner import GroupingError


@lru_cache(maxsize=256)
def compiled(expression: str) -> Any:
    """Raises ValueError for what is none."""
    return jq.compile(expression)


def evaluate(expression: str, value: Mapping[str, Any]) -> list[Any]:
    """All results of a jq expression."""
    try:
        results: list[Any] = compiled(expression).input_value(value).all()
    except ValueError as error:
        raise GroupingError(f'"{expression}": {error}') from None
    return results
