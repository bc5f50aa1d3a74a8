"""A job may ask not to have others evicted for it so soon."""

from collections.abc import Mapping
from typing import Any

import pytest

from bosket.scheduler.model.decisions import Decisions
from bosket.testing.build import job, node, priority_class, queue
from bosket.testing.cluster import NOW, configured, decided, evictions, placements, reasons

CLASSES = [priority_class("low", 10), priority_class("high", 90)]


def waiting(action: str, free: int = 0, **group: Any) -> Decisions:
    """Two small jobs in the way of one that wants 2 GPUs, in whichever way the action needs it."""
    where = "mine" if action == "preempt" else "theirs"
    return decided(
        [node("n1", gpus=2), node("n2", gpus=2 if action == "consolidation" else 1), node("n3", gpus=free)],
        [queue("mine", quota=4), queue("theirs", quota=0, weight=0)],
        CLASSES,
        [*job("old1", on="n1", queue=where, priority="low"), *job("old2", on="n2", queue=where, priority="low")],
        job("new", gpus=2, queue="mine", priority="high", **group),
        configuration=configured("allocate", action),
    )


@pytest.mark.parametrize("action", ["reclaim", "preempt", "consolidation"])
@pytest.mark.parametrize(
    ("group", "goes"),
    [
        ({"preemption_delay": "5m", "created": NOW - 299}, False),
        ({"preemption_delay": "5m", "created": NOW - 300}, True),
        ({"preemption_delay": "5m", "created": NOW - 1e6, "evicted": NOW - 60}, False),
        ({"preemption_delay": "5m", "created": NOW - 1e6, "evicted": NOW - 300}, True),
        ({"preemption_delay": "0s", "created": NOW}, True),
        ({"created": NOW}, True),
    ],
)
def test_others_are_evicted_for_it_only_after_its_delay(action: str, group: Mapping[str, Any], goes: bool) -> None:
    decisions = waiting(action, **group)
    assert bool(evictions(decisions)) is goes


def test_it_is_told_until_when_it_has_to_wait() -> None:
    decisions = waiting("reclaim", preemption_delay="5m", created=NOW - 60)
    assert decisions.look_again_at == NOW + 240
    assert "within its preemption delay window (5m)" in reasons(decisions)["new"]
    (told,) = [each for each in decisions.waiting if each.job.key.name == "new"]
    assert "PreemptionDelayNotElapsed" in [reason.code for reason in told.reasons]


def test_a_delay_is_no_obstacle_where_there_is_room() -> None:
    decisions = waiting("reclaim", free=2, preemption_delay="5m", created=NOW)
    assert placements(decisions) == {"new-0": "n3"}


@pytest.mark.parametrize(("delay", "goes"), [("5m", False), (None, True)])
def test_a_job_that_is_evicted_in_this_very_cycle_waits_from_now_on(delay: str | None, goes: bool) -> None:
    """`high` loses an extra to `new`; another extra, which waits, must not take the place of `low` right away.

    Its minimum run time keeps `low` from being taken by `new`.
    """
    decisions = decided(
        node("n1", gpus=3),
        [queue("theirs", quota=1, weight=0, reclaim_min_runtime="1h"), queue("mine", quota=1)],
        CLASSES,
        job("low", on="n1", queue="theirs", priority="low", started=NOW),
        job("high", 3, min_member=1, on=["n1"] * 2, queue="theirs", priority="high", preemption_delay=delay),
        job("new", queue="mine"),
        configuration=configured("allocate", "reclaim", "preempt"),
    )
    assert evictions(decisions)["high-1"] == "new"
    assert ("low-0" in evictions(decisions)) is goes
    if not goes:
        assert decisions.look_again_at == NOW + 300
