"""What is wrong with an object, field by field, worded as Kubernetes words it: people and programs read it.

The embedded API server's refusals and those of webhooks and configuration files are made of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong with an object: where, and a sentence that says what and what would be right."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def quote(value: object) -> str:
    """A value as it appears in messages: strings in quotes, the rest as JSON, long ones cut."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else text[:200] + "…"


def required(field: str, detail: str = "") -> FieldError:
    """A field that must be there isn't."""
    return FieldError(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def invalid_value(field: str, value: object, detail: str) -> FieldError:
    """A value breaks a rule."""
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {quote(value)}: {detail}")


def forbidden_field(field: str, detail: str) -> FieldError:
    """A field may not be there, or may not change."""
    return FieldError(field, "FieldValueForbidden", f"Forbidden: {detail}")


def duplicate(field: str, value: object) -> FieldError:
    """Two elements of a list that must differ don't."""
    return FieldError(field, "FieldValueDuplicate", f"Duplicate value: {quote(value)}")


def not_supported(field: str, value: object, supported: Iterable[str]) -> FieldError:
    """A value is none of the few that are allowed."""
    listed = ", ".join(quote(choice) for choice in supported)
    return FieldError(field, "FieldValueNotSupported", f"Unsupported value: {quote(value)}: supported values: {listed}")


def too_long(field: str, limit: int) -> FieldError:
    """A value is too large."""
    return FieldError(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def too_many(field: str, count: int, limit: int) -> FieldError:
    """A list or map has more elements than it may have."""
    items = "item" if limit == 1 else "items"
    return FieldError(field, "FieldValueTooMany", f"Too many: {count}: must have at most {limit} {items}")


def type_invalid(field: str, value: object, detail: str) -> FieldError:
    """A value is of the wrong type."""
    return FieldError(field, "FieldValueTypeInvalid", f"Invalid value: {quote(value)}: {detail}")
