"""docs/doctor.md lists every rule that a finding can name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

from bosket.tools.doctor import checks

DOCUMENT = Path(__file__).parents[2] / "docs" / "doctor.md"


def codes() -> Iterator[str]:
    """First arguments of `Finding(…)` in the checks, where they are written out."""
    for module in Path(checks.__file__).parent.glob("*.py"):
        for call in ast.walk(ast.parse(module.read_text())):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Finding":
                yield from (str(part.value) for part in ast.walk(call.args[0]) if _is_code(part))


def _is_code(part: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(part, ast.Constant) and re.fullmatch(r"[a-z]+(-[a-z]+)+", str(part.value)) is not None


def test_every_rule_is_listed() -> None:
    listed = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", DOCUMENT.read_text()))
    assert len(set(codes())) > 70
    assert set(codes()) - listed == set()
