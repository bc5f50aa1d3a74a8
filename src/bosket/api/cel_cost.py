"""How much an expression may cost. The package that evaluates CEL has no limits of its own, and can't be interrupted.

While it evaluates, the process does nothing else: so what would take longer than a tenth of a second is not begun. An
expression is expensive by loops in loops, and by copies: the package copies a list or map whenever a loop's body names
it, and what `map` and `filter` have found so far in each of their rounds. The time that these take was measured, and is
added up here from the sizes of the values before the expression is evaluated. Kubernetes counts while it evaluates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

#: Longest expression, as Kubernetes has it for the selectors of devices. The package's parser goes as deep as an
#: expression is long, and twice of this ends the process.
MAX_SOURCE: Final = 10 * 1024
#: Of one evaluation, in nanoseconds.
LIMIT_NANOSECONDS: Final = 100_000_000

#: To copy a value, of which one in a list is cheaper than a map and its entries.
_COPY_VALUE, _COPY_ENTRY = 30, 100
#: For each character of a text that is taken apart.
_SPLIT: Final = 1_250
#: For one round of a loop.
_ROUND: Final = 300

_COLLECTING = ("map", "filter", "transformList", "transformMap")
_CHAIN = r"(?<![\w.])(?:self|oldSelf|object|oldObject|params|request|device|variables)(?:\s*\.\s*[A-Za-z_]\w*)*"
_MACRO = re.compile(r"\.\s*(all|exists|exists_one|existsOne|map|filter|transformList|transformMap|sortBy)\s*\(")
_ENDS_IN_CHAIN = re.compile(rf"({_CHAIN})\s*$")
_REFERENCE = re.compile(rf"{_CHAIN}(?P<call>\s*\()?")
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')
_SPLITTING = re.compile(r"\b(?:split|findAll)\s*\(")
_NAME = r"\s*([A-Za-z_]\w*)\s*,"
_DECLARED = re.compile(rf"{_MACRO.pattern}{_NAME}(?:{_NAME})?|cel\s*\.\s*bind\s*\({_NAME}")

Path = tuple[str, ...]


class _Loop(NamedTuple):
    """One macro: where its body is, what it goes around (None: not known), and whether it collects."""

    start: int
    end: int
    over: Path | None
    collects: bool


class Sizes(NamedTuple):
    """What there is to know of a value: what it takes to copy it, in nanoseconds, and its longest collection."""

    copy: int
    longest: int


class Cost:
    """What is known of an expression before it is evaluated."""

    __slots__ = ("_bindings", "_inner", "_loops", "_splits")

    def __init__(self, source: str) -> None:
        plain = _STRINGS.sub('""', source)
        found = list(_loops(plain))
        #: all loops, each with those that it is in
        self._loops = [(loop, [outer for outer in found if outer.start < loop.start < outer.end]) for loop in found]
        #: what bodies of loops name, with the loops that it is in
        self._inner = [
            (path, around)
            for place, path in _references(plain)
            if (around := [loop for loop, _ in self._loops if loop.start < place < loop.end])
        ]
        self._bindings = plain.count("cel.bind") if "+" in plain else 0
        self._splits = _SPLITTING.search(plain) is not None

    def is_bearable(self, variables: dict[str, Any]) -> bool:
        """Whether it may be evaluated with these."""
        return self.nanoseconds(variables) <= LIMIT_NANOSECONDS

    def nanoseconds(self, variables: dict[str, Any]) -> int:
        """About how long loops take that are more than one look at each value; never much less than they do."""
        if not (self._loops or self._bindings or self._splits):
            return 0
        sizes = sizes_of(variables, strings=self._splits)
        longest = sizes.longest << min(self._bindings, 64)
        # What is bound may be twice as long as what it was made of, each time.
        total = sizes.copy << min(self._bindings, 64) if self._bindings else 0
        if self._splits:
            total += sizes.longest * _SPLIT

        def rounds(loops: list[_Loop]) -> int:
            product = 1
            for loop in loops:
                over = None if loop.over is None or self._bindings else _resolved(variables, loop.over)
                product *= len(over) if isinstance(over, dict | list) else longest
            return product

        for loop, around in self._loops:
            times = rounds([*around, loop])
            total += times * _ROUND if around or self._bindings else 0
            if loop.collects:
                over = None if loop.over is None else _resolved(variables, loop.over)
                found = sizes.copy if over is None else sizes_of(over, strings=False).copy
                total += times * found
        for path, around in self._inner:
            value = _resolved(variables, path)
            if isinstance(value, str):
                total += rounds(around) * len(value)
            elif isinstance(value, dict | list):
                total += rounds(around) * sizes_of(value, strings=False).copy
        return total


def declared_in(source: str) -> frozenset[str]:
    """The variables that an expression's own loops and bindings make."""
    found = _DECLARED.findall(_STRINGS.sub('""', source))
    return frozenset(name for _, *names in found for name in names if name)


def _loops(source: str) -> Iterator[_Loop]:
    """All macros of an expression: a macro's brackets hold what is evaluated in each of its rounds."""
    opening = {found.end() - 1: found for found in _MACRO.finditer(source)}
    opened: list[int] = []
    for place, sign in enumerate(source):
        if sign == "(":
            opened.append(place)
        elif sign == ")" and opened:
            start = opened.pop()
            if start in opening:
                yield _loop(source, opening[start], place)


def _loop(source: str, found: re.Match[str], end: int) -> _Loop:
    before = _ENDS_IN_CHAIN.search(source, max(0, found.start() - 500), found.start())
    return _Loop(found.end() - 1, end, None if before is None else _path(before[1]), found[1] in _COLLECTING)


def _references(source: str) -> Iterator[tuple[int, Path]]:
    """What an expression names, and where; a function that is called on it isn't part of its path."""
    for found in _REFERENCE.finditer(source):
        path = _path(found.group().removesuffix("(") if found["call"] is not None else found.group())
        yield found.start(), path[:-1] if found["call"] is not None else path


def _path(chain: str) -> Path:
    return tuple(step.strip() for step in chain.split("."))


def _resolved(variables: dict[str, Any], path: Path) -> Any:
    """The value that a path leads to; what is reached by other means than keys of maps is where they end."""
    value: Any = variables
    for step in path:
        if not isinstance(value, dict):
            return value
        if step not in value:
            return None
        value = value[step]
    return value


def sizes_of(value: Any, *, strings: bool) -> Sizes:
    """The sizes of a value with all that is in it; with `strings`, texts count as collections of characters."""
    copy, longest = 0, 1
    level = [value]
    while level:
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                longest = max(longest, len(each))
                copy += _COPY_ENTRY * (1 + len(each))
                below.extend(each.values())
            elif isinstance(each, list | tuple):
                longest = max(longest, len(each))
                copy += _COPY_ENTRY + _COPY_VALUE * len(each)
                below.extend(each)
            elif strings and isinstance(each, str):
                longest = max(longest, len(each))
        level = [each for each in below if isinstance(each, dict | list | tuple | str)]
    return Sizes(copy, longest)
