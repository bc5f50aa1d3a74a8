"""CEL rules of a schema (`x-kubernetes-validations`): scope, variables, and error messages.

A rule sees its own place as `self`; one that speaks of `oldSelf` holds for changes only, where the old value of the
same path can be found: through objects, maps and keyed lists, not through atomic lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from bosket.api.cel import CelError, Expression, optional
from bosket.api.field_error import FieldError, invalid_value, quote
from bosket.api.time import parse_duration, parse_time
from bosket.apiserver.custom.schema import ABSENT, Correlation, Node
from bosket.apiserver.custom.scope import cel_name, fields_of

REASONS = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, compiled."""

    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str
    field_path: str
    #: speaks of `oldSelf`
    transition: bool
    optional_old: bool
    #: the fields of `self` and `oldSelf` that it speaks of; None: of all there are
    fields: frozenset[str] | None

    @classmethod
    def compile(cls, raw: dict[str, Any]) -> Rule:
        expression = Expression(str(raw["rule"]))
        message_expression = raw.get("messageExpression")
        return cls(
            expression=expression,
            message=(raw.get("message") or "").strip(),
            message_expression=Expression(message_expression) if message_expression else None,
            reason=raw.get("reason") or "FieldValueInvalid",
            field_path=raw.get("fieldPath") or "",
            transition="oldSelf" in expression.variables,
            optional_old=bool(raw.get("optionalOldSelf")),
            fields=fields_of(" ".join((expression.source, message_expression or ""))),
        )


class Rules:
    """All rules of a schema."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._compiled: dict[int, list[Rule]] = {}

    def check(self, value: Any, old: Any | None) -> list[FieldError]:
        """Every rule that the object breaks."""
        errors: list[FieldError] = []
        if self._root.rules_below:
            self._visit(_Place(self._root, value, ABSENT if old is None else old), Correlation(), errors)
        return errors

    def _visit(self, place: _Place, correlation: Correlation, errors: list[FieldError]) -> None:
        node, value, old = place.node, place.value, place.old
        if value is None:
            return
        settled = place.settled or (old is not ABSENT and old == value)
        if node.rules:
            self._apply(place, errors, settled=settled)
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            for key, entry in value.items():
                child = node.child(key)
                if child is not None and child.rules_below:
                    step = f".{key}" if key in node.properties else f"[{key}]"
                    path = (place.path + step).removeprefix(".")
                    self._visit(_Place(child, entry, before.get(key, ABSENT), path, settled), correlation, errors)
        elif isinstance(value, list) and node.items is not None and node.items.rules_below:
            for index, item in enumerate(value):
                path = f"{place.path}[{index}]"
                before = correlation.counterpart(node, item, old)
                self._visit(_Place(node.items, item, before, path, settled), correlation, errors)

    def _apply(self, place: _Place, errors: list[FieldError], *, settled: bool) -> None:
        node, old = place.node, place.old
        rules = self._compiled.get(id(node))
        if rules is None:
            rules = self._compiled[id(node)] = [Rule.compile(raw) for raw in node.rules]
        for rule in rules:
            if rule.transition and not rule.optional_old and old is ABSENT:
                continue
            if settled and not rule.transition:
                continue  # a rule that was broken before doesn't stand in the way of other changes
            variables: dict[str, Any] = {"self": _typed(_part(place.value, rule.fields), node)}
            if rule.transition:
                fields = None if rule.optional_old else rule.fields
                before = None if old is ABSENT else _typed(_part(old, fields), node)
                variables["oldSelf"] = optional(before, present=old is not ABSENT) if rule.optional_old else before
            error = _broken(rule, variables, place.value, place.path)
            if error is not None:
                errors.append(error)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where rules are looked for: a part of an object, and what it was before."""

    node: Node
    value: Any
    old: Any
    path: str = ""
    #: something around it is as it was, and so is it
    settled: bool = False


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    kinds = ((dict, "object"), (list, "array"), (str, "string"), (int, "integer"), (float, "number"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")


def _broken(rule: Rule, variables: dict[str, Any], value: Any, path: str) -> FieldError | None:
    field = f"{path}{rule.field_path}".removeprefix(".")
    source = rule.expression.source.strip()
    try:
        if rule.expression.evaluate(variables) is True:
            return None
    except CelError as error:
        return invalid_value(field, _type_name(value), f"{error} evaluating rule: {rule.message or source}")
    message = _computed(rule, variables) or rule.message or f"failed rule: {source}"
    head = REASONS.get(rule.reason, "Invalid value")
    shown = f": {quote(value)}" if isinstance(value, str | int | float | bool) else ""
    match rule.reason:
        case "FieldValueDuplicate":
            return FieldError(field, rule.reason, f"{head}{shown}")
        case "FieldValueInvalid":
            return FieldError(field, rule.reason, f"{head}{shown}: {message}")
    return FieldError(field, rule.reason, f"{head}: {message}")


def _computed(rule: Rule, variables: dict[str, Any]) -> str:
    """The message that the rule computes; nothing where that fails, or gives what is no message."""
    if rule.message_expression is None:
        return ""
    try:
        message = rule.message_expression.evaluate(variables)
    except CelError:
        return ""
    return message.strip() if isinstance(message, str) and "\n" not in message else ""


def _part(value: Any, fields: frozenset[str] | None) -> Any:
    """As much of a value as a rule speaks of: all that it is given is converted, however large."""
    if fields is None or not isinstance(value, dict):
        return value
    return {key: entry for key, entry in value.items() if cel_name(key) in fields}


def _typed(value: Any, node: Node | None) -> Any:
    """The value as its schema means it: numbers are doubles, times are times."""
    if node is None or value is None:
        return value
    if isinstance(value, dict):
        return {
            cel_name(key) if key in node.properties else key: _typed(entry, node.child(key))
            for key, entry in value.items()
        }
    if isinstance(value, list):
        return [_typed(item, node.items) for item in value]
    if node.type == "number" and isinstance(value, int):
        return float(value)
    form = node.raw.get("format")
    if form and isinstance(value, str):
        try:
            if form == "date-time":
                return datetime.fromtimestamp(parse_time(value), UTC)
            if form == "duration":
                return timedelta(seconds=parse_duration(value))
        except ValueError:
            return value
    return value
