"""CEL expressions: the one module that knows the `cel` package, which is loaded when the first rule is met.

The package has the language; what Kubernetes adds to it is given here: optional field selection (`self.?a`),
quantities, and the string and list functions of its extension libraries.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from bosket.api import quantity

#: `a.?b` and `a[?"b"]` are not in the package's grammar; calls of this function are.
_SELECT = "__optionalSelect"
_OPTIONAL_FIELD = re.compile(r"\.\?([A-Za-z_][A-Za-z0-9_]*)")
_OPTIONAL_INDEX = re.compile(r"\[\?([^\]]+)\]")
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')


class CelError(ValueError):
    """An expression that can't be compiled or evaluated; says why."""


class Expression:
    """A compiled expression."""

    def __init__(self, source: str) -> None:
        # The package's __init__ loads its command line and with it a terminal toolkit: a sixth of a second for nothing.
        sys.modules.setdefault("cel.cli", ModuleType("cel.cli"))
        import cel

        self.source = source
        try:
            self._program = cel.compile(_rewrite(source))
        except ValueError as error:
            raise CelError(_one_line(error)) from None
        references = self._program.references()
        self.variables = frozenset(references["variables"])
        called = set(references["functions"])
        self._functions = {name: function for name, function in _library().items() if name.rpartition(".")[2] in called}

    def evaluate(self, variables: dict[str, Any]) -> Any:
        try:
            return self._program.execute({**self._functions, **variables})
        except KeyError as error:
            raise CelError(f"no such key: {error.args[0]}") from None
        except (TypeError, ValueError, RuntimeError, OverflowError, ZeroDivisionError, IndexError) as error:
            raise CelError(_one_line(error)) from None


def optional(value: Any, *, present: bool) -> Any:
    """A value that may be missing, as CEL sees it."""
    import cel

    return cel.OptionalValue.of(value) if present else cel.OptionalValue.none()


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _rewrite(source: str) -> str:
    """Optional selection in terms that the grammar has; text in quotes stays as it is."""
    if "?" not in source:
        return source
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found.group())
        return f"\x00{len(kept) - 1}\x00"

    masked = _STRINGS.sub(keep, source)
    masked = _OPTIONAL_FIELD.sub(rf'.{_SELECT}("\1")', masked)
    masked = _OPTIONAL_INDEX.sub(rf".{_SELECT}(\1)", masked)
    return re.sub(r"\x00(\d+)\x00", lambda found: kept[int(found[1])], masked)


_functions: dict[str, Callable[..., Any]] = {}


def _library() -> dict[str, Callable[..., Any]]:
    if not _functions:
        from cel import stdlib

        _functions.update(stdlib.STDLIB_FUNCTIONS)
        _functions.update(
            {
                _SELECT: _select,
                "find": lambda text, pattern: found.group() if (found := re.search(pattern, text)) else "",
                "findAll": lambda text, pattern, limit=-1: [
                    found.group()
                    for count, found in enumerate(re.finditer(pattern, text))
                    if limit < 0 or count < limit
                ],
                "isSorted": lambda items: all(a <= b for a, b in itertools.pairwise(items)),
                "format": _format,
                "isQuantity": _is_quantity,
                "quantity": quantity.canonical,
                "isGreaterThan": lambda a, b: quantity.compare(a, b) > 0,
                "isLessThan": lambda a, b: quantity.compare(a, b) < 0,
                "compareTo": quantity.compare,
                "asInteger": quantity.to_int,
                "asApproximateFloat": lambda a: float(quantity.parse(a)),
            }
        )
    return _functions


def _select(container: Any, key: Any) -> Any:
    import cel

    if isinstance(container, cel.OptionalValue):
        if not container.has_value():
            return container
        container = container.value()
    present = key in container if isinstance(container, dict) else isinstance(key, int) and key < len(container)
    return optional(container[key] if present else None, present=present)


def _format(text: str, values: list[Any]) -> str:
    """`%s` and `%d`, which is what messages use."""
    remaining = iter(values)
    return re.sub(r"%[sd]", lambda _: str(next(remaining, "")), text)


def _is_quantity(text: Any) -> bool:
    try:
        quantity.parse(text)
    except quantity.InvalidQuantity:
        return False
    return True
