"""Quantities in built-in kinds, written in their canonical form as kube-apiserver stores them."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any

from bosket.api import quantity


@lru_cache(maxsize=4096)
def _canonical(text: str | int | float) -> str:
    return quantity.canonical(text)


def canonicalise(quantities: dict[str, Any]) -> None:
    """Rewrite every quantity of a resource list; what can't be read stays, for validation to complain of."""
    for name, value in quantities.items():
        if isinstance(value, str | int | float):
            with suppress(quantity.InvalidQuantity):
                quantities[name] = _canonical(value)


def canonicalise_resources(resources: dict[str, Any]) -> None:
    """`requests` and `limits`, or whatever resource lists there are."""
    for quantities in resources.values():
        if isinstance(quantities, dict):
            canonicalise(quantities)
