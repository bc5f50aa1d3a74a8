"""The architecture page names files and functions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src" / "bosket"
PAGE = REPOSITORY / "docs" / "architecture.md"
#: a module of a walk with names in it: `scheduler/decide.py`: `decide`, `open_session`
_STEP = re.compile(r"`([\w/]+\.py)`: ((?:`[\w.]+`(?:, )?)+)")
_FILE = re.compile(r"`([\w/]+\.py)`")
_LINK = re.compile(r"\]\(([\w./-]+\.md)[)#]")


def _names_in(path: Path) -> set[str]:
    """Classes and functions of a module, methods as `Class.method`."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{each.name}" for each in node.body if hasattr(each, "name")}
    return names


def test_every_function_of_a_walk_exists() -> None:
    steps = [(path, name) for path, names in _STEP.findall(PAGE.read_text()) for name in re.findall(r"[\w.]+", names)]
    assert len(steps) > 30, "the walks name functions"
    missing = [f"{path}: {name}" for path, name in steps if name not in _names_in(SOURCE / path)]
    assert not missing, f"docs/architecture.md names what isn't there: {missing}"


def test_every_module_with_a_path_exists() -> None:
    paths = {path for path in _FILE.findall(PAGE.read_text()) if "/" in path}
    # Inside a section about one package a path may start at that package.
    roots = (SOURCE, SOURCE / "scheduler", REPOSITORY)
    missing = sorted(path for path in paths if not any((root / path).is_file() for root in roots))
    assert not missing, f"docs/architecture.md names modules that aren't there: {missing}"


@pytest.mark.parametrize("page", sorted((REPOSITORY / "docs").rglob("*.md")), ids=lambda page: str(page.name))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    broken = [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not broken, f"{page.name} links to {broken}"
