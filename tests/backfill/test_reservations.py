"""Nodes are held for large gangs that have waited for long; smaller jobs pass only if they aren't in the way."""

from __future__ import annotations

import pytest

from bosket.scheduler.configuration.configuration import ConfigurationError, PluginChoice
from bosket.scheduler.decide import decide
from bosket.scheduler.framework.plugin import make_plugin
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.proposal import split
from bosket.scheduler.plugins import BUILT_IN
from bosket.scheduler.recent_failures import RecentFailures
from bosket.testing.build import node, pod, priority_class, queue, topology, within
from bosket.testing.cluster import NOW, configured, decided, evictions, pipelines, placements, state_of
from tests.backfill.scene import HOUR, backfilling, timed

NODES = [node("n1"), node("n2"), queue("q")]
#: One of two nodes is free, the other one for 5 hours more in use: the gang needs both.
SCENE = [*NODES, *timed("busy", hours=10, ran=5, on="n1"), *timed("large", 2, hours=1, waited=3)]


def starts(decisions: Decisions) -> dict[str, float]:
    """Hours from now to the start of each reservation."""
    return {each.job.name: (each.start - NOW) / HOUR for each in decisions.reservations or ()}


def test_a_gang_has_its_nodes_from_when_the_last_job_there_ends() -> None:
    decisions = decided(*SCENE, configuration=backfilling())
    assert starts(decisions) == {"large": 5}
    assert [each.node for each in (decisions.reservations or ())[0].nodes] == ["n1", "n2"]


def test_without_the_plugin_nothing_is_held() -> None:
    decisions = decided(*SCENE, *timed("long", hours=6), configuration=configured("allocate"))
    assert decisions.reservations is None
    assert placements(decisions) == {"long-0": "n2"}


def test_a_job_that_ends_in_time_passes() -> None:
    decisions = decided(*SCENE, *timed("short", hours=5), configuration=backfilling())
    assert placements(decisions) == {"short-0": "n2"}


def test_a_job_that_would_end_too_late_waits_and_is_told_for_whom() -> None:
    decisions = decided(*SCENE, *timed("long", hours=5.1), configuration=backfilling())
    assert placements(decisions) == {}
    (text,) = [each.text for each in decisions.waiting if each.job.key.name == "long"]
    assert "held for job default/large from 2025-06-15T20:06:40Z" in text


def test_a_job_without_a_run_time_waits() -> None:
    assert placements(decided(*SCENE, *timed("unknown"), configuration=backfilling())) == {}


def test_a_deadline_of_the_pods_is_a_run_time() -> None:
    limited = pod("limited-0").gpu(8).of_group("limited").with_spec(activeDeadlineSeconds=60).build()
    decisions = decided(*SCENE, *timed("limited", 0), limited, configuration=backfilling())
    assert placements(decisions) == {"limited-0": "n2"}


def test_nodes_that_the_gang_does_not_need_are_for_everybody() -> None:
    decisions = decided(*SCENE, node("n3"), *timed("unknown"), configuration=backfilling())
    assert set(placements(decisions)) == {"large-0", "large-1"}
    busier = timed("busier", hours=50, ran=5, on="n3")
    decisions = decided(*SCENE, node("n3"), node("n4"), *busier, *timed("three", 3, hours=1, waited=4),
                        *timed("unknown"), configuration=backfilling())  # fmt: skip
    assert placements(decisions) == {"large-0": "n2", "large-1": "n4"}


def test_jobs_alike_but_for_their_run_times_are_told_apart() -> None:
    decisions = decided(*SCENE, *timed("long", hours=9), *timed("short", hours=1), configuration=backfilling())
    assert placements(decisions) == {"short-0": "n2"}


def test_a_gang_that_is_small_or_has_not_waited_long_enough_holds_nothing() -> None:
    long = timed("long", hours=9)
    assert placements(decided(*SCENE, *long, configuration=backfilling(large=17))) == {"long-0": "n2"}
    decisions = decided(*SCENE, *long, configuration=backfilling(after="4h"))
    assert placements(decisions) == {"long-0": "n2"}
    assert decisions.look_again_at == NOW + HOUR


def test_where_nobody_knows_when_a_job_ends_nothing_is_held() -> None:
    scene = [*NODES, *timed("busy", ran=5, on="n1"), *timed("large", 2, waited=3), *timed("long", hours=9)]
    decisions = decided(*scene, configuration=backfilling())
    assert starts(decisions) == {}
    assert placements(decisions) == {"long-0": "n2"}


def test_no_more_gangs_hold_nodes_than_the_arguments_say() -> None:
    others = [each for number in range(3) for each in timed(f"other{number}", 2, hours=1, waited=2)]
    assert starts(decided(*SCENE, *others, configuration=backfilling(most=2))) == {"large": 5, "other0": 6}


def test_a_reservation_stays_and_its_gang_starts_in_time() -> None:
    state = state_of(SCENE)
    first = decide(state.snapshot(NOW), backfilling())
    state.remember(first, NOW)
    again = state.snapshot(NOW + HOUR)
    assert again.reservations == first.reservations
    assert decide(again, backfilling()).reservations == first.reservations


def test_a_job_that_ends_early_moves_the_start_forward() -> None:
    state = state_of([*SCENE, node("n3"), *timed("busier", hours=9, ran=5, on="n3")])
    state.remember(decide(state.snapshot(NOW), backfilling()), NOW)
    for each in timed("busier", hours=9, ran=5, on="n3"):
        state.drop(each)
    assert placements(decide(state.snapshot(NOW + 60), backfilling())) == {"large-0": "n2", "large-1": "n3"}


