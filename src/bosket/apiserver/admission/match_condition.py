"""Match conditions: CEL expressions that must all be true for a webhook or policy to be called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bosket.api.cel import CelError, Expression
from bosket.apiserver.store.entry import Doc

Variables = Mapping[str, Any]
Evaluate = Callable[[Expression], Any]


@dataclass(frozen=True, slots=True)
class Condition:
    """One of them, by name."""

    name: str
    expression: Expression


class ConditionFailed(Exception):
    """Conditions that could not be evaluated, and none that was false; says why."""


def compiled_conditions(raw: Iterable[Doc] | None) -> tuple[Condition, ...]:
    """The conditions of an object that was accepted."""
    return tuple(Condition(each["name"], Expression(each["expression"])) for each in raw or ())


def all_true(conditions: Iterable[Condition], evaluate: Evaluate) -> bool:
    """Whether all are true. One that is false decides; otherwise errors do."""
    errors = []
    for condition in conditions:
        try:
            if evaluate(condition.expression) is False:
                return False
        except CelError as error:
            errors.append(evaluation_error(condition.expression, error))
    if errors:
        raise ConditionFailed(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
    return True


def evaluation_error(expression: Expression, error: CelError) -> str:
    """What is said of an expression that can't be evaluated."""
    return f"expression '{expression.source.strip()}' resulted in error: {error}"
