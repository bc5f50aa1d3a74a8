"""CEL expressions: the one module that knows the `cel` package, which is loaded when the first rule is met.

The package has the language; what Kubernetes adds to it is given here: optional field selection (`self.?a`),
`cel.bind`, quantities, semantic versions, and the string and list functions of its extension libraries. The embedded
API server evaluates the rules of custom resources with it, the scheduler the selectors of devices.
"""

from __future__ import annotations

import itertools
import logging
import re
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from bosket.api import quantity
from bosket.api.cel_cost import MAX_SOURCE, Cost, declared_in

#: There is no public way to the parts of a regular expression.
_PARSER: Any = import_module("re._parser")
#: `a.?b` and `a[?"b"]` are not in the package's grammar; calls of this function are.
_SELECT = "__optionalSelect"
_OPTIONAL_FIELD = re.compile(r"\.\?([A-Za-z_][A-Za-z0-9_]*)")
_OPTIONAL_INDEX = re.compile(r"\[\?([^\]]+)\]")
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')


#: Of patterns that `find` and `findAll` search for: steps at the worst, and parts that may match more or less text.
_MAX_SEARCH_STEPS = 10_000_000
_MAX_REPETITIONS = 8
_BIND = "cel.bind("
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")


class CelError(ValueError):
    """An expression that can't be compiled or evaluated; says why."""


class Expression:
    """A compiled expression."""

    def __init__(self, source: str) -> None:
        # The package's __init__ loads its command line and with it a terminal toolkit: a sixth of a second for nothing.
        sys.modules.setdefault("cel.cli", ModuleType("cel.cli"))
        import cel

        # The library logs every function that refuses its arguments; the caller gets the same as an error.
        logging.getLogger("cel").setLevel(logging.ERROR)

        self.source = source
        if len(source) > MAX_SOURCE:
            raise CelError(f"the expression has {len(source)} characters, and may have {MAX_SOURCE}")
        try:
            self._program = cel.compile(_rewrite(source))
        except ValueError as error:
            raise CelError(_one_line(error)) from None
        references = self._program.references()
        self.variables = frozenset(references["variables"])
        self._cost = Cost(source)
        called = set(references["functions"])
        self._functions = {name: function for name, function in _library().items() if name.rpartition(".")[2] in called}

    @property
    def unbound(self) -> frozenset[str]:
        """The variables that must be given to it."""
        return self.variables - declared_in(self.source)

    def evaluate(self, variables: dict[str, Any]) -> Any:
        if not self._cost.is_bearable(variables):
            raise CelError("operation cancelled: actual cost limit exceeded")
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
    """Optional selection and bindings in terms that the grammar has; text in quotes stays as it is."""
    if "?" not in source and _BIND not in source:
        return source
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found.group())
        return f"\x00{len(kept) - 1}\x00"

    masked = _STRINGS.sub(keep, source)
    masked = _OPTIONAL_FIELD.sub(rf'.{_SELECT}("\1")', masked)
    masked = _without_bindings(_OPTIONAL_INDEX.sub(rf".{_SELECT}(\1)", masked))
    return re.sub(r"\x00(\d+)\x00", lambda found: kept[int(found[1])], masked)


def _without_bindings(source: str) -> str:
    """`cel.bind(name, value, body)` as a list of one value that is mapped."""
    start = source.rfind(_BIND)  # the innermost ones come last
    while start >= 0:
        parts, end = _arguments(source, start + len(_BIND))
        if len(parts) != 3:
            raise CelError("cel.bind takes a name, a value and an expression")
        name, value, body = parts
        source = f"{source[:start]}[{value}].map({name.strip()}, {body})[0]{source[end:]}"
        start = source.rfind(_BIND, 0, start)
    return source


def _arguments(source: str, start: int) -> tuple[list[str], int]:
    """The arguments of a call whose bracket was opened before `start`, and where the call ends."""
    parts, depth, begun = [], 0, start
    for place in range(start, len(source)):
        sign = source[place]
        if depth == 0 and sign in ",)":
            parts.append(source[begun:place])
            begun = place + 1
            if sign == ")":
                return parts, begun
        depth += (sign in "([{") - (sign in ")]}")
    raise CelError("cel.bind( is never closed")


