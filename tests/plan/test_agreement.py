"""A plan is what then happens: on embedded clusters with random work, in virtual time."""

from __future__ import annotations

import pytest

from benchmarks.plan import compare


@pytest.mark.parametrize("seed", range(8))
def test_the_scheduler_does_what_was_planned(seed: int) -> None:
    case = compare(seed)
    assert case.planned == case.real