def test_a_job_with_a_higher_priority_does_not_wait_for_the_gang() -> None:
    urgent = timed("urgent", hours=9, priority="high")
    decisions = decided(*SCENE, priority_class("high", 75), *urgent, configuration=backfilling())
    assert placements(decisions) == {"urgent-0": "n2"}


def test_a_queue_below_its_quota_does_not_wait_for_the_gang() -> None:
    theirs = timed("theirs", hours=9, queue="other")
    for quota, placed in ((8, {"theirs-0": "n2"}), (0, {})):
        decisions = decided(*SCENE, queue("other", quota=quota, weight=0), *theirs, configuration=backfilling())
        assert placements(decisions) == placed


def test_a_gang_over_its_queues_limit_holds_nothing() -> None:
    scene = [node("n1"), node("n2"), queue("q", limit=15), queue("other"), *timed("busy", hours=10, ran=5, on="n1"),
             *timed("large", 2, hours=1, waited=3), *timed("long", hours=9, queue="other")]  # fmt: skip
    decisions = decided(*scene, configuration=backfilling())
    assert placements(decisions) == {"long-0": "n2"}


def test_a_gang_in_one_rack_waits_for_that_rack_alone() -> None:
    racks = [node(f"n{number}", rack=f"r{number // 2}") for number in range(4)]
    busy = [*timed("a", hours=9, ran=5, on="n0"), *timed("b", hours=9, ran=6, on="n2")]
    large = timed("large", 2, hours=1, waited=3, topology=within("net", required="rack"))
    decisions = decided(*racks, queue("q"), topology("net", "rack"), *busy, *large, *timed("long", hours=20),
                        configuration=backfilling())  # fmt: skip
    assert starts(decisions) == {"large": 3}
    assert [each.node for each in (decisions.reservations or ())[0].nodes] == ["n2", "n3"]
    assert placements(decisions) == {"long-0": "n1"}


def test_part_of_a_node_is_held_and_the_rest_is_for_everybody() -> None:
    scene = [node("n1", gpus=16), queue("q"), *timed("busy", hours=2, ran=1, gpus=10, on="n1"),
             *timed("large", hours=1, waited=3, gpus=12)]  # fmt: skip
    long = [each for number in range(2) for each in timed(f"long{number}", hours=9, gpus=3)]
    assert placements(decided(*scene, *long, configuration=backfilling(large=12))) == {"long0-0": "n1"}


def test_a_gang_with_a_reservation_is_looked_at_in_every_cycle() -> None:
    state, failures = state_of([*SCENE, *timed("long", hours=9)]), RecentFailures()
    snapshot = state.snapshot(NOW)
    failures.note(snapshot, snapshot, decide(snapshot, backfilling()))
    for each in timed("later", hours=9):
        state.put(each)
    part = failures.without(state.snapshot(NOW + 0.5))
    assert [job.key.name for job in part.unsettled] == ["large", "later"]


def test_a_search_beside_the_loop_changes_no_reservation() -> None:
    snapshot = state_of(SCENE).snapshot(NOW)
    assert split(decide(snapshot, backfilling()), snapshot, snapshot).current.reservations is None


EVICTING = backfilling(preemptible="evict")


def test_a_preemptible_job_passes_and_goes_when_the_gang_is_to_start() -> None:
    state = state_of([*SCENE, *timed("unknown")])
    decisions = decide(state.snapshot(NOW), EVICTING)
    assert placements(decisions) == {"unknown-0": "n2"}
    state.remember(decisions, NOW)
    for each in [*timed("busy", hours=10, ran=5, on="n1"), *timed("unknown")]:
        state.drop(each)
    for each in timed("unknown", ran=-0.001, on="n2"):
        state.put(each)
    start = NOW + 5 * HOUR
    decisions = decide(state.snapshot(start), EVICTING)
    assert evictions(decisions) == {"unknown-0": "large"}
    assert pipelines(decisions) == {"large-0": "n1", "large-1": "n2"}
    assert "Backfill: the node is held for a gang from 2025-06-15T20:06:40Z" in decisions.evictions[0].text


def test_a_job_that_may_not_be_evicted_does_not_pass() -> None:
    decisions = decided(*SCENE, *timed("fixed", preemptibility="non-preemptible"), configuration=EVICTING)
    assert placements(decisions) == {}


def test_nobody_passes_to_be_evicted_at_once() -> None:
    scene = [*NODES, *timed("busy", hours=10, ran=9.9, on="n1"), *timed("large", 2, hours=1, waited=3)]
    assert placements(decided(*scene, *timed("unknown"), configuration=EVICTING)) == {}


def test_who_was_there_before_the_reservation_is_not_evicted_for_it() -> None:
    state = state_of(SCENE)
    state.remember(decide(state.snapshot(NOW), EVICTING), NOW)
    assert evictions(decide(state.snapshot(NOW + 6 * HOUR), EVICTING)) == {}


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("largeGPUs", "many", "plugin backfill: largeGPUs is 'many', it must be a number of 1 or more"),
        ("preemptible", "go", "plugin backfill: preemptible is 'go', it must be one of wait, evict"),
        ("after", "soon", "plugin backfill: after: 'soon' is not a duration"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(name: str, value: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        make_plugin(PluginChoice("backfill", {name: value}), BUILT_IN)
