"""Grove's own list of what must work (`facts/grove.md`, section 10): which of it runs where, as `docs/grove.md` has it.

A test of the list names its ids in its docstring; what runs on the real control plane is the table of
`tests.e2e.test_grove_list`, and the tests of admission, which both servers run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.conformance.cases import shared_file
from tests.e2e.test_grove_list import SCENARIOS

ROOT = Path(__file__).parents[2]
ADMISSION = ROOT / "tests/e2e/test_grove_admission.py"
FACTS = shared_file("facts/grove.md")
#: Single ids and ranges of them, as docstrings and the documentation write them.
_ID = re.compile(r"\b(GS|SO|GT|TAS|RU|OD|RS)(\d+)(?: to \1(\d+))?\b|\b(MNNVL|cascade)\b")


def _ids(text: str) -> set[str]:
    found: set[str] = set()
    for suite, first, last, word in _ID.findall(text):
        found |= {word} if word else {f"{suite}{number}" for number in range(int(first), int(last or first) + 1)}
    return found


def _tested(files: Iterable[Path]) -> set[str]:
    """Ids in docstrings of tests."""
    return {
        each
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef) and node.name.startswith("test_")
        for each in _ids(ast.get_docstring(node) or "")
    }


def _documented() -> tuple[set[str], set[str]]:
    """Ids of the table, by column: on the embedded cluster, and on the real control plane."""
    rows = [line for line in (ROOT / "docs/grove.md").read_text().splitlines() if line.startswith("|")]
    of_list = [cells for row in rows if len(cells := row.split("|")) == 5 and _ids(cells[2])]
    return {each for row in of_list for each in _ids(row[2])}, {each for row in of_list for each in _ids(row[3])}


def test_the_documentation_says_what_runs_on_the_embedded_cluster() -> None:
    assert _documented()[0] == _tested([*ROOT.glob("tests/grove*/test_*.py"), ADMISSION])


def test_the_documentation_says_what_runs_on_the_real_control_plane() -> None:
    assert _documented()[1] == _tested([ADMISSION]) | _ids(" ".join(SCENARIOS))


def test_at_least_a_third_of_the_list_runs_on_the_real_control_plane() -> None:
    embedded, real = _documented()
    assert real <= embedded
    assert len(real) >= len(embedded) / 3


@pytest.mark.shared("facts/grove.md")
def test_all_of_the_list_is_tested() -> None:
    assert FACTS is not None
    text = FACTS.read_text()
    section = text[text.index("\n## 10. ") : text.index("\n## 11. ")].replace("–", " to ").replace("Cascade", "cascade")
    missing = _ids("RU1 to RU6")  # as it says itself
    assert _ids(section) - missing == _documented()[0]