@cache
def _library() -> dict[str, Callable[..., Any]]:
    from cel import stdlib

    return {
        **stdlib.STDLIB_FUNCTIONS,
        _SELECT: _select,
        "find": _find,
        "findAll": _find_all,
        "isSorted": lambda items: all(a <= b for a, b in itertools.pairwise(items)),
        "format": _format,
        "isQuantity": _is_quantity,
        "quantity": quantity.canonical,
        "isGreaterThan": lambda a, b: _compare(a, b) > 0,
        "isLessThan": lambda a, b: _compare(a, b) < 0,
        "compareTo": _compare,
        "add": quantity.add,
        "sub": quantity.subtract,
        "isInteger": lambda a: quantity.parse(a).denominator == 1,
        "sign": lambda a: quantity.compare(a, 0),
        "isSemver": lambda text, normalize=False: _VERSION.fullmatch(_version(text, normalize)) is not None,
        "semver": _semver,
        "major": lambda text: int(_version_parts(text)[0]),
        "minor": lambda text: int(_version_parts(text)[1]),
        "patch": lambda text: int(_version_parts(text)[2]),
        "lowerAscii": lambda text: text.lower(),
        "upperAscii": lambda text: text.upper(),
        "asInteger": quantity.to_int,
        "asApproximateFloat": lambda a: float(quantity.parse(a)),
    }


def _find(text: str, pattern: str) -> str:
    found = _searchable(text, pattern).search(text)
    return "" if found is None else found.group()


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = _searchable(text, pattern).finditer(text)
    return [each.group() for each in (found if limit < 0 else itertools.islice(found, limit))]


def _searchable(text: str, pattern: str) -> re.Pattern[str]:
    """The pattern, where it can be searched for in the text with bounded work.

    `matches` is the package's own and takes time in proportion to the text. `find` and `findAll` are Python's, which
    tries all ways to divide the text among the pattern's repetitions: there may be as many as keep that in bounds.
    """
    try:
        repetitions = _repetitions(_PARSER.parse(pattern))
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{pattern[:100]!r} is no regular expression: {error}") from None
    if repetitions > _MAX_REPETITIONS or len(text) ** (repetitions + 1) > _MAX_SEARCH_STEPS:
        raise ValueError("operation cancelled: actual cost limit exceeded")
    return compiled


def _repetitions(parsed: Any) -> int:
    """How many parts of a pattern may match more or less text; one inside another counts as if there were no end."""
    found = 0
    for kind, argument in parsed:
        name = str(kind)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, below = argument
            inner = _repetitions(below)
            found += (_MAX_REPETITIONS + 1 if inner else 1) if least != most else inner * min(int(most), 100)
        elif name == "SUBPATTERN":
            found += _repetitions(argument[-1])
        elif name == "BRANCH":
            found += 1 + sum(_repetitions(each) for each in argument[1])
        elif name not in ("LITERAL", "NOT_LITERAL", "ANY", "IN", "AT"):
            raise re.error(f"{name.lower()} is not supported")  # Go's expressions have none of them either
    return found


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


def _compare(a: Any, b: Any) -> int:
    """Of two versions, or of two quantities: no text is both."""
    if isinstance(a, str) and isinstance(b, str) and _VERSION.fullmatch(a) and _VERSION.fullmatch(b):
        left, right = _precedence(a), _precedence(b)
        return (left > right) - (left < right)
    return quantity.compare(a, b)


def _version(text: str, normalize: bool) -> str:
    """As it is, or with what is commonly left out of versions: `v1.2` is 1.2.0."""
    if not normalize:
        return text
    numbers, sign, rest = text.removeprefix("v").partition("-")
    parts = [part.lstrip("0") or "0" for part in numbers.split(".")]
    return ".".join(parts + ["0"] * (3 - len(parts))) + sign + rest


def _semver(text: str, normalize: bool = False) -> str:
    version = _version(text, normalize)
    _version_parts(version)
    return version


def _version_parts(text: str) -> tuple[str, ...]:
    found = _VERSION.fullmatch(text)
    if found is None:
        raise ValueError(f'"{text}" is no semantic version')
    return found.groups()


def _precedence(text: str) -> tuple[object, ...]:
    """Orders versions: a pre-release goes before its release; its parts compare as numbers where they are numbers."""
    *numbers, pre_release = _version_parts(text)
    parts = (pre_release or "").split(".")
    named = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)
    return (*map(int, numbers), not pre_release, named)
