"""The constraints of a schema: types, bounds, patterns, required fields. The one module that knows jsonschema-rs.

Messages are worded as kube-apiserver words them. Regular expressions take time in proportion to the text, whatever
they are: those that JSON Schema's dialect knows are matched by jsonschema-rs without backtracking, the rest (flags,
POSIX classes, which are common in Go) by CEL's `matches`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import jsonschema_rs

from bosket.api.cel import CelError, Expression
from bosket.api.field_error import (
    FieldError,
    invalid_value,
    not_supported,
    quote,
    required,
    too_long,
    too_many,
    type_invalid,
)
from bosket.apiserver.custom.excerpt import Excerpt
from bosket.apiserver.custom.formats import format_check
from bosket.apiserver.custom.schema import Correlation, Node

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
    "required",
)
_SIZES = ("minItems", "minLength", "minProperties")
#: What the types of numbers hold, by type and format.
_INT64 = (-(2**63), 2**63 - 1)
_BOUNDS: dict[tuple[str, str], tuple[float, float]] = {
    ("integer", "int32"): (-(2**31), 2**31 - 1),
    ("number", "float"): (-3.4028234663852886e38, 3.4028234663852886e38),
}
Steps = Sequence[str | int]
#: Keys that Rust reads as a number.
_NUMBER = re.compile(r"\+?[0-9]{1,20}")
#: Errors about how many elements there are.
_COUNTS = frozenset({"minItems", "maxItems", "minProperties", "maxProperties", "additionalItems", "uniqueItems"})
#: Patterns that jsonschema-rs can't read travel through it as formats with this beginning.
_PATTERN = "pattern:"


#: Of all messages about one object, which may be wrong in ten thousand places: more than anybody reads.
_ERROR_CHARACTERS = 1_000_000
_TRUNCATED = FieldError("<nil>", "FieldValueInvalid", "Invalid value: null: too many errors: there are more of them")


class InvalidSchema(ValueError):
    """A schema that can't be compiled; says why."""


@cache
def _match() -> Expression:
    return Expression("self.matches(pattern)")


def check_pattern(pattern: str) -> None:
    """Raise unless this is a regular expression."""
    try:
        _match().evaluate({"self": "", "pattern": pattern})
    except CelError as error:
        raise InvalidSchema(_reason(str(error))) from None


def _reason(message: str) -> str:
    """From CEL's long story, what is wrong with the expression."""
    return (
        message.partition("error: ")[2]
        .rpartition("error: ")[2]
        .removesuffix(". Check function arguments and their types.")
    )


