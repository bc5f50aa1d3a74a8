"""Expressions in objects: whether they can be compiled, and speak of nothing that they can't see."""

from __future__ import annotations

import re
from collections.abc import Collection

from bosket.api.cel import CelError, Expression
from bosket.api.field_error import FieldError, invalid_value, required

_USED = re.compile(r"\bvariables\s*\.\s*([A-Za-z_]\w*)")
#: Longer ones are nobody's idea of a condition.
_MAX_LENGTH = 16 * 1024


def expression_errors(source: str, path: str, known: Collection[str], missing: str = "") -> list[FieldError]:
    """What is wrong with an expression that may speak of what is in `known` (`variables.x`: a policy's variable)."""
    if not source.strip():
        return [required(path, missing)]
    if len(source) > _MAX_LENGTH:
        return [FieldError(path, "FieldValueTooLong", f"Too long: may not be more than {_MAX_LENGTH} bytes")]
    try:
        expression = Expression(source)
    except CelError as error:
        detail = str(error).partition(": ")[2] if str(error).startswith("Failed to parse") else str(error)
        return [invalid_value(path, source, f"compilation failed: {detail}")]
    problems = [f"undeclared reference to '{name}' (in container '')" for name in expression.unbound - set(known)]
    if not problems:
        problems = [f"undefined field '{name}'" for name in used_variables(source) if f"variables.{name}" not in known]
    if problems:
        return [invalid_value(path, source, f"compilation failed: {'; '.join(sorted(problems))}")]
    return []


def used_variables(source: str) -> tuple[str, ...]:
    """The names of the policy's variables that an expression uses."""
    return tuple(dict.fromkeys(_USED.findall(source)))
