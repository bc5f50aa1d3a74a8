"""How much an expression may cost. The package that evaluates CEL has no limits of its own, and can't be interrupted.

What makes an expression expensive is loops in loops over long lists, and lists that double. So before an expression
with nested loops is evaluated, the longest collection that it can see is looked up: taken to the power of the loops'
depth, it must not be above the limit. Kubernetes counts while it evaluates and has about the same limit.
"""

from __future__ import annotations

import re
from typing import Any, Final

#: Rounds of the innermost loop.
LIMIT: Final = 1_000_000
_MACRO = re.compile(r"\.\s*(?:all|exists|exists_one|existsOne|map|filter|transformList|transformMap|sortBy)\s*\(")
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')
_SPLITTING = re.compile(r"\b(?:split|findAll)\s*\(")
_NAME = r"\s*([A-Za-z_]\w*)\s*,"
_DECLARED = re.compile(rf"{_MACRO.pattern}{_NAME}(?:{_NAME})?|cel\s*\.\s*bind\s*\({_NAME}")


class Cost:
    """What is known of an expression before it is evaluated."""

    __slots__ = ("_bindings", "_depth", "_splits")

    def __init__(self, source: str) -> None:
        plain = _STRINGS.sub('""', source)
        self._depth = _loop_depth(plain)
        self._bindings = plain.count("cel.bind") if "+" in plain else 0
        self._splits = _SPLITTING.search(plain) is not None

    def is_bearable(self, variables: dict[str, Any]) -> bool:
        """Whether it may be evaluated with these."""
        if self._depth < 2 and not self._bindings:
            return True
        longest: int = _longest(variables, strings=self._splits) << min(self._bindings, 64)
        rounds: int = longest ** max(self._depth, 1)
        return rounds <= LIMIT


def declared_in(source: str) -> frozenset[str]:
    """The variables that an expression's own loops and bindings make."""
    found = _DECLARED.findall(_STRINGS.sub('""', source))
    return frozenset(name for names in found for name in names if name)


def _loop_depth(source: str) -> int:
    """How deeply loops stand in loops: a macro's brackets hold what is evaluated in each of its rounds."""
    opened: list[bool] = []
    deepest = current = 0
    loops = {found.end() - 1 for found in _MACRO.finditer(source)}
    for place, sign in enumerate(source):
        if sign == "(":
            opened.append(place in loops)
            current += opened[-1]
            deepest = max(deepest, current)
        elif sign == ")" and opened:
            current -= opened.pop()
    return deepest


def _longest(value: Any, *, strings: bool) -> int:
    longest = 1
    level = [value]
    while level:
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict | list | tuple):
                longest = max(longest, len(each))
                below.extend(each.values() if isinstance(each, dict) else each)
            elif strings and isinstance(each, str):
                longest = max(longest, len(each))
        level = below
    return longest
