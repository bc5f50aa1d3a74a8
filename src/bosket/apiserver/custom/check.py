"""The constraints of a schema: types, bounds, patterns, required fields. The one module that knows jsonschema-rs.

Messages are worded as kube-apiserver words them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jsonschema_rs

from bosket.apiserver.status import FieldError, invalid_value, not_supported, quote, required, too_long, type_invalid

#: Formats whose meaning is the same here and there; others are documentation.
_FORMATS = frozenset({"date-time", "date", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"})
_COPIED = (
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
    "uniqueItems",
)
_INT_BOUNDS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


class InvalidSchema(ValueError):
    """A schema that can't be compiled; says why."""


class Checker:
    """Finds what an object breaks."""

    def __init__(self, schema: dict[str, Any]) -> None:
        try:
            self._validator = jsonschema_rs.Draft4Validator(_plain(schema), validate_formats=True)
        except (ValueError, jsonschema_rs.ValidationError) as error:
            raise InvalidSchema(str(error).splitlines()[0]) from None

    def check(self, value: Any, old: Any = None) -> list[FieldError]:
        """All violations, except those that were there before and have not been touched."""
        if self._validator.is_valid(value):
            return []
        return [
            _describe(error)
            for error in self._validator.iter_errors(value)
            if old is None or not _untouched(value, old, error.instance_path)
        ]


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema in standard JSON Schema: OpenAPI's and Kubernetes' own keywords put in its words."""
    plain: dict[str, Any] = {key: schema[key] for key in _COPIED if key in schema}
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        plain["type"] = ["integer", "string"]
    elif kind:
        plain["type"] = kind
    if schema.get("nullable") and "type" in plain:
        plain["type"] = [*([plain["type"]] if isinstance(plain["type"], str) else plain["type"]), "null"]
        if "enum" in plain and None not in plain["enum"]:
            plain["enum"] = [*plain["enum"], None]
    form = schema.get("format")
    if form in _FORMATS:
        plain["format"] = form
    elif form in _INT_BOUNDS and kind == "integer":
        low, high = _INT_BOUNDS[form]
        plain.setdefault("minimum", low)
        plain.setdefault("maximum", high)
    if "properties" in schema:
        plain["properties"] = {name: _plain(child) for name, child in schema["properties"].items()}
    for key in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(key), dict):
            plain[key] = _plain(schema[key])
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema and not schema.get("x-kubernetes-int-or-string"):
            plain[key] = [_plain(child) for child in schema[key]]
    return plain


def field_path(steps: Sequence[str | int]) -> str:
    """`spec.levels[0].nodeLabel`"""
    text = ""
    for step in steps:
        if isinstance(step, int) or any(character in step for character in "./[] "):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def _untouched(new: Any, old: Any, steps: Sequence[str | int]) -> bool:
    for step in steps:
        try:
            new, old = new[step], old[step]
        except (KeyError, IndexError, TypeError):
            return False
    return bool(new == old)


def _describe(error: jsonschema_rs.ValidationError) -> FieldError:
    field, value = field_path(error.instance_path), error.instance
    size = len(value) if isinstance(value, dict | list | str) else 0
    kind = error.kind.name
    limits = error.kind.as_dict()
    limit = limits.get("limit")
    in_body = f"{field} in body"
    match kind:
        case "type":
            types = " or ".join(each for each in limits["types"] if each != "null")
            return type_invalid(field, value, f"{in_body} must be of type {types}: {_type_name(value)}")
        case "required":
            missing = limits["property"]
            return required(f"{field}.{missing}" if field else missing)
        case "enum":
            return not_supported(field, value, [each for each in limits["options"] if each is not None])
        case "minimum":
            return invalid_value(field, value, f"{in_body} should be greater than or equal to {quote(limit)}")
        case "maximum":
            return invalid_value(field, value, f"{in_body} should be less than or equal to {quote(limit)}")
        case "exclusiveMinimum":
            return invalid_value(field, value, f"{in_body} should be greater than {quote(limit)}")
        case "exclusiveMaximum":
            return invalid_value(field, value, f"{in_body} should be less than {quote(limit)}")
        case "pattern":
            return invalid_value(field, value, f"{in_body} should match '{limits['pattern']}'")
        case "minLength":
            return invalid_value(field, value, f"{in_body} should be at least {limit} chars long")
        case "maxLength":
            return too_long(field, int(limit or 0))
        case "minItems":
            return invalid_value(field, size, f"{in_body} should have at least {limit} items")
        case "maxItems":
            return _too_many(field, size, int(limit or 0))
        case "minProperties":
            return invalid_value(field, size, f"{in_body} should have at least {limit} properties")
        case "maxProperties":
            return _too_many(field, size, int(limit or 0))
        case "multipleOf":
            return invalid_value(field, value, f"{in_body} should be a multiple of {quote(limits['multiple_of'])}")
        case "format":
            return invalid_value(field, value, f"{in_body} must be of type {limits['format']}: {quote(value)}")
        case "anyOf":
            return invalid_value(field, value, f"{in_body} must validate at least one schema (anyOf)")
        case "oneOf" | "oneOfNotValid" | "oneOfMultipleValid":
            return invalid_value(field, value, f"{in_body} must validate one and only one schema (oneOf)")
        case "not":
            return invalid_value(field, value, f"{in_body} must not validate the schema (not)")
    return invalid_value(field, value, error.message)


def _too_many(field: str, count: int, limit: int) -> FieldError:
    return FieldError(
        field, "FieldValueTooMany", f"Too many: {count}: must have at most {limit} item{'' if limit == 1 else 's'}"
    )


def _type_name(value: object) -> str:
    for kind, name in ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"), (list, "array")):
        if isinstance(value, kind):
            return f'"{name}"'
    return '"null"' if value is None else '"object"'
