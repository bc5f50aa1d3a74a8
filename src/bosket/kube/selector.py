"""Label and field selectors: parsing the string forms, and matching.

Used by the embedded server to filter, by the scheduler for affinity, by controllers to find their pods. The grammar and
the meaning are Kubernetes': `!=` and `notin` also match an object that has no such label.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from bosket.api.object import LabelSelector

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_DNS = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*"
_KEY = re.compile(rf"(?:(?=[^/]{{1,253}}/){_DNS}/)?{_NAME}")
_VALUE = re.compile(rf"(?:{_NAME})?")
_SET = re.compile(r"(?P<key>[^\s!=<>(),]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_BINARY = re.compile(r"(?P<key>[^\s!=<>(),]+)\s*(?P<operator>==|=|!=|>|<)\s*(?P<value>[^\s!=<>(),]*)")
_UNARY = re.compile(r"(?P<negated>!?)\s*(?P<key>[^\s!=<>(),]+)")
_INTEGER = re.compile(r"[+-]?[0-9]+")


class InvalidSelector(ValueError):
    """A selector that can't be understood; quotes it and says what is wrong."""


class Requirement(NamedTuple):
    """One condition on labels; `operator` is in, notin, exists, !, gt or lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        if value is None or not _INTEGER.fullmatch(value):
            return False
        return int(value) > int(self.values[0]) if self.operator == "gt" else int(value) < int(self.values[0])

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "gt" | "lt":
                return f"{self.key}{'>' if self.operator == 'gt' else '<'}{self.values[0]}"
            case "in" if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case "notin" if len(self.values) == 1:
                return f"{self.key}!={self.values[0]}"
        return f"{self.key} {self.operator} ({','.join(self.values)})"


class Selector(NamedTuple):
    """All requirements must hold; none means everything, unless `nothing` is set (an absent LabelSelector)."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.nothing:
            return False
        return all(each.matches(labels) for each in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


class Matcher:
    """A selector prepared for matching many objects: the cost depends on an object's labels, not on the selector."""

    def __init__(self, selector: Selector) -> None:
        self._selector = selector
        sizes = (len(selector.requirements), *(len(each.values) for each in selector.requirements))
        self._few = max(sizes) <= _FEW
        #: required keys, forbidden keys, and conditions on values by key
        self._needed = {each.key for each in selector.requirements if each.operator in ("in", "exists", "gt", "lt")}
        self._forbidden = {each.key for each in selector.requirements if each.operator == "!"}
        self._values: dict[str, list[tuple[Requirement, frozenset[str]]]] = {}
        for each in selector.requirements:
            if each.operator not in ("exists", "!"):
                self._values.setdefault(each.key, []).append((each, frozenset(each.values)))

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self._few or self._selector.nothing:
            return self._selector.matches(labels)
        if len(self._needed) > len(labels) or not self._needed <= labels.keys():
            return False
        for key, value in labels.items():
            if key in self._forbidden:
                return False
            for each, values in self._values.get(key, ()):
                if each.operator in ("gt", "lt"):
                    if not each.matches(labels):
                        return False
                elif (value in values) != (each.operator == "in"):
                    return False
        return True


#: Up to so many requirements, or values, are checked one by one.
_FEW = 8

EVERYTHING = Selector()
NOTHING = Selector(nothing=True)

_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!", "Gt": "gt", "Lt": "lt"}


def parse_labels(text: str) -> Selector:
    """A selector in string form: `app=web,tier in (a,b),!legacy`. Empty text selects everything."""
    if not text.strip():
        return EVERYTHING
    return Selector(tuple(_parse_requirement(part.strip(), text) for part in _split(text)))


def _split(text: str) -> Iterator[str]:
    """The requirements of a selector: commas stand between them, and within brackets between values."""
    parts: list[str] = []
    for part in text.split(","):
        parts.append(part)
        if part.rfind("(") > part.rfind(")") or (len(parts) > 1 and ")" not in part):
            continue  # within brackets
        yield ",".join(parts)
        parts = []
    if parts:
        yield ",".join(parts)


def _parse_requirement(part: str, text: str) -> Requirement:
    if found := _SET.fullmatch(part):
        values = tuple(sorted({value.strip() for value in found["values"].split(",")}))
        return _checked(Requirement(found["key"], found["operator"], values), text)
    if found := _BINARY.fullmatch(part):
        operator = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}[found["operator"]]
        return _checked(Requirement(found["key"], operator, (found["value"],)), text)
    if found := _UNARY.fullmatch(part):
        return _checked(Requirement(found["key"], "!" if found["negated"] else "exists"), text)
    raise InvalidSelector(f"unable to parse label selector {text!r}: {part!r} is not a requirement")


