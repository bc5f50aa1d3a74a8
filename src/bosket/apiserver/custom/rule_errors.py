"""Errors of a schema's CEL rules that show without an object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from bosket.api.cel import CelError
from bosket.api.field_error import FieldError, invalid_value, not_supported, required
from bosket.apiserver.custom.rules import REASONS, Rule
from bosket.apiserver.custom.schema import Node
from bosket.apiserver.custom.scope import unknown_field, unknown_names
from bosket.apiserver.custom.structural import Schema, sub_schemas

_STEP = re.compile(r"\.(?P<name>[A-Za-z0-9_]+)|\['(?P<quoted>(?:[^'\\]|\\.)*)'\]")


def rule_errors(schema: Schema, path: str, uncorrelatable: str = "", *, root: bool = True) -> Iterator[FieldError]:
    """All rules that can't be compiled; `uncorrelatable` is the path below which an old value can't be found."""
    for index, raw in enumerate(schema.get("x-kubernetes-validations") or ()):
        where = f"{path}.x-kubernetes-validations[{index}]"
        problems = list(_text_errors(raw, schema, where))
        yield from problems or _meaning_errors(raw, schema, where, uncorrelatable, root=root)
    for child, place in sub_schemas(schema, path):
        below = uncorrelatable
        if not below and place == f"{path}.items" and schema.get("x-kubernetes-list-type") != "map":
            below = path
        yield from rule_errors(child, place, below, root=False)


def _text_errors(raw: dict[str, Any], schema: Schema, where: str) -> Iterator[FieldError]:
    rule, message = raw.get("rule", ""), raw.get("message") or ""
    if not rule.strip():
        yield required(f"{where}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid_value(f"{where}.message", message, "must be non-empty if specified")
    elif _has_line_break(message.strip()):
        yield invalid_value(f"{where}.message", message, "must not contain line breaks")
    elif _has_line_break(rule.strip()) and not message.strip():
        yield required(f"{where}.message", "message must be specified if rule contains line breaks")
    expression = raw.get("messageExpression") or ""
    if expression and not expression.strip():
        yield required(f"{where}.messageExpression", "messageExpression must be non-empty if specified")
    reason = raw.get("reason")
    if reason is not None and reason not in REASONS:
        yield not_supported(f"{where}.reason", reason, sorted(REASONS))
    field_path = raw.get("fieldPath") or ""
    if field_path and not field_path.strip():
        yield invalid_value(f"{where}.fieldPath", field_path, "must be non-empty if specified")
    elif _has_line_break(field_path):
        yield invalid_value(f"{where}.fieldPath", field_path, "must not contain line breaks")
    elif field_path and not _leads_somewhere(field_path, schema):
        yield invalid_value(f"{where}.fieldPath", field_path, "must be a valid path")


def _meaning_errors(
    raw: dict[str, Any], schema: Schema, where: str, uncorrelatable: str, *, root: bool
) -> Iterator[FieldError]:
    try:
        rule = Rule.compile(raw)
    except CelError as error:
        yield invalid_value(f"{where}.rule", raw, f"compilation failed: {error}")
        return
    if rule.transition and uncorrelatable:
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
        yield invalid_value(f"{where}.rule", raw["rule"], detail)
    if not rule.transition and raw.get("optionalOldSelf") is not None:
        detail = "may not be set if oldSelf is not used in rule"
        yield invalid_value(f"{where}.optionalOldSelf", raw["optionalOldSelf"], detail)
    for key, expression in (("rule", rule.expression), ("messageExpression", rule.message_expression)):
        if expression is None:
            continue
        head = "compilation failed" if key == "rule" else f"{key} compilation failed"
        if unknown := unknown_names(expression):
            detail = f"{head}: undeclared reference to '{unknown[0]}' (in container '')"
            yield invalid_value(f"{where}.{key}", raw, detail)
        elif missing := unknown_field(expression.source, Node(schema), root=root):
            yield invalid_value(f"{where}.{key}", raw, f"{head}: undefined field '{missing}'")


def _has_line_break(text: str) -> bool:
    return "\n" in text or "\r" in text


def _leads_somewhere(path: str, schema: Schema) -> bool:
    """Whether a path such as `.a['b-c']` names a place that the schema describes."""
    position, found = 0, schema
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            return False
        name = step["name"] if step["name"] is not None else step["quoted"].replace("\\'", "'")
        child = (found.get("properties") or {}).get(name, found.get("additionalProperties"))
        if not isinstance(child, dict):
            return False
        found, position = child, step.end()
    return bool(path)
