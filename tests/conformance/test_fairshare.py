"""Fair shares are divided as KAI divides them."""

from __future__ import annotations

import json

import pytest

from tests.conformance.cases import conformance_folder
from tests.conformance.fairshare import differences


@pytest.mark.shared("conformance/differential", cases=278)
def test_every_recorded_division_comes_out_the_same() -> None:
    folder = conformance_folder("differential")
    assert folder is not None
    cases = [json.loads(line) for line in (folder / "fairshare.jsonl").read_text().splitlines()]
    wrong = {case["id"]: found for case in cases if (found := differences(case))}
    assert len(cases) > 0
    assert wrong == {}
