"""Snapshots that make no sense, made of ones that do: every one is decided on, and quickly.

So many seeds are tried in every run; BOSKET_FUZZ_SECONDS gives more time to others. `python -m benchmarks fuzz` tries
10⁵.
"""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest

from tests.fuzz import snapshot_case
from tests.fuzz.fuzzed import budget_seconds, chance
from tests.fuzz.snapshot_case import Case, Survived, describe, make, run, shrink

CASES = 120


def test_fuzzed_snapshots_are_decided_on() -> None:
    for seed in range(CASES):
        _try(seed)
    if "BOSKET_FUZZ_SECONDS" in os.environ:
        dice, until = chance(), time.monotonic() + budget_seconds(0)
        while time.monotonic() < until:
            _try(dice.randrange(2**40))


def _try(seed: int) -> None:
    case = make(seed)
    try:
        run(case)
    except (Exception, Survived) as error:
        raise AssertionError(f"python -m benchmarks fuzz --seed {seed} --cases 1: {describe(error)}") from error


def test_cases_follow_from_their_seed() -> None:
    assert make(7) == make(7)
    assert make(7) != make(8)


def test_most_of_what_is_changed_reaches_the_scheduler() -> None:
    """A case whose objects can't be decoded tests nothing but the decoder."""
    kept: Counter[str] = Counter()
    for seed in range(40):
        case = make(seed)
        kept["made"] += sum(map(len, case.first.values()))
        kept["read"] += snapshot_case.count_readable(case.first)
    assert kept["read"] > 0.85 * kept["made"]


def test_a_failing_case_is_made_small() -> None:
    case = make(3)
    name = case.first["nodes"][0]["metadata"]["name"]

    def fails(smaller: Case) -> bool:
        return any(node["metadata"]["name"] == name for node in smaller.first.get("nodes", ()))

    small = shrink(case, fails)
    assert sum(map(len, small.first.values())) == 1


@pytest.mark.parametrize("seed", [1095])
def test_seeds_that_failed_once(seed: int) -> None:
    """1095: pods that share a GPU which nobody knows were evicted, and stayed."""
    _try(seed)
