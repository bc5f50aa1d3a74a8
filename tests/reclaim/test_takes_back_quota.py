"""A queue takes back what it is entitled to from queues that hold more than theirs, and no more than that."""

from typing import Any

from bosket.api.object import KubeObject
from bosket.testing.build import job, node, queue
from bosket.testing.cluster import Objects, configured, decided, evictions, pipelines, placements

RECLAIM = configured("allocate", "reclaim")


def running(name: str, of: int, **group: Any) -> list[KubeObject]:
    """One-pod jobs `name0`, `name1`… with one GPU each, each younger than the one before."""
    return [each for i in range(of) for each in job(f"{name}{i}", on="n1", **group)]


def test_what_a_queue_holds_beyond_its_share_goes_to_one_that_is_below_its_own() -> None:
    decisions = decided(
        node("n1", gpus=4),
        [queue("a", quota=2), queue("b", quota=2)],
        running("a", 4, queue="a"),
        job("b", queue="b"),
        configuration=RECLAIM,
    )
    assert evictions(decisions) == {"a3-0": "b"}
    assert pipelines(decisions) == {"b-0": "n1"}
    assert placements(decisions) == {}, "nothing is bound before the victim is gone"


def test_a_queue_takes_back_up_to_its_quota_job_by_job() -> None:
    decisions = decided(
        node("n1", gpus=4),
        [queue("a", quota=2), queue("b", quota=2)],
        running("a", 4, queue="a"),
        [each for i in range(4) for each in job(f"b{i}", queue="b")],
        configuration=RECLAIM,
    )
    assert evictions(decisions) == {"a3-0": "b0", "a2-0": "b1"}
    assert pipelines(decisions) == {"b0-0": "n1", "b1-0": "n1"}


def test_a_queue_without_over_quota_weight_takes_nothing_beyond_its_quota() -> None:
    decisions = decided(
        node("n1", gpus=6),
        [queue("a", quota=2), queue("b", quota=2, weight=0)],
        running("a", 4, queue="a"),
        running("b", 2, queue="b"),
        job("more", queue="b"),
        configuration=RECLAIM,
    )
    assert evictions(decisions) == {}


def test_over_quota_shares_are_taken_back_as_well() -> None:
    """Without quotas the cluster is shared by weight: 6 GPUs for two queues are 3 each."""
    decisions = decided(
        node("n1", gpus=6),
        [queue("a", quota=0), queue("b", quota=0)],
        running("a", 6, queue="a"),
        [each for i in range(6) for each in job(f"b{i}", queue="b")],
        configuration=RECLAIM,
    )
    assert evictions(decisions) == {"a5-0": "b0", "a4-0": "b1", "a3-0": "b2"}


def test_a_queue_within_its_quota_loses_nothing_to_one_that_is_within_its_share() -> None:
    decisions = decided(
        node("n1", gpus=4),
        [queue("a", quota=4), queue("b", quota=4)],
        running("a", 4, queue="a"),
        job("b", queue="b"),
        configuration=RECLAIM,
    )
    assert evictions(decisions) == {}


def test_a_queue_does_not_reclaim_from_itself() -> None:
    decisions = decided(
        node("n1", gpus=2),
        queue("a", quota=4),
        running("a", 2, queue="a"),
        job("new", queue="a"),
        configuration=RECLAIM,
    )
    assert evictions(decisions) == {}


def test_priorities_play_no_part_between_queues() -> None:
    from bosket.testing.build import priority_class

    decisions = decided(
        node("n1", gpus=4),
        [priority_class("low", 10), priority_class("high", 90)],
        [queue("a", quota=2), queue("b", quota=2)],
        running("a", 4, queue="a", priority="high"),
        job("b", queue="b", priority="low"),
        configuration=RECLAIM,
    )
    assert evictions(decisions) == {"a3-0": "b"}


def test_a_gang_gets_its_minimum_as_a_whole_or_takes_nothing() -> None:
    cluster: list[Objects] = [
        node("n1", gpus=4),
        [queue("a", quota=1), queue("b", quota=3)],
        running("a", 4, queue="a"),
    ]
    fits = decided(*cluster, job("b", 3, queue="b"), configuration=RECLAIM)
    assert evictions(fits) == {"a3-0": "b", "a2-0": "b", "a1-0": "b"}
    assert len(pipelines(fits)) == 3
    too_large = decided(*cluster, job("b", 4, queue="b"), configuration=RECLAIM)
    assert evictions(too_large) == {}


def test_extras_are_reclaimed_for_as_well_one_at_a_time_while_the_share_lasts() -> None:
    """`b` runs its minimum of 1 and wants 3 more, of which its quota of 3 allows 2: one action takes one step."""
    decisions = decided(
        node("n1", gpus=4),
        [queue("a", quota=1, weight=0), queue("b", quota=3)],
        running("a", 3, queue="a"),
        job("b", 4, min_member=1, on=["n1"], queue="b"),
        configuration=RECLAIM,
    )
    assert evictions(decisions) == {"a2-0": "b"}
    assert pipelines(decisions) == {"b-1": "n1"}


def test_without_a_plugin_that_knows_about_shares_nobody_may_reclaim() -> None:
    from dataclasses import replace

    plugins = tuple(each for each in RECLAIM.plugins if each.name != "proportion")
    decisions = decided(
        node("n1", gpus=1),
        [queue("a", quota=0), queue("b", quota=1)],
        running("a", 1, queue="a"),
        job("b", queue="b"),
        configuration=replace(RECLAIM, plugins=plugins),
    )
    assert evictions(decisions) == {}
