"""The names and fields of `self` in a CEL expression, read from its text, without evaluation or types.

Used to refuse rules that could never hold when a definition is written, instead of when the first object is.
"""

from __future__ import annotations

import re
from functools import lru_cache

from bosket.api.cel import Expression
from bosket.apiserver.custom.schema import Node

_RESERVED = frozenset(
    (
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"),
        *("namespace", "null", "package", "return", "true", "var", "void", "while"),
    )
)
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))


@lru_cache(maxsize=4096)
def cel_name(name: str) -> str:
    """A property as expressions write it: `my-size` is `my__dash__size`."""
    if name in _RESERVED:
        return f"__{name}__"
    for sign, escaped in _ESCAPES:
        name = name.replace(sign, escaped)
    return name


_TEXT = re.compile(r'[rR]?"(?:[^"\\]|\\.)*"|[rR]?\'(?:[^\'\\]|\\.)*\'')
_CHAIN = re.compile(r"(?<![\w.])(?:self|oldSelf)(?P<steps>(?:\s*\.\s*[A-Za-z_]\w*)+)(?P<call>\s*\()?")
_SELF = re.compile(r"(?<![\w.])(?:self|oldSelf)\b(?:\s*\.\s*(?P<name>[A-Za-z_]\w*)(?P<call>\s*\()?)?")
#: Names that are always there: types, and what libraries put their functions under.
_KNOWN = frozenset(
    (
        *(
            "self",
            "oldSelf",
            "int",
            "uint",
            "double",
            "bool",
            "string",
            "bytes",
            "list",
            "map",
            "null_type",
            "type",
            "dyn",
        ),
        *(
            "timestamp",
            "duration",
            "optional",
            "math",
            "sets",
            "cel",
            "format",
            "strings",
            "google",
            "kubernetes",
            "net",
        ),
    )
)
#: Fields that every object has, of which rules may speak.
_META = {"apiVersion": None, "kind": None, "metadata": Node({"type": "object"})}
_META_NAMES = frozenset({"name", "generateName"})


def fields_of(source: str) -> frozenset[str] | None:
    """The fields of `self` and `oldSelf` that an expression speaks of; None where it speaks of them as a whole."""
    names = set()
    for found in _SELF.finditer(_TEXT.sub("''", source)):
        if found["name"] is None or found["call"] is not None:
            return None
        names.add(found["name"])
    return frozenset(names)


def unknown_names(expression: Expression) -> list[str]:
    """The variables of an expression that nothing stands for."""
    return sorted(expression.unbound - _KNOWN)


def unknown_field(source: str, node: Node, *, root: bool) -> str | None:
    """The first field that an expression looks for where the schema has none."""
    for found in _CHAIN.finditer(_TEXT.sub("''", source)):
        steps = re.findall(r"\w+", found["steps"])
        if found["call"] is not None:
            steps.pop()
        if missing := _missing(steps, node, root=root):
            return missing
    return None


def _missing(steps: list[str], node: Node, *, root: bool) -> str | None:
    for place, step in enumerate(steps):
        if node.type != "object":
            return None
        if (root and place == 0) or node.embedded:
            if step == "metadata" and place + 1 < len(steps):
                return None if steps[place + 1] in _META_NAMES else steps[place + 1]
            if step in _META:
                return None
        names = {cel_name(name): child for name, child in node.properties.items()}
        child = names.get(step, node.additional)
        if child is None:
            return step
        node = child
    return None
