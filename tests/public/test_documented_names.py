"""What programs of others import: the documented names are there, typed, and cost nothing until they are used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import bosket
from bosket import Configuration, decide, load_snapshot
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import job, node, queue
from bosket.testing.cluster import NOW, placements, state_of

STUB = Path(bosket.__file__).with_suffix(".pyi")


def test_a_recorded_snapshot_is_loaded_and_decided_on(tmp_path: Path) -> None:
    file = tmp_path / "snapshot.zip"
    state = state_of([node("n"), queue("q"), *job("a")])
    file.write_bytes(zipped(take(state, StateOptions(), Configuration(), NOW)))
    recorded = load_snapshot(file)
    decisions = decide(recorded.snapshot(NOW), Configuration())
    assert placements(decisions) == {"a-0": "n"}
    assert placements(decide(recorded.snapshot(NOW), recorded.configuration)) == {"a-0": "n"}


def test_each_name_of_the_stub_is_there_and_no_other() -> None:
    (listed,) = (each for each in ast.parse(STUB.read_text()).body if isinstance(each, ast.Assign))
    names = ast.literal_eval(listed.value)
    assert set(names) == {*bosket._PUBLIC, "__version__"}  # type: ignore[attr-defined]
    assert all(getattr(bosket, name) for name in names)
    assert set(names) <= set(dir(bosket))


def test_a_name_that_is_not_there_is_an_error_that_says_so() -> None:
    with pytest.raises(AttributeError, match="module 'bosket' has no attribute 'decyde'"):
        bosket.decyde  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_imports_nothing_of_the_scheduler() -> None:
    program = "import bosket, sys; print([each for each in sys.modules if each.startswith(('bosket.', 'numpy'))])"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_the_command_line_runs_as_a_module() -> None:
    run = subprocess.run([sys.executable, "-m", "bosket", "--version"], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == bosket.__version__
