"""Inside a queue, what it says about run times counts, or the nearest queue above it that says something."""

from collections.abc import Mapping

from bosket.api.kai.queue import Queue
from bosket.testing.build import job, node, priority_class, queue
from bosket.testing.cluster import NOW, configured, decided, evictions

CLASSES = [priority_class("low", 10), priority_class("high", 90)]


def evicted(
    *queues: Queue, arguments: Mapping[str, str] | None = None, size: int = 1, min_member: int = 1, wanted: int = 1
) -> set[str]:
    """What goes of a job that started a minute ago."""
    return set(
        evictions(
            decided(
                node("n1", gpus=size),
                list(queues),
                CLASSES,
                job("old", size, min_member=min_member, on="n1", priority="low", started=NOW - 60),
                job("new", wanted, priority="high"),
                configuration=configured("allocate", "preempt", arguments={"minruntime": arguments or {}}),
            )
        )
    )


def test_a_job_is_left_alone_until_its_min_runtime_is_over() -> None:
    assert evicted(queue("q", preempt_min_runtime="2m")) == set()
    assert evicted(queue("q", preempt_min_runtime="1m")) == {"old-0"}
    assert evicted(queue("q")) == {"old-0"}


def test_the_nearest_queue_above_that_says_something_counts() -> None:
    def with_tops(**tops: str) -> list[Queue]:
        return [
            queue("top", preempt_min_runtime=tops.get("top")),
            queue("mid", parent="top", preempt_min_runtime=tops.get("mid")),
            queue("q", parent="mid"),
        ]

    assert evicted(*with_tops(mid="2m", top="10s")) == set()
    assert evicted(*with_tops(mid="10s", top="2m")) == {"old-0"}
    assert evicted(*with_tops(top="2m")) == set()


def test_the_default_is_for_queues_that_say_nothing() -> None:
    default = {"defaultPreemptMinRuntime": "2m"}
    assert evicted(queue("q"), arguments=default) == set()
    assert evicted(queue("q", preempt_min_runtime="0s"), arguments=default) == {"old-0"}


def test_what_is_said_about_other_queues_does_not_count() -> None:
    assert evicted(queue("q", reclaim_min_runtime="1h")) == {"old-0"}
    assert evicted(queue("q"), arguments={"defaultReclaimMinRuntime": "1h"}) == {"old-0"}


def test_extras_may_go_at_any_time() -> None:
    protected = queue("q", preempt_min_runtime="2m")
    assert evicted(protected, size=3, wanted=2) == {"old-2", "old-1"}
    assert evicted(protected, size=3, wanted=3) == set()
    assert evicted(protected, size=3, min_member=3) == set()