def label_selector(selector: LabelSelector | None) -> Selector:
    """The structured form. None selects nothing, an empty one everything."""
    if selector is None:
        return NOTHING
    requirements = [Requirement(key, "in", (value,)) for key, value in selector.matchLabels.items()]
    for expression in selector.matchExpressions:
        requirements.append(requirement(expression.key, expression.operator, expression.values))
    return Selector(tuple(_checked(each, str(each)) for each in requirements))


def requirement(key: str, operator: str, values: tuple[str, ...] = ()) -> Requirement:
    """One expression as objects spell it (`In`, `NotIn`, `Exists`, `DoesNotExist`, and node affinity's `Gt`, `Lt`)."""
    known = _OPERATORS.get(operator)
    if known is None:
        raise InvalidSelector(f"operator {operator!r} of {key!r} is not one of {', '.join(_OPERATORS)}")
    if known in ("in", "notin") and not values:
        raise InvalidSelector(f"{key!r}: {operator} needs at least one value")
    if known in ("exists", "!") and values:
        raise InvalidSelector(f"{key!r}: {operator} takes no values, got {', '.join(values)}")
    return _checked(Requirement(key, known, values), key)


def _checked(each: Requirement, text: str) -> Requirement:
    if not _KEY.fullmatch(each.key):
        raise InvalidSelector(f"unable to parse label selector {text!r}: {each.key!r} is not a label key")
    if each.operator in ("gt", "lt"):
        if len(each.values) != 1 or not _INTEGER.fullmatch(each.values[0]):
            raise InvalidSelector(f"{each.key!r}: {each.operator} needs one integer, got {', '.join(each.values)!r}")
        return each
    for value in each.values:
        if not _VALUE.fullmatch(value):
            raise InvalidSelector(f"unable to parse label selector {text!r}: {value!r} is not a label value")
    return each


class FieldRequirement(NamedTuple):
    """`path` equals `value`, or does not."""

    path: str
    value: str
    negated: bool = False


class FieldSelector(NamedTuple):
    """All requirements must hold."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, field: Callable[[str], str]) -> bool:
        """`field` gives the value at a path as a string, empty where it is not set."""
        return all((field(each.path) == each.value) != each.negated for each in self.requirements)

    def value_of(self, path: str) -> str | None:
        """The value that the selector requires at `path`, if any; lets a server use an index."""
        return next((each.value for each in self.requirements if each.path == path and not each.negated), None)

    def __str__(self) -> str:
        return ",".join(
            f"{each.path}{'!=' if each.negated else '='}{_FIELD_SPECIAL.sub(_escape, each.value)}"
            for each in self.requirements
        )


_FIELD_SPECIAL = re.compile(r"[\\,=]")
_FIELD = re.compile(r"(?P<path>[^\\,=!\s]+)\s*(?P<operator>==|!=|=)(?P<value>(?:[^\\,=]|\\[\\,=])*)")


def _escape(found: re.Match[str]) -> str:
    return "\\" + found.group()


def parse_fields(text: str) -> FieldSelector:
    r"""`metadata.name=a,status.phase!=Running`; in a value, a comma, equals sign or backslash follows a backslash."""
    requirements: list[FieldRequirement] = []
    position = 0
    while position < len(text):
        found = _FIELD.match(text, position)
        if not found or (found.end() < len(text) and text[found.end()] != ","):
            raise InvalidSelector(f"invalid field selector {text!r}: can't understand {text[position:]!r}")
        value = re.sub(r"\\(.)", r"\1", found["value"])
        requirements.append(FieldRequirement(found["path"], value, found["operator"] == "!="))
        position = found.end() + 1
    return FieldSelector(tuple(requirements))
