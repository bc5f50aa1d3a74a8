"""Fair shares are divided as KAI divides them."""

import json

import pytest

from tests.conformance.cases import conformance_folder
from tests.conformance.fairshare import differences

FOLDER = conformance_folder("differential")


@pytest.mark.skipif(FOLDER is None, reason="no recorded cases: set BOSKET_SHARED to the folder that has conformance/")
def test_every_recorded_division_comes_out_the_same():
    cases = [json.loads(line) for line in (FOLDER / "fairshare.jsonl").read_text().splitlines()]
    wrong = {case["id"]: found for case in cases if (found := differences(case))}
    assert len(cases) > 0
    assert wrong == {}
