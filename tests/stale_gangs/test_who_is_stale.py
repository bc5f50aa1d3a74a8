"""What counts as a gang below its minimum, and when it has recovered."""

from collections.abc import Sequence
from typing import Any

import pytest

from bosket.api.kai import SubGroup
from bosket.testing.build import gang, job, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, configured, decided, evictions

STALE = configured("allocate", "stalegangeviction")


def outcome(*objects: Any) -> Any:
    decisions = decided(node("n1", gpus=4), queue("q"), *objects, configuration=STALE)
    return [each.job.key.name for each in decisions.stale], [job.key.name for job in decisions.recovered]


def test_a_gang_at_its_minimum_is_not_stale() -> None:
    assert outcome(job("g", 2, on="n1")) == ([], [])


def test_one_that_has_not_started_is_not_stale() -> None:
    assert outcome(job("g", 2, gpus=8)) == ([], [])


def test_one_that_is_complete_again_is_no_longer_stale() -> None:
    assert outcome(job("g", 2, on="n1", stale_since=NOW - 30)) == ([], ["g"])


def test_one_that_is_completed_in_this_cycle_is_no_longer_stale() -> None:
    assert outcome(job("g", 3, on=["n1", "n1"], stale_since=NOW - 90)) == ([], ["g"])


def test_one_that_stays_incomplete_because_there_is_no_room_goes() -> None:
    decisions = decided(
        node("n1", gpus=2),
        queue("q"),
        job("g", 3, on=["n1", "n1"], stale_since=NOW - 90),
        configuration=STALE,
    )
    assert set(evictions(decisions)) == {"g-0", "g-1"}


def test_one_of_which_nothing_runs_any_more_is_no_longer_stale() -> None:
    assert outcome(job("g", 2, gpus=8, stale_since=NOW - 90)) == ([], ["g"])


def test_a_member_that_is_being_deleted_still_counts() -> None:
    leaving = pod("g-1").gpu(1).of_group("g").running_on("n1").being_deleted_at(NOW).build()
    assert outcome(pod_group("g", min_member=2), gang("g", 1, on="n1"), leaving) == ([], [])


def test_a_gang_of_which_a_member_succeeded_is_never_stale() -> None:
    from dataclasses import replace

    done = replace(pod("g-1").gpu(1).of_group("g").running_on("n1"), phase="Succeeded").build()
    assert outcome(pod_group("g", min_member=3), gang("g", 1, on="n1"), done) == ([], [])


@pytest.mark.parametrize(("needed", "stale"), [(1, []), (2, ["g"]), (None, ["g"])])
def test_of_sub_groups_as_many_must_be_complete_as_the_group_asks_for(needed: int | None, stale: Sequence[str]) -> None:
    """`a` is complete, `b` is one short."""
    group = pod_group(
        "g", subgroups=(SubGroup(name="a", minMember=1), SubGroup(name="b", minMember=2)), min_subgroup=needed
    )
    members = [*gang("g", 1, on="n1", subgroup="a"), *gang("g", 1, on="n1", subgroup="b")]
    assert outcome(group, members) == (stale, [])


def test_a_gang_that_lost_its_place_to_another_in_this_cycle_is_not_called_stale() -> None:
    """What is evicted counts until it is gone; the next cycle sees what is left."""
    decisions = decided(
        node("n1", gpus=3),
        [queue("q", quota=0, weight=0), queue("owner", quota=3)],
        job("g", 3, min_member=1, on="n1"),
        job("new", 3, queue="owner"),
        configuration=configured("allocate", "reclaim", "stalegangeviction"),
    )
    assert len(evictions(decisions)) == 3
    assert decisions.stale == ()