class Checker:
    """Finds what an object breaks."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._tree = Node(schema)
        self._validator = _validator(schema)
        self._validators: dict[int, jsonschema_rs.Draft4Validator] = {}

    def check(self, value: Any, old: Any = None) -> list[FieldError]:
        """All violations, except those that were there before in parts that did not change."""
        if self._validator.is_valid(value):
            return []
        correlation = Correlation()
        found: list[FieldError] = []
        size = 0
        for error, path in self._errors(value):
            if old is not None and correlation.is_unchanged(value, old, self._tree, path):
                continue
            for described in (_describe(error, path), *_alternatives(error)):
                found.append(described)
                size += len(described.message)
            if size > _ERROR_CHARACTERS:
                found.append(_TRUNCATED)
                break
        return found

    def _errors(self, value: Any) -> Iterator[tuple[jsonschema_rs.ValidationError, Steps]]:
        """The violations, with the steps that lead to each; of the elements of a long list, those of the first ones.

        jsonschema-rs makes all errors before it gives the first, and nothing else happens meanwhile: a hundred thousand
        of them take a second. So the library gets an excerpt of the object, with as many wrong elements as are
        reported.
        """
        excerpt = Excerpt(self._items_validator)
        shown = excerpt.of(value, self._tree, ())
        errors = self._validator.iter_errors(shown) if excerpt.shortened else ()
        reported = False
        for error in errors:
            if error.kind.name not in _COUNTS:  # of elements, which an excerpt has fewer of
                reported = True
                yield error, excerpt.original(_steps_in(shown, error.instance_path))
        if not reported:
            for error in self._validator.iter_errors(value):
                yield error, _steps_in(value, error.instance_path)

    def _items_validator(self, node: Node) -> jsonschema_rs.Draft4Validator:
        """The validator of one element of a list, or value of a map, by itself."""
        known = self._validators.get(id(node))
        if known is None:
            known = self._validators[id(node)] = _validator(node.raw)
        return known


def _validator(schema: dict[str, Any]) -> jsonschema_rs.Draft4Validator:
    formats: dict[str, Callable[[str], bool]] = {}
    try:
        return jsonschema_rs.Draft4Validator(
            _plain(schema, formats),
            validate_formats=True,
            formats=formats,
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except (ValueError, jsonschema_rs.ValidationError) as error:
        raise InvalidSchema(str(error).splitlines()[0]) from None


def _plain(schema: dict[str, Any], formats: dict[str, Callable[[str], bool]]) -> dict[str, Any]:
    """The schema in standard JSON Schema: OpenAPI's and Kubernetes' own keywords put in its words.

    Formats that are met are put into `formats`, with how they are checked.
    """
    plain: dict[str, Any] = {key: schema[key] for key in _COPIED if schema.get(key) is not None}
    for key in _SIZES:
        if plain.get(key, 0) < 0:  # no bound at all, which JSON Schema won't have
            plain[key] = 0
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        plain["type"] = ["integer", "string"]
    elif kind:
        plain["type"] = kind
    if schema.get("nullable") and "type" in plain:
        plain["type"] = [*([plain["type"]] if isinstance(plain["type"], str) else plain["type"]), "null"]
    if "enum" in plain:
        plain["enum"] = [
            each for each in plain["enum"] if each is not None
        ]  # null is never one of them, as in Kubernetes
    for key in ("required", "enum"):
        if not plain.get(key, True):
            del plain[key]  # an empty list is none
    _add_form(plain, schema, formats)
    if schema.get("properties"):
        plain["properties"] = {name: _plain(child, formats) for name, child in schema["properties"].items()}
    for key in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(key), dict):
            plain[key] = _plain(schema[key], formats)
    for key in ("allOf", "anyOf", "oneOf"):
        if schema.get(key):
            plain.setdefault(key, []).extend(_plain(child, formats) for child in schema[key])
    return plain


def _add_form(plain: dict[str, Any], schema: dict[str, Any], formats: dict[str, Callable[[str], bool]]) -> None:
    """What a text looks like, and how large a number of its type may be."""
    kind, form, pattern = schema.get("type"), schema.get("format"), schema.get("pattern")
    if pattern:
        try:
            jsonschema_rs.Draft4Validator({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions())
            plain["pattern"] = pattern
        except (ValueError, jsonschema_rs.ValidationError):
            check_pattern(pattern)
            formats[_PATTERN + pattern] = _matcher(pattern)
            plain["allOf"] = [{"format": _PATTERN + pattern}]
    check = format_check(form) if form and kind in (None, "", "string") else None
    if form and check is not None:
        plain["format"] = form
        formats[form] = check
    bounds = _BOUNDS.get((kind or "", form or ""), _INT64 if kind == "integer" else None)
    if bounds is not None:
        plain.setdefault("minimum", bounds[0])
        plain.setdefault("maximum", bounds[1])


def _matcher(pattern: str) -> Callable[[str], bool]:
    return lambda text: _match().evaluate({"self": text, "pattern": pattern}) is True


def _steps_in(value: Any, path: Steps) -> Steps:
    """The path with keys of maps as they are: jsonschema-rs makes numbers of those that look like some."""
    steps: list[str | int] = []
    for step in path:
        key: str | int = step
        if isinstance(value, dict) and isinstance(step, int):
            key = str(step)
            if key not in value:  # such as 007, which few keys are
                key = next((each for each in value if _NUMBER.fullmatch(each) and int(each) == step), key)
        steps.append(key)
        try:
            value = value[key]
        except (LookupError, TypeError):
            value = None  # of what is missing
    return steps


def field_path(steps: Sequence[str | int]) -> str:
    """`spec.levels[0].nodeLabel`"""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def _describe(error: jsonschema_rs.ValidationError, path: Steps | None = None) -> FieldError:
    field, value = field_path(error.instance_path if path is None else path), error.instance
    size = len(value) if isinstance(value, dict | list | str) else 0
    kind = error.kind.name
    limits = error.kind.as_dict()
    limit = limits.get("limit")
    in_body = f"{field} in body"
    match kind:
        case "type":
            types = ",".join(sorted(each for each in limits["types"] if each != "null"))
            name = _type_name(value)
            return type_invalid(field, name, f'{in_body} must be of type {types}: "{name}"')
        case "required":
            missing = limits["property"]
            return required(f"{field}.{missing}" if field else missing)
        case "enum":
            choices = [each if isinstance(each, str) else quote(each) for each in limits["options"]]
            return not_supported(field, value, choices)
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
            return too_many(field, size, int(limit or 0))
        case "minProperties":
            return invalid_value(field, size, f"{in_body} should have at least {limit} properties")
        case "maxProperties":
            return too_many(field, size, int(limit or 0))
        case "multipleOf":
            return invalid_value(field, value, f"{in_body} should be a multiple of {quote(limits['multiple_of'])}")
        case "format":
            form = str(limits["format"])
            if form.startswith(_PATTERN):
                return invalid_value(field, value, f"{in_body} should match '{form.removeprefix(_PATTERN)}'")
            return type_invalid(field, value, f"{in_body} must be of type {form}: {quote(value)}")
        case "anyOf":
            return _of_all(field, "must validate at least one schema (anyOf)")
        case "oneOf":
            found = "several valid alternatives" if "more than one" in error.message else "none valid"
            return _of_all(field, f"must validate one and only one schema (oneOf). Found {found}")
        case "not":
            return _of_all(field, "must not validate the schema (not)")
    return invalid_value(field, value, error.message)


def _of_all(field: str, detail: str) -> FieldError:
    """What no single field is to blame for has none, as in Kubernetes."""
    return FieldError("<nil>", "FieldValueInvalid", f'Invalid value: "": "{field}" {detail}')


def _alternatives(error: jsonschema_rs.ValidationError) -> list[FieldError]:
    """Where one of several schemas should have held: what the first of them says."""
    if error.kind.name not in ("anyOf", "oneOf") or "more than one" in error.message:
        return []
    context = error.kind.as_dict().get("context") or []
    return [_describe(each) for each in context[0]] if context else []


def _type_name(value: object) -> str:
    for kind, name in ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "object"
