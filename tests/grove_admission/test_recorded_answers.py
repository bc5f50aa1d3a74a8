"""What Grove's operator answered to recorded writes, our admission answers too."""

from __future__ import annotations

import pytest

from tests.conformance.cases import conformance_folder
from tests.conformance.grove_admission import verdicts

FOLDER = conformance_folder("grove")


@pytest.mark.shared("conformance/grove", cases=71)
def test_every_recorded_write_is_answered_as_recorded() -> None:
    assert FOLDER is not None
    found = verdicts(FOLDER)
    assert len(found) > 60
    assert {each.case: each.differences for each in found if each.failed} == {}
