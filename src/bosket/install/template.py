"""Manifests with gaps: trees of maps and lists in which expressions, and parts that are there only sometimes, stand.

`evaluate` fills the gaps, which is what `bosket manifests` prints; `write` makes the Helm template that does the same.
A map that isn't itself optional must have a part that always is there: Helm would write nothing where we write `{}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from bosket.install.expression import Context, Expression, Value

#: A map, list, scalar, expression or optional part.
Tree = Any

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_WORDS: Final = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))


@dataclass(frozen=True, slots=True)
class When:
    """Something that is there only if a condition isn't empty."""

    condition: Expression
    tree: Tree


@dataclass(frozen=True, slots=True)
class Either:
    """One thing if a condition isn't empty, another if it is."""

    condition: Expression
    tree: Tree
    otherwise: Tree


@dataclass(frozen=True, slots=True)
class EachName:
    """The names of those in a list of references, as a list."""

    references: Value


def if_set(path: str) -> When:
    """A value, or nothing at all where it is empty."""
    return When(Value(path), Value(path))


def evaluate(tree: Tree, context: Context) -> Any:
    """The tree without gaps. What isn't there is left out of maps and lists; of a whole tree, None is left."""
    match tree:
        case dict():
            return {name: evaluate(each, context) for name, each in tree.items() if _is_there(each, context)}
        case list() | tuple():
            return [evaluate(each, context) for each in tree if _is_there(each, context)]
        case When():
            return evaluate(tree.tree, context) if _is_there(tree, context) else None
        case Either():
            return evaluate(tree.tree if tree.condition.evaluate(context) else tree.otherwise, context)
        case EachName():
            return [each["name"] for each in tree.references.evaluate(context)]
        case str() | int() | float() | None:
            return tree
    return tree.evaluate(context)


def _is_there(tree: Tree, context: Context) -> bool:
    return not isinstance(tree, When) or bool(tree.condition.evaluate(context))


def write(documents: Iterable[Tree]) -> str:
    """A file of templates."""
    lines: list[str] = []
    for document in documents:
        condition = document.condition if isinstance(document, When) else None
        body = ["---", *_lines(document.tree if isinstance(document, When) else document)]
        lines += body if condition is None else _guarded(condition, body)
    return "".join(f"{line}\n" for line in lines)


def _lines(tree: Tree) -> Iterator[str]:
    """The lines of a map or list, not indented."""
    if isinstance(tree, dict):
        assert any(not isinstance(each, When) for each in tree.values()), f"nothing of {list(tree)} is always there"
        for name, each in tree.items():
            yield from _entry(f"{scalar(name)}:", each)
    else:
        for each in tree:
            yield from _entry("-", each)


def _entry(head: str, tree: Tree) -> Iterable[str]:
    """One entry of a map (`name:`) or list (`-`)."""
    match tree:
        case When():
            return _guarded(tree.condition, list(_entry(head, tree.tree)))
        case Either():
            guarded = _guarded(tree.condition, list(_entry(head, tree.tree)))
            return [*guarded[:-1], "{{- else }}", *_entry(head, tree.otherwise), guarded[-1]]
        case EachName():
            return [head, "  {{- range " + tree.references.go() + " }}", "  - {{ toJson .name }}", "  {{- end }}"]
        case dict() | list() | tuple() if tree:
            body = list(_lines(tree))
            if head == "-" and not body[0].startswith("{{"):
                return [f"- {body[0]}", *(f"  {each}" for each in body[1:])]
            return [head, *(f"  {each}" for each in body)]
        case dict() | list() | tuple() | str() | int() | float() | None:
            return [f"{head} {scalar(tree)}"]
    return [f"{head} {{{{ toJson {tree.go()} }}}}"]


def _guarded(condition: Expression, lines: list[str]) -> list[str]:
    return ["{{- if " + _bare(condition.go()) + " }}", *lines, "{{- end }}"]


def _bare(expression: str) -> str:
    """Without the parentheses around the whole of it."""
    if not expression.startswith("("):
        return expression
    depth = 0
    for position, character in enumerate(expression):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return expression[1:-1] if position == len(expression) - 1 else expression
    return expression


def scalar(value: Any) -> str:
    """As YAML has it; a text without quotes where nobody could take it for something else."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    text = msgspec.json.encode(value).decode()
    assert "{{" not in text, f"{text} would be taken for a template"
    return text
