"""Expressions in objects: whether they can be compiled, and speak of nothing that they can't see."""

from __future__ import annotations

from collections.abc import Collection

from bosket.api.cel import CelError, Expression
from bosket.apiserver.status import FieldError, invalid_value, required

#: Longer ones are nobody's idea of a condition.
_MAX_LENGTH = 16 * 1024


def expression_errors(source: str, path: str, known: Collection[str], missing: str = "") -> list[FieldError]:
    """What is wrong with an expression that may speak of the variables in `known`."""
    if not source.strip():
        return [required(path, missing)]
    if len(source) > _MAX_LENGTH:
        return [FieldError(path, "FieldValueTooLong", f"Too long: may not be more than {_MAX_LENGTH} bytes")]
    try:
        expression = Expression(source)
    except CelError as error:
        return [invalid_value(path, source, f"compilation failed: {error}")]
    unknown = sorted(expression.unbound - set(known))
    if unknown:
        listed = "; ".join(f"undeclared reference to '{name}' (in container '')" for name in unknown)
        return [invalid_value(path, source, f"compilation failed: {listed}")]
    return []
