"""A gang that runs below its minimum is marked, and goes when its grace is over."""

from collections.abc import Mapping
from typing import Any

import pytest

from bosket.api.object import KubeObject
from bosket.scheduler.model.decisions import Decisions
from bosket.testing.build import job, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, configured, decided, evictions

STALE = configured("allocate", "stalegangeviction")


def broken(minimum: int = 3, **group: Any) -> list[KubeObject | list[KubeObject]]:
    """A gang of which 2 pods run and nothing else is there."""
    return [node("n1"), queue("q"), job("g", 2, min_member=minimum, on="n1", **group)]


def stale_gangs(decisions: Decisions) -> list[tuple[str, float, bool]]:
    return [(each.job.key.name, each.since, each.is_due) for each in decisions.stale]


def test_a_gang_below_its_minimum_is_marked_at_once_and_stays_for_its_grace() -> None:
    decisions = decided(*broken(), configuration=STALE)
    assert stale_gangs(decisions) == [("g", NOW, False)]
    assert evictions(decisions) == {}
    assert decisions.look_again_at == NOW + 60


def test_the_mark_keeps_its_time_until_the_grace_is_over() -> None:
    decisions = decided(*broken(stale_since=NOW - 59), configuration=STALE)
    assert stale_gangs(decisions) == [("g", NOW - 59, False)]
    assert decisions.look_again_at == NOW + 1
    assert evictions(decisions) == {}


def test_then_all_that_runs_of_it_goes_for_nobody_else() -> None:
    decisions = decided(*broken(stale_since=NOW - 60), configuration=STALE)
    assert stale_gangs(decisions) == [("g", NOW - 60, True)]
    assert evictions(decisions) == {"g-0": "", "g-1": ""}
    assert {each.action for each in decisions.evictions} == {"stalegangeviction"}


@pytest.mark.parametrize(
    ("own", "default", "goes"),
    [
        ("10s", 60.0, True),
        ("2m", 60.0, False),
        (None, 20.0, True),
        (None, 40.0, False),
        ("0s", -1.0, True),
    ],
)
def test_a_gangs_own_grace_comes_before_the_default(own: str | None, default: float, goes: bool) -> None:
    decisions = decided(
        *broken(stale_since=NOW - 30, staleness_grace=own),
        configuration=configured("stalegangeviction", default_staleness_grace_seconds=default),
    )
    assert bool(evictions(decisions)) is goes


@pytest.mark.parametrize("group", [{"staleness_grace": "-1s"}, {}])
def test_a_negative_grace_is_for_ever(group: Mapping[str, Any]) -> None:
    decisions = decided(
        *broken(stale_since=NOW - 1e6, **group),
        configuration=configured("stalegangeviction", default_staleness_grace_seconds=-1.0),
    )
    assert stale_gangs(decisions) == [("g", NOW - 1e6, False)]
    assert evictions(decisions) == {}
    assert decisions.look_again_at == float("inf")


def test_no_grace_at_all_has_it_go_in_the_cycle_that_sees_it() -> None:
    assert len(evictions(decided(*broken(staleness_grace="0s"), configuration=STALE))) == 2


def test_non_preemptible_gangs_go_as_well() -> None:
    decisions = decided(*broken(stale_since=NOW - 60, preemptibility="non-preemptible"), configuration=STALE)
    assert len(evictions(decisions)) == 2


def test_pods_on_nodes_of_another_shard_go_with_the_rest() -> None:
    """n9 isn't ours: what leaves it makes no room here."""
    members = [pod("g-0").gpu(1).of_group("g").running_on("n1").build()]
    members += [pod("g-1").gpu(1).of_group("g").running_on("n9").build()]
    decisions = decided(
        [node("n1", gpus=1), node("n2", gpus=1)],
        queue("q", quota=2),
        pod_group("g", min_member=3, stale_since=NOW - 60),
        members,
        job("x", on="n2", preemptibility="non-preemptible"),
        job("new"),
        configuration=configured("stalegangeviction", "allocate"),
    )
    assert [(each.task.key.name, each.node) for each in decisions.evictions] == [("g-0", "n1"), ("g-1", "n9")]
    assert [(each.task.key.name, each.node) for each in decisions.pipelined] == [("new-0", "n1")]
    assert decisions.queue_allocated["q"][0] == 2, "x and new"
