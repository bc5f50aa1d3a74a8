"""What CONTRIBUTING says is so: the files that it names are there, its Python runs, its targets are those of make."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bosket import Configuration
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import job, node, queue
from bosket.testing.cluster import NOW, placements, state_of

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
#: A path may leave out what is clear from the sentence.
BELOW = (
    "",
    "benchmarks",
    "src/bosket",
    "src/bosket/scheduler",
    "src/bosket/services",
    "tests/diagnosis",
    "tests/scheduler",
)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"[\w./-]*\w\.(?:py|md|json|txt|toml)\b", TEXT))))
def test_a_file_that_is_named_is_there(path: str) -> None:
    folders = [ROOT / folder for folder in BELOW]
    models = ROOT.glob(f"src/bosket/*/*/**/{path}") if "/" not in path else iter(())
    assert any((folder / path).exists() for folder in folders) or any(models)


def test_a_decision_can_be_debugged_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    state = state_of([node("n"), queue("q"), *job("a")])
    (tmp_path / "before.zip").write_bytes(zipped(take(state, StateOptions(), Configuration(), NOW)))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(program, names)
    assert placements(names["decisions"]) == {"a-0": "n"}  # type: ignore[arg-type]


def test_every_target_of_make_is_explained_there_and_no_other() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z0-9-]+)", TEXT))
    assert named <= targets
    assert targets - named <= {"help", "setup", "scale", "clean"}
