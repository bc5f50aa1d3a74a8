"""Where in the code the API server is called: found by reading the source, without running it.

A call site is a call of one of the client's methods, or a request for an informer. Its key says what is called, so
that a call that comes to mean another kind is another site.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import bosket

_SOURCE: Final = Path(bosket.__file__).parent.parent
_READING: Final = ("get", "list", "watch", "discover", "raw")
_WRITING: Final = ("create", "replace", "patch", "modify", "scale", "delete", "delete_collection", "bind", "evict")
_CLIENT_METHODS: Final = frozenset((*_READING, *_WRITING))


@dataclass(frozen=True, slots=True, order=True)
class CallSite:
    """A call, by the function that makes it and its text; `lines` are where it stands today."""

    module: str
    function: str
    call: str
    lines: tuple[int, int] = (0, 0)

    @property
    def key(self) -> str:
        return f"{self.module}:{self.function} {self.call}"


@cache
def sites_of(package: str) -> tuple[CallSite, ...]:
    """All call sites of a package, or of one module."""
    return tuple(site for module in modules_of(package) for site in _sites_in(module))


def modules_of(package: str) -> list[Path]:
    """The files of a package, or of one module."""
    path = _SOURCE.joinpath(*package.split("."))
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def _sites_in(path: Path) -> Iterator[CallSite]:
    parts = path.relative_to(_SOURCE).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    yield from _walk(ast.parse(path.read_text()), name, ())


def _walk(node: ast.AST, module: str, scope: tuple[str, ...]) -> Iterator[CallSite]:
    if isinstance(node, ast.Call) and (call := _call_text(node)) is not None:
        yield CallSite(module, ".".join(scope), call, (node.lineno, node.end_lineno or node.lineno))
    inside = scope
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        inside = (*scope, node.name)
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, module, inside)


def _call_text(node: ast.Call) -> str | None:
    """`patch(Pod, status)`: the method, what it is called with first, and the subresource."""
    if not isinstance(node.func, ast.Attribute):
        return None
    receiver, method = ast.unparse(node.func.value).rsplit(".", 1)[-1].lstrip("_"), node.func.attr
    if not (receiver == "client" and method in _CLIENT_METHODS) and not (receiver == "informers" and method == "of"):
        return None
    told = [ast.unparse(each) for each in node.args[:1]]
    told += [ast.unparse(each.value).strip("'") for each in node.keywords if each.arg == "subresource"]
    return f"{method}({', '.join(told)})"
