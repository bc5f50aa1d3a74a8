"""A non-preemptible job may have others evicted only inside its queue's quota, at every level."""

from collections.abc import Mapping

import pytest

from bosket.testing.build import job, node, priority_class, queue
from bosket.testing.cluster import configured, decided, evictions

PREEMPT = configured("allocate", "preempt")
CLASSES = [priority_class("low", 10), priority_class("mid", 50), priority_class("build", 125)]


@pytest.mark.parametrize(("quota", "top", "expected"), [(1, 1, {"old-0": "new"}), (0, 1, {}), (1, 0, {})])
def test_a_non_preemptible_job_stays_inside_the_quota(quota: int, top: int, expected: Mapping[str, str]) -> None:
    decisions = decided(
        node("n1", gpus=1),
        [queue("top", quota=top), queue("q", parent="top", quota=quota)],
        CLASSES,
        job("old", on="n1", priority="low"),
        job("new", priority="build"),
        configuration=PREEMPT,
    )
    assert evictions(decisions) == expected


@pytest.mark.parametrize(("signatures", "expected"), [(True, {}), (False, {"old-0": "loose"})])
def test_a_non_preemptible_job_that_is_over_quota_speaks_for_preemptible_ones_as_in_kai(
    signatures: bool, expected: Mapping[str, str]
) -> None:
    """Where jobs don't speak for each other, it stands in nobody's way."""
    decisions = decided(
        node("n1", gpus=1),
        queue("q", quota=0),
        CLASSES,
        job("old", on="n1", priority="low"),
        job("firm", priority="build"),
        job("loose", priority="mid"),
        configuration=configured("allocate", "preempt", use_scheduling_signatures=signatures),
    )
    assert evictions(decisions) == expected


def test_what_runs_non_preemptibly_counts_towards_the_quota() -> None:
    decisions = decided(
        node("n1", gpus=3),
        queue("q", quota=2),
        CLASSES,
        job("firm", 2, on="n1", priority="build"),
        job("old", on="n1", priority="low"),
        job("new", priority="build"),
        configuration=PREEMPT,
    )
    assert evictions(decisions) == {}
