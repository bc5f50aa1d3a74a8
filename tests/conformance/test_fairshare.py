"""Fair shares are divided as KAI divides them."""

from __future__ import annotations

import json

import pytest

from tests.conformance.cases import conformance_folder
from tests.conformance.fairshare import differences


def test_every_recorded_division_comes_out_the_same() -> None:
    folder = conformance_folder("differential")
    if folder is None:
        pytest.skip("no recorded cases: set BOSKET_SHARED to a folder that has conformance/differential")
    cases = [json.loads(line) for line in (folder / "fairshare.jsonl").read_text().splitlines()]
    wrong = {case["id"]: found for case in cases if (found := differences(case))}
    assert len(cases) > 0
    assert wrong == {}
