"""Queues are compared where the paths to them part, and shares are kept at every level of the tree."""

from typing import Any

from bosket.api.kai.queue import Queue
from bosket.api.object import KubeObject
from bosket.testing.build import job, node, queue
from bosket.testing.cluster import configured, decided, evictions

RECLAIM = configured("allocate", "reclaim")


def running(name: str, of: int, **group: Any) -> list[KubeObject]:
    return [each for i in range(of) for each in job(f"{name}{i}", on="n1", **group)]


def departments(quota_1: int, quota_2: int) -> list[Queue | list[Queue]]:
    return [
        queue("d1", quota=quota_1, weight=0),
        queue("d2", quota=quota_2, weight=0),
        [queue(name, parent=name[:2], quota=8, weight=0) for name in ("d1-a", "d1-b", "d2-a", "d2-b")],
    ]


def test_a_department_within_its_quota_takes_from_one_that_is_beyond_its_own() -> None:
    decisions = decided(
        node("n1", gpus=6),
        *departments(3, 3),
        running("x", 2, queue="d1-a"),
        running("y", 4, queue="d2-a"),
        job("new", queue="d1-b"),
        configuration=RECLAIM,
    )
    assert evictions(decisions) == {"y3-0": "new"}


def test_a_department_at_its_quota_takes_nothing_from_another_though_its_own_queue_is_far_below() -> None:
    decisions = decided(
        node("n1", gpus=6),
        *departments(3, 3),
        running("x", 3, queue="d1-a"),
        running("y", 3, queue="d2-a"),
        job("new", queue="d1-b"),
        configuration=RECLAIM,
    )
    assert evictions(decisions) == {}


def test_inside_a_department_the_queues_of_the_department_are_compared() -> None:
    """`d1` as a whole is far beyond its quota; what counts between its queues are their own."""
    decisions = decided(
        node("n1", gpus=4),
        [queue("d1", quota=1, weight=0), queue("d2", quota=3)],
        [queue("d1-a", parent="d1", quota=1, weight=0), queue("d1-b", parent="d1", quota=3, weight=0)],
        running("x", 4, queue="d1-a"),
        job("new", queue="d1-b"),
        configuration=RECLAIM,
    )
    assert evictions(decisions) == {"x3-0": "new"}


def test_queues_at_the_top_may_have_no_parent_at_all_while_others_have() -> None:
    decisions = decided(
        node("n1", gpus=4),
        [queue("top", quota=2), queue("d2", quota=2), queue("d2-a", parent="d2", quota=2)],
        running("x", 4, queue="d2-a"),
        job("new", queue="top"),
        configuration=RECLAIM,
    )
    assert evictions(decisions) == {"x3-0": "new"}


def test_three_levels_deep_it_is_the_top_that_parts_them() -> None:
    decisions = decided(
        node("n1", gpus=4),
        [queue("l", quota=2, weight=0), queue("r", quota=2, weight=0)],
        [queue("l-a", parent="l", quota=4, weight=0), queue("r-a", parent="r", quota=4, weight=0)],
        [queue("l-a-x", parent="l-a", quota=4, weight=0), queue("r-a-x", parent="r-a", quota=4, weight=0)],
        running("x", 4, queue="l-a-x"),
        [each for i in range(3) for each in job(f"new{i}", queue="r-a-x")],
        configuration=RECLAIM,
    )
    assert evictions(decisions) == {"x3-0": "new0", "x2-0": "new1"}, "the leaf's quota is 4, but that of `r` is 2"


def test_non_preemptible_work_takes_back_quota_only_and_that_at_every_level() -> None:
    def cluster(top: int) -> list[KubeObject | list[KubeObject]]:
        return [
            node("n1", gpus=6),
            [queue("d1", quota=top), queue("d2", quota=2), queue("d1-a", parent="d1", quota=3)],
            queue("d2-a", parent="d2", quota=2),
            running("y", 6, queue="d2-a"),
            [each for i in range(3) for each in job(f"new{i}", queue="d1-a", preemptibility="non-preemptible")],
        ]

    assert evictions(decided(*cluster(top=3), configuration=RECLAIM)) == {
        "y5-0": "new0",
        "y4-0": "new1",
        "y3-0": "new2",
    }
    assert evictions(decided(*cluster(top=2), configuration=RECLAIM)) == {"y5-0": "new0", "y4-0": "new1"}


def test_a_limit_above_is_not_exceeded_by_reclaiming() -> None:
    decisions = decided(
        node("n1", gpus=4),
        [queue("d1", quota=4, limit=1), queue("d1-a", parent="d1", quota=2), queue("d2", quota=0)],
        running("y", 4, queue="d2"),
        [each for i in range(2) for each in job(f"new{i}", queue="d1-a")],
        configuration=RECLAIM,
    )
    assert evictions(decisions) == {"y3-0": "new0"}
