"""Rules for requests and limits."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any

from bosket.api import quantity
from bosket.api.field_error import FieldError, invalid_value
from bosket.api.name_rules import label_key_error
from bosket.apiserver.status import WrongType

_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})


def validate_resources(resources: dict[str, Any], path: str) -> list[FieldError]:
    """Quantities that can be read, aren't negative, and don't contradict each other."""
    errors: list[FieldError] = []
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    unreadable = False
    for key, quantities in (("limits", limits), ("requests", requests)):
        for name, amount in quantities.items():
            problem = _problem(f"{path}.{key}[{name}]", name, amount)
            if problem is not None:
                unreadable = True
                errors.append(invalid_value(f"{path}.{key}[{name}]", amount, problem))
    if unreadable:
        return errors
    for name, request in requests.items():
        limit = limits.get(name)
        if is_extended(name) or name.startswith("hugepages-"):
            if limit is None:
                errors.append(
                    FieldError(
                        f"{path}.limits",
                        "FieldValueRequired",
                        "Required value: Limit must be set for non overcommitable resources",
                    )
                )
            elif quantity.compare(request, limit) != 0:
                errors.append(invalid_value(f"{path}.requests", request, f"must be equal to {name} limit of {limit}"))
        elif limit is not None and quantity.compare(request, limit) > 0:
            errors.append(
                invalid_value(f"{path}.requests", request, f"must be less than or equal to {name} limit of {limit}")
            )
    return errors


def is_extended(name: str) -> bool:
    """Whether a resource is a device plugin's (`nvidia.com/gpu`): counted in whole pieces."""
    return "/" in name and "kubernetes.io/" not in name


def _problem(where: str, name: str, amount: Any) -> str | None:
    if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
        return "must be a standard resource for containers or a fully qualified name"
    if problem := label_key_error(name):
        return problem
    try:
        if quantity.compare(amount, "0") < 0:
            return "must be greater than or equal to 0"
        if is_extended(name) and quantity.to_milli(amount) % 1000:
            return "must be an integer"
    except quantity.InvalidQuantity as error:
        raise WrongType(f"{where}: {error}") from None
    return None


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
