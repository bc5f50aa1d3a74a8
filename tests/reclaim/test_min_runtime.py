"""No job is reclaimed from before its minimum run time is over; whose word counts follows from the queue tree."""

from typing import Any

import pytest

from bosket.api.core.node import Node
from bosket.api.kai.queue import Queue
from bosket.api.object import KubeObject
from bosket.api.time import format_time
from bosket.scheduler.configuration.configuration import Configuration, ConfigurationError
from bosket.scheduler.decide import decide
from bosket.testing.build import job, node, queue
from bosket.testing.cluster import NOW, configured, decided, evictions, reasons, snapshot_of


def reclaiming(**arguments: str) -> Configuration:
    return configured("allocate", "reclaim", arguments={"minruntime": arguments})


def cluster(*queues: Queue, started: float | None = NOW - 60, **victim: Any) -> list[Node | list[KubeObject]]:
    """A job of `l-a-x` started a minute ago; one of `r-a` wants its place, and one of `l-b` if `r-a` isn't there."""
    names = {each.metadata.name for each in queues}
    return [
        node("n1", gpus=2),
        list(queues),
        job("victim", 2, on="n1", queue="l-a-x", started=started, **({"min_member": 2} | victim)),
        job("new", queue="r-a" if "r-a" in names else "l-b"),
    ]


def tree(**min_runtimes: str) -> list[Queue]:
    """Left: `l` over `l-a` over `l-a-x`, without quota. Right: `r` over `r-a`, with enough."""
    made = []
    for name in ("l", "l-a", "l-a-x", "r", "r-a"):
        mine: dict[str, Any] = {"reclaim_min_runtime": min_runtimes.get(name.replace("-", "_"))}
        quota = 2 if name.startswith("r") else 0
        made.append(queue(name, parent=name.rpartition("-")[0], quota=quota, weight=0, **mine))
    return made


def test_a_job_that_started_before_its_min_runtime_was_over_is_left_alone() -> None:
    decisions = decided(*cluster(*tree(l="2m")), configuration=reclaiming())
    assert evictions(decisions) == {}
    assert decisions.look_again_at == NOW + 60


def test_the_job_that_waits_for_it_is_told_until_when() -> None:
    decisions = decided(*cluster(*tree(l="2m")), configuration=reclaiming())
    told = reasons(decisions)["new"]
    assert "protected by the minimum run time of their queue" in told
    assert format_time(NOW + 60) in told


def test_a_job_that_could_not_be_served_even_without_protection_is_not_told_to_wait_for_its_end() -> None:
    """Its queue has no right to more, whoever runs for how long."""
    theirs = [each for each in tree(l="2m") if not each.metadata.name.startswith("r")]
    mine = [queue("r", quota=0, weight=0), queue("r-a", parent="r", quota=0, weight=0)]
    decisions = decided(*cluster(*theirs, *mine), configuration=reclaiming())
    assert evictions(decisions) == {}
    assert "minimum run time" not in reasons(decisions)["new"]


def test_afterwards_it_may_go() -> None:
    decisions = decided(*cluster(*tree(l="1m")), configuration=reclaiming())
    assert set(evictions(decisions)) == {"victim-0", "victim-1"}


def test_a_job_whose_start_nobody_noted_has_no_protection() -> None:
    decisions = decided(*cluster(*tree(l="2m"), started=None), configuration=reclaiming())
    assert len(evictions(decisions)) == 2


def test_between_departments_the_word_of_the_department_counts_not_that_of_the_queue() -> None:
    """The queue asks for an hour, its department for half a minute; the other one is of another department."""
    decisions = decided(*cluster(*tree(l="30s", l_a_x="1h")), configuration=reclaiming())
    assert len(evictions(decisions)) == 2


def test_a_department_that_says_nothing_leaves_it_to_the_default() -> None:
    for default, evicted in (("2m", 0), ("30s", 2)):
        decisions = decided(*cluster(*tree(l_a_x="1h")), configuration=reclaiming(defaultReclaimMinRuntime=default))
        assert len(evictions(decisions)) == evicted


def test_inside_a_department_the_queue_right_below_it_counts() -> None:
    """`l-a-x` and `l-b` part below `l`: what `l-a` says counts, not what `l-a-x` says."""

    def evicted(**said: str) -> int:
        queues = [each for each in tree(**said) if not each.metadata.name.startswith("r")]
        return len(evictions(decided(*cluster(*queues, queue("l-b", parent="l", quota=2)), configuration=reclaiming())))

    assert evicted(l_a="2m") == 0
    assert evicted(l_a="30s", l_a_x="1h") == 2
    assert evicted(l="2m") == 0, "the nearest above that says something, where it says nothing itself"


def test_with_the_method_queue_the_victims_own_queue_counts() -> None:
    by_queue = {"reclaimResolveMethod": "queue"}
    for said, evicted in (({"l": "30s", "l_a_x": "1h"}, 0), ({"l_a": "2m"}, 0), ({"l": "1h", "l_a_x": "30s"}, 2)):
        decisions = decided(*cluster(*tree(**said)), configuration=reclaiming(**by_queue))
        assert len(evictions(decisions)) == evicted


def test_a_day_is_a_duration_too() -> None:
    decisions = decided(*cluster(*tree()), configuration=reclaiming(defaultReclaimMinRuntime="1d"))
    assert evictions(decisions) == {}
    assert decisions.look_again_at == NOW - 60 + 24 * 3600


def test_extras_of_an_elastic_job_are_not_protected_its_gang_is() -> None:
    decisions = decided(*cluster(*tree(l="2m"), min_member=1), configuration=reclaiming())
    assert evictions(decisions) == {"victim-1": "new"}
    larger = [*cluster(*tree(l="2m"), min_member=1)[:3], job("new", 2, queue="r-a")]
    assert evictions(decided(*larger, configuration=reclaiming())) == {}


def test_what_does_not_run_long_enough_inside_a_queue_says_nothing_about_other_queues() -> None:
    queues = [queue("l", quota=0, weight=0), queue("l-a", parent="l", quota=0, weight=0)]
    queues += [queue("l-a-x", parent="l-a", quota=0, weight=0, preempt_min_runtime="1h")]
    queues += [queue("r", quota=2), queue("r-a", parent="r", quota=2)]
    assert len(evictions(decided(*cluster(*queues), configuration=reclaiming()))) == 2


def test_a_method_that_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="reclaimResolveMethod is 'nearest', it must be one of lca, queue"):
        decide(snapshot_of(), reclaiming(reclaimResolveMethod="nearest"))
