"""Recorded snapshots of KAI, taken in and written again, give the same answers."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bosket.scheduler.answers.outcome import answer
from bosket.scheduler.decide import decide, known_part
from bosket.scheduler.recording.recorded import Recorded, read
from bosket.scheduler.recording.writer import take, zipped
from tests.conformance.cases import conformance_folder
from tests.conformance.differential import NOW

FOLDER = conformance_folder("differential")
FAMILIES = sorted((FOLDER / "cases").glob("*.jsonl")) if FOLDER else []
#: Of each family only every fifth case: what differs in one, differs in many.
STEP = 5


def answered(recorded: Recorded, now: float) -> dict[str, object]:
    snapshot = recorded.snapshot(now)
    configuration, _ = known_part(recorded.configuration)
    return answer(snapshot, decide(snapshot, configuration))


@pytest.mark.shared("conformance/differential", cases=66)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda path: path.stem)
def test_a_snapshot_that_was_written_again_is_answered_as_before(family: Path) -> None:
    for line in family.read_bytes().splitlines()[::STEP]:
        case = msgspec.json.decode(line)
        first = read(msgspec.json.encode(case["snapshot"]), case["id"])
        options = first.parameters.state_options()
        second = read(zipped(take(first.state(), options, first.configuration, NOW)), case["id"])
        assert second.now == NOW
        assert second.configuration == first.configuration
        assert answered(second, NOW) == answered(first, NOW), case["id"]
