"""Who goes first: of the queue that has the most to give, its least important job."""

from collections.abc import Callable
from typing import Any

import pytest

from bosket.testing.build import job, node, pod, pod_group, priority_class, queue
from bosket.testing.cluster import Objects, configured, decided, evictions

RECLAIM = configured("allocate", "reclaim")


def first_victim(*objects: Objects, wanted: int = 1) -> set[str]:
    decisions = decided(
        queue("mine", quota=100), *objects, job("new", gpus=wanted, queue="mine"), configuration=RECLAIM
    )
    return set(evictions(decisions))


def test_the_queue_that_is_furthest_beyond_its_share_gives_first() -> None:
    """Both hold 3 GPUs; one may have 1 of them, the other 2."""
    queues = [queue("one", quota=1, weight=0), queue("two", quota=2, weight=0)]
    held = [each for name in ("one", "two") for i in range(3) for each in job(f"{name}{i}", on="n1", queue=name)]
    assert first_victim(node("n1", gpus=6), queues, held) == {"one2-0"}


def test_what_was_taken_from_a_queue_counts_when_it_is_asked_again() -> None:
    """`one` holds 4 of 2, `two` 4 of 3: two thirds of the first pair come from `one`, then they are even."""
    queues = [queue("one", quota=2, weight=0), queue("two", quota=3, weight=0)]
    held = [each for name in ("one", "two") for i in range(4) for each in job(f"{name}{i}", on="n1", queue=name)]
    assert first_victim(node("n1", gpus=8), queues, held, wanted=2) == {"one3-0", "one2-0"}
    assert first_victim(node("n1", gpus=8), queues, held, wanted=3) == {"one3-0", "one2-0", "two3-0"}


def test_a_queue_of_lower_priority_gives_before_one_of_higher() -> None:
    queues = [queue("high", quota=0, weight=0, priority=200), queue("low", quota=0, weight=0, priority=50)]
    held = [each for name in ("low", "high") for each in job(name, on="n1", queue=name)]
    assert first_victim(node("n1", gpus=2), queues, held) == {"low-0"}


@pytest.mark.parametrize("shuffle", [lambda jobs: jobs, lambda jobs: jobs[::-1]])
def test_of_a_queue_the_lowest_priority_goes_then_the_youngest(shuffle: Callable[..., Any]) -> None:
    classes = [priority_class("low", 10), priority_class("high", 60)]
    jobs = [
        job("high", on="n1", queue="theirs", priority="high"),
        job("old", on="n1", queue="theirs", priority="low"),
        job("young", on="n1", queue="theirs", priority="low"),
        job("higher", on="n1", queue="theirs", priority="high"),
    ]
    objects: list[Objects] = [node("n1", gpus=4), queue("theirs", quota=0, weight=0), classes, *shuffle(jobs)]
    assert first_victim(*objects) == {"young-0"}
    assert first_victim(*objects, wanted=2) == {"young-0", "old-0"}
    assert first_victim(*objects, wanted=3) == {"young-0", "old-0", "higher-0"}


def test_a_job_with_extras_goes_before_one_without_whatever_their_age() -> None:
    held = [job("elastic", 2, min_member=1, on="n1", queue="theirs"), job("younger", on="n1", queue="theirs")]
    objects: list[Objects] = [node("n1", gpus=3), queue("theirs", quota=0, weight=0), *held]
    assert first_victim(*objects) == {"elastic-1"}
    assert first_victim(*objects, wanted=2) == {"elastic-1", "younger-0"}, "at its minimum it is the older one"


def test_of_equally_old_jobs_the_larger_name_goes() -> None:
    held = [job(name, on="n1", queue="theirs", created=1.6e9) for name in ("b", "a", "c")]
    assert first_victim(node("n1", gpus=3), queue("theirs", quota=0, weight=0), *held) == {"c-0"}


def test_a_job_that_has_given_its_extras_has_its_turn_by_its_age_when_the_next_one_asks() -> None:
    held = [job("elastic", 2, min_member=1, on="n1", queue="theirs"), job("younger", on="n1", queue="theirs")]
    decisions = decided(
        node("n1", gpus=3),
        [queue("mine", quota=100), queue("theirs", quota=0, weight=0)],
        *held,
        [each for i in range(2) for each in job(f"new{i}", queue="mine")],
        configuration=RECLAIM,
    )
    assert evictions(decisions) == {"elastic-1": "new0", "younger-0": "new1"}


def test_a_queue_that_has_given_gives_way_to_one_that_then_has_more() -> None:
    """`one` holds 4 and `two` 3: it gives two, then `two` has more."""
    queues = [queue(name, quota=0, weight=0) for name in ("one", "two")]
    held = [
        each
        for name, n in (("one", 4), ("two", 3))
        for i in range(n)
        for each in job(f"{name}{i}", on="n1", queue=name)
    ]
    assert first_victim(node("n1", gpus=7), queues, held, wanted=3) == {"one3-0", "one2-0", "two2-0"}


def test_a_queue_that_seems_to_hold_less_than_nothing_is_equal_to_one_that_holds_nothing() -> None:
    """A job that goes pod by pod is taken off with all that is left of it at each step; what it holds then decides."""
    queues = [queue("one", quota=1, weight=0), queue("two", quota=1, weight=0)]
    extras = [pod(f"e{i}").gpu(1).cpu("1").memory("1Gi").of_group("elastic").running_on("n1") for i in range(5)]
    single = pod("single").gpu(2).cpu("1").memory("1Gi").of_group("single").running_on("n1")
    held = [
        pod_group("elastic", min_member=1, queue="one"),
        pod_group("single", queue="two"),
        *[each.build() for each in (*extras, single)],
    ]
    assert first_victim(node("n1", gpus=7), queues, held, wanted=2) == {"e4", "e3"}


@pytest.mark.parametrize(("shares", "second"), [("memory", "one2-0"), ("portion", "two11-0")])
def test_victims_that_ask_for_memory_of_a_gpu_count_as_none_as_in_kai(shares: str, second: str) -> None:
    """Without half a GPU `one` would have 1.0 of its share left after the next, and with it 1.25; `two` has 1.1."""
    half = pod("half").in_gpu_groups("g").of_group("half").running_on("n1")
    half = half.gpu_memory(5000) if shares == "memory" else half.shares_gpu(0.5)
    held = [each for i in range(3) for each in job(f"one{i}", on="n1", queue="one")]
    held += [each for i in range(12) for each in job(f"two{i}", on="n1", queue="two")]
    queues = [queue("one", quota=2, weight=0), queue("two", quota=10, weight=0)]
    groups = [priority_class("low", 10), pod_group("half", queue="one", priority="low"), half.build()]
    assert first_victim(node("n1", gpus=16, gpu_memory=10000), queues, held, groups, wanted=2) == {"half", second}
