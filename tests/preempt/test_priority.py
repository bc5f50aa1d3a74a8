"""Inside a queue, a job takes the place of others of strictly lower priority."""

import pytest

from bosket.testing.build import cordoned, job, node, pod, pod_group, priority_class, queue
from bosket.testing.cluster import configured, decided, evictions, pipelines, placements

PREEMPT = configured("allocate", "preempt")
CLASSES = [priority_class(name, value) for name, value in (("low", 10), ("mid", 50), ("high", 90), ("build", 100))]


def test_a_job_of_higher_priority_takes_the_place_of_one_of_lower() -> None:
    decisions = decided(
        node("n1", gpus=1),
        queue("q"),
        CLASSES,
        job("old", on="n1", priority="low"),
        job("new", priority="mid"),
        configuration=PREEMPT,
    )
    assert evictions(decisions) == {"old-0": "new"}
    assert pipelines(decisions) == {"new-0": "n1"}
    assert placements(decisions) == {}
    assert [each.action for each in decisions.evictions] == ["preempt"]


@pytest.mark.parametrize(("running", "pending"), [("mid", "mid"), ("high", "mid"), ("build", "build")])
def test_one_of_equal_or_higher_priority_stays(running: str, pending: str) -> None:
    decisions = decided(
        node("n1", gpus=1),
        queue("q"),
        CLASSES,
        job("old", on="n1", priority=running),
        job("new", priority=pending),
        configuration=PREEMPT,
    )
    assert evictions(decisions) == {}


def test_one_of_lower_priority_in_another_queue_stays() -> None:
    decisions = decided(
        node("n1", gpus=1),
        [queue("q"), queue("other", quota=0)],
        CLASSES,
        job("old", on="n1", priority="low", queue="other"),
        job("new", priority="high"),
        configuration=PREEMPT,
    )
    assert evictions(decisions) == {}


def test_a_non_preemptible_job_stays_whatever_its_priority() -> None:
    decisions = decided(
        node("n1", gpus=1),
        queue("q"),
        CLASSES,
        job("old", on="n1", priority="low", preemptibility="non-preemptible"),
        job("new", priority="build"),
        configuration=PREEMPT,
    )
    assert evictions(decisions) == {}


def test_of_several_the_lowest_priority_goes_and_of_these_the_youngest() -> None:
    decisions = decided(
        node("n1", gpus=3),
        queue("q"),
        CLASSES,
        job("low-old", on="n1", priority="low"),
        job("low-young", on="n1", priority="low"),
        job("mid", on="n1", priority="mid"),
        job("new", priority="high"),
        configuration=PREEMPT,
    )
    assert evictions(decisions) == {"low-young-0": "new"}


def test_no_more_go_than_it_takes() -> None:
    decisions = decided(
        node("n1", gpus=4),
        queue("q"),
        CLASSES,
        [each for i in range(4) for each in job(f"low{i}", on="n1", priority="low")],
        job("new", 2, priority="high"),
        configuration=PREEMPT,
    )
    assert evictions(decisions) == {"low3-0": "new", "low2-0": "new"}


def test_a_gang_takes_nothing_when_it_cannot_have_all_it_needs() -> None:
    decisions = decided(
        node("n1", gpus=3),
        queue("q"),
        CLASSES,
        [each for i in range(2) for each in job(f"low{i}", on="n1", priority="low")],
        job("high", on="n1", priority="high"),
        job("new", 3, priority="high"),
        configuration=PREEMPT,
    )
    assert evictions(decisions) == {}


def test_fair_shares_play_no_part_inside_a_queue() -> None:
    """The queue holds all of a cluster of which it may have nothing."""
    decisions = decided(
        node("n1", gpus=1),
        [queue("q", quota=0, weight=0), queue("owner", quota=1)],
        CLASSES,
        job("old", on="n1", priority="low"),
        job("new", priority="high"),
        configuration=PREEMPT,
    )
    assert evictions(decisions) == {"old-0": "new"}


def test_a_limit_that_victims_leave_room_below_is_no_obstacle() -> None:
    decisions = decided(
        node("n1", gpus=4),
        queue("q", limit=1),
        CLASSES,
        job("old", on="n1", priority="low"),
        job("new", priority="high"),
        configuration=PREEMPT,
    )
    assert evictions(decisions) == {"old-0": "new"}, "there is room on the node, but not in the queue"


def test_a_victim_that_finds_another_place_is_moved() -> None:
    """Only on n1 is there room for 2, once the small job is gone from there; it fits onto n2."""
    decisions = decided(
        [node("n1", gpus=2), node("n2", gpus=1)],
        queue("q"),
        CLASSES,
        job("small", on="n1", priority="low"),
        job("new", gpus=2, priority="high"),
        configuration=PREEMPT,
    )
    assert evictions(decisions) == {"small-0": "new"}
    assert pipelines(decisions) == {"new-0": "n1", "small-0": "n2"}


def test_a_job_that_grows_takes_the_place_of_extras_of_lower_priority() -> None:
    decisions = decided(
        node("n1", gpus=4),
        queue("q"),
        CLASSES,
        job("low", 3, min_member=1, on="n1", priority="low"),
        job("high", 2, min_member=1, on=["n1"], priority="high"),
        configuration=PREEMPT,
    )
    assert evictions(decisions) == {"low-2": "high"}
    assert pipelines(decisions) == {"high-1": "n1"}


def test_a_job_never_evicts_its_own_pods() -> None:
    decisions = decided(
        node("n1", gpus=1),
        queue("q"),
        CLASSES,
        job("high", 2, min_member=1, on=["n1"], priority="high"),
        configuration=PREEMPT,
    )
    assert evictions(decisions) == {}


def test_nobody_is_evicted_for_room_beside_one_who_is_only_promised_a_shared_gpu() -> None:
    """`first` gets the GPU of n0; `second` would fit beside it, and whoever runs on n1 is no help to anybody."""
    sharing = [
        each
        for name in ("first", "second")
        for each in (pod_group(name, priority="build"), pod(f"{name}-0").shares_gpu(0.5).of_group(name).build())
    ]
    decisions = decided(
        [node("n0", gpus=1), cordoned(node("n1", gpus=1))],
        queue("q"),
        CLASSES,
        job("elsewhere", priority="low", on="n1"),
        job("low", priority="low", on="n0"),
        sharing,
        configuration=PREEMPT,
    )
    assert evictions(decisions) == {"low-0": "first"}
