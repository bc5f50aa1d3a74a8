"""CEL rules of a schema (`x-kubernetes-validations`): where they hold, what they see, how a violation is answered.

A rule sees its own place as `self`; one that speaks of `oldSelf` holds for changes only, where the old value of the
same place can be told: through objects, maps and keyed lists, not through atomic lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from bosket.api.cel import CelError, Expression, optional
from bosket.api.time import parse_duration, parse_time
from bosket.apiserver.custom.schema import Node
from bosket.apiserver.status import FieldError, quote

_ABSENT = object()
_REASONS = {
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

    @classmethod
    def compile(cls, raw: dict[str, Any]) -> Rule:
        expression = Expression(str(raw["rule"]))
        message_expression = raw.get("messageExpression")
        return cls(
            expression=expression,
            message=raw.get("message") or f"failed rule: {expression.source}",
            message_expression=Expression(message_expression) if message_expression else None,
            reason=raw.get("reason") or "FieldValueInvalid",
            field_path=raw.get("fieldPath") or "",
            transition="oldSelf" in expression.variables,
            optional_old=bool(raw.get("optionalOldSelf")),
        )


class Rules:
    """All rules of a schema."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._compiled: dict[int, list[Rule]] = {}

    def compile_all(self) -> list[str]:
        """Compile every rule; what is wrong with those that can't be."""
        problems: list[str] = []

        def visit(node: Node) -> None:
            for raw in node.rules:
                try:
                    Rule.compile(raw)
                except CelError as error:
                    problems.append(f"rule {raw.get('rule')!r}: compilation failed: {error}")
            for child in node.children():
                if child.rules_below:
                    visit(child)

        visit(self._root)
        return problems

    def check(self, value: Any, old: Any | None) -> list[FieldError]:
        """Every rule that the object breaks."""
        errors: list[FieldError] = []
        if self._root.rules_below:
            self._visit(self._root, value, _ABSENT if old is None else old, "", errors)
        return errors

    def _visit(self, node: Node, value: Any, old: Any, path: str, errors: list[FieldError]) -> None:
        if value is None:
            return
        if node.rules:
            self._apply(node, value, old, path, errors)
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            for key, entry in value.items():
                child = node.child(key)
                if child is not None and child.rules_below:
                    self._visit(child, entry, before.get(key, _ABSENT), f"{path}.{key}" if path else key, errors)
        elif isinstance(value, list) and node.items is not None and node.items.rules_below:
            for index, item in enumerate(value):
                self._visit(node.items, item, _counterpart(node, item, old), f"{path}[{index}]", errors)

    def _apply(self, node: Node, value: Any, old: Any, path: str, errors: list[FieldError]) -> None:
        rules = self._compiled.get(id(node))
        if rules is None:
            rules = self._compiled[id(node)] = [Rule.compile(raw) for raw in node.rules]
        variables: dict[str, Any] | None = None
        for rule in rules:
            if rule.transition and not rule.optional_old and old is _ABSENT:
                continue
            if old is not _ABSENT and not rule.transition and old == value:
                continue  # a rule that was broken before doesn't stand in the way of other changes
            if variables is None:
                variables = {"self": _typed(value, node)}
            if rule.transition:
                before = None if old is _ABSENT else _typed(old, node)
                variables["oldSelf"] = optional(before, present=old is not _ABSENT) if rule.optional_old else before
            error = _broken(rule, variables, value, path)
            if error is not None:
                errors.append(error)


def _broken(rule: Rule, variables: dict[str, Any], value: Any, path: str) -> FieldError | None:
    field = f"{path}{rule.field_path}".removeprefix(".")
    try:
        if rule.expression.evaluate(variables) is True:
            return None
        message = rule.message
        if rule.message_expression is not None:
            message = str(rule.message_expression.evaluate(variables))
    except CelError as error:
        message = f"{error} evaluating rule: {rule.message}"
    head = _REASONS.get(rule.reason, "Invalid value")
    if rule.reason in ("FieldValueInvalid", "FieldValueDuplicate") and isinstance(value, str | int | float | bool):
        return FieldError(field, rule.reason, f"{head}: {quote(value)}: {message}")
    return FieldError(field, rule.reason, f"{head}: {message}")


def _counterpart(node: Node, item: Any, old: Any) -> Any:
    """The element of the old list that `item` is the new state of."""
    if not isinstance(old, list):
        return _ABSENT
    if node.list_type == "map" and isinstance(item, dict):
        keys = [item.get(key) for key in node.list_keys]
        return next(
            (each for each in old if isinstance(each, dict) and [each.get(key) for key in node.list_keys] == keys),
            _ABSENT,
        )
    if node.list_type == "set":
        return item if item in old else _ABSENT
    return _ABSENT


def _typed(value: Any, node: Node | None) -> Any:
    """The value as its schema means it: numbers are doubles, times are times."""
    if node is None or value is None:
        return value
    if isinstance(value, dict):
        return {key: _typed(entry, node.child(key)) for key, entry in value.items()}
    if isinstance(value, list):
        return [_typed(item, node.items) for item in value]
    if node.type == "number" and isinstance(value, int):
        return float(value)
    form = node.raw.get("format")
    if form and isinstance(value, str):
        try:
            if form == "date-time":
                from datetime import UTC, datetime

                return datetime.fromtimestamp(parse_time(value), UTC)
            if form == "duration":
                return timedelta(seconds=parse_duration(value))
        except ValueError:
            return value
    return value
