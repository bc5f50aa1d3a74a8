"""Expressions over values, each in two languages: evaluated here, and written as Go's templates have it for Helm.

Both must give the same for any values. So there are few of them, and each is small; `tests/install` compares the two.
What counts as empty (false, 0, "", an empty list or map, nothing) is the same in both languages.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec


@dataclass(frozen=True, slots=True)
class Context:
    """What a chart is rendered with."""

    values: dict[str, Any]
    namespace: str
    app_version: str


class Expression(Protocol):
    """Something that is known when the chart is rendered."""

    def evaluate(self, context: Context) -> Any: ...

    def go(self) -> str:
        """As an argument of a function in a template."""
        ...


@dataclass(frozen=True, slots=True)
class Value:
    """One of the values: `Value("global.tag")`; None where there is none."""

    path: str

    def evaluate(self, context: Context) -> Any:
        found: Any = context.values
        for name in self.path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def go(self) -> str:
        return f".Values.{self.path}"


class ReleaseNamespace:
    """Where the chart is installed."""

    def evaluate(self, context: Context) -> Any:
        return context.namespace

    def go(self) -> str:
        return ".Release.Namespace"


class AppVersion:
    """The version of Bosket that the chart installs."""

    def evaluate(self, context: Context) -> Any:
        return context.app_version

    def go(self) -> str:
        return ".Chart.AppVersion"


@dataclass(frozen=True, slots=True)
class FirstOf:
    """The first that isn't empty; the last, if all are."""

    choices: tuple[Expression, ...]

    def evaluate(self, context: Context) -> Any:
        found = [each.evaluate(context) for each in self.choices]
        return next((each for each in found if each), found[-1])

    def go(self) -> str:
        expression = self.choices[-1].go()
        for each in reversed(self.choices[:-1]):
            expression = f"(default {expression} {each.go()})"
        return expression


@dataclass(frozen=True, slots=True)
class Text:
    """Texts one after the other."""

    parts: tuple[str | Expression, ...]

    def evaluate(self, context: Context) -> Any:
        return "".join(each if isinstance(each, str) else str(each.evaluate(context)) for each in self.parts)

    def go(self) -> str:
        form = "".join(each.replace("%", "%%") if isinstance(each, str) else "%s" for each in self.parts)
        given = " ".join(each.go() for each in self.parts if not isinstance(each, str))
        return f"(printf {msgspec.json.encode(form).decode()} {given})"


@dataclass(frozen=True, slots=True)
class IfElse:
    """One or the other."""

    condition: Expression
    then: Expression
    otherwise: Expression

    def evaluate(self, context: Context) -> Any:
        return (self.then if self.condition.evaluate(context) else self.otherwise).evaluate(context)

    def go(self) -> str:
        return f"(ternary {self.then.go()} {self.otherwise.go()} (not (empty {self.condition.go()})))"


@dataclass(frozen=True, slots=True)
class Not:
    """Whether something is empty."""

    condition: Expression

    def evaluate(self, context: Context) -> Any:
        return not self.condition.evaluate(context)

    def go(self) -> str:
        return f"(not {self.condition.go()})"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Whether one of them isn't empty."""

    conditions: tuple[Expression, ...]

    def evaluate(self, context: Context) -> Any:
        return any(each.evaluate(context) for each in self.conditions)

    def go(self) -> str:
        return f"(or {' '.join(each.go() for each in self.conditions)})"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Whether none of them is empty."""

    conditions: tuple[Expression, ...]

    def evaluate(self, context: Context) -> Any:
        return all(each.evaluate(context) for each in self.conditions)

    def go(self) -> str:
        return f"(and {' '.join(each.go() for each in self.conditions)})"


@dataclass(frozen=True, slots=True)
class IsMoreThanOne:
    """Whether a number is."""

    number: Expression

    def evaluate(self, context: Context) -> Any:
        return int(self.number.evaluate(context)) > 1

    def go(self) -> str:
        return f"(gt (int {self.number.go()}) 1)"


@dataclass(frozen=True, slots=True)
class Literal:
    """A text that is always the same."""

    text: str

    def evaluate(self, _context: Context) -> Any:
        return self.text

    def go(self) -> str:
        return msgspec.json.encode(self.text).decode()


@dataclass(frozen=True, slots=True)
class Concat:
    """Some entries, and those of a list."""

    first: tuple[Expression, ...]
    rest: Expression

    def evaluate(self, context: Context) -> Any:
        return [*(each.evaluate(context) for each in self.first), *(self.rest.evaluate(context) or ())]

    def go(self) -> str:
        return f"(concat (list {' '.join(each.go() for each in self.first)}) (default (list) {self.rest.go()}))"


@dataclass(frozen=True, slots=True)
class Json:
    """A map as JSON text, for a file that a manifest carries: of maps, lists, scalars and expressions."""

    tree: dict[str, Any]

    def evaluate(self, context: Context) -> Any:
        plain = msgspec.json.encode(_evaluated(self.tree, context), order="deterministic").decode()
        # As Go has it, so that both give the same text: what HTML would take for its own is written as numbers.
        return plain.translate({ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"})

    def go(self) -> str:
        return f"(toJson {_go(self.tree)})"


@dataclass(frozen=True, slots=True)
class Sha256:
    """A text's digest, which is another where the text is."""

    text: Expression

    def evaluate(self, context: Context) -> Any:
        return hashlib.sha256(self.text.evaluate(context).encode()).hexdigest()

    def go(self) -> str:
        return f"(sha256sum {self.text.go()})"


def _evaluated(tree: Any, context: Context) -> Any:
    if isinstance(tree, dict):
        return {name: _evaluated(each, context) for name, each in tree.items()}
    if isinstance(tree, str | bool | int):
        return tree
    return tree.evaluate(context)


def _go(tree: Any) -> str:
    if isinstance(tree, dict):
        return f"(dict {' '.join(f'{_go(name)} {_go(each)}' for name, each in tree.items())})"
    if isinstance(tree, str | bool | int):
        return msgspec.json.encode(tree).decode()
    text: str = tree.go()
    return text
