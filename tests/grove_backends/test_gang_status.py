"""How a PodGang fares: phases, conditions and score, from pods, cliques and the scheduler's verdict."""

from __future__ import annotations

import msgspec
import pytest

from bosket.api.core import Pod, PodCondition, PodSpec
from bosket.api.grove import (
    PodClique,
    PodCliqueSpec,
    PodCliqueStatus,
    PodGang,
    PodGangStatus,
    TopologyConstraintGroupConfig,
)
from bosket.api.object import Condition, ObjectMeta
from bosket.api.time import format_time
from bosket.grove.backends import Verdict
from bosket.grove.backends.gang_status import Observation, condition, look_again_seconds, status_of
from bosket.grove.backends.placement_score import placement_score
from tests.grove_backends.scene import clique, clique_set, member, pack, part, pod_gang

NOW = 1_800_000_000.0
OWNER = clique_set("g", clique("a"))


def told(status: PodGangStatus, type_: str) -> tuple[str, str]:
    found = condition(status.conditions, type_)
    assert found is not None
    return found.status, found.reason


def after(gang: PodGang, status: PodGangStatus) -> PodGang:
    return msgspec.structs.replace(gang, status=status)


def pod_clique(name: str, breached: str, scheduled: str = "True") -> PodClique:
    created = NOW - 1000
    conditions = (
        Condition(
            type="MinAvailableBreached",
            status=breached,
            reason="InsufficientReadyPods",
            message="",
            lastTransitionTime=format_time(NOW - 10),
        ),
        Condition(
            type="PodCliqueScheduled",
            status=scheduled,
            reason="",
            message="",
            lastTransitionTime=format_time(created + 1),
        ),
    )
    return PodClique(
        metadata=ObjectMeta(name=name, creationTimestamp=format_time(created)),
        spec=PodCliqueSpec(roleName=name, replicas=1, podSpec=PodSpec()),
        status=PodCliqueStatus(conditions=conditions),
    )


@pytest.mark.parametrize(
    ("pods", "phase", "scheduled", "ready"),
    [
        ([], "Pending", "False", "False"),
        ([member("g", "a")], "Pending", "False", "False"),
        ([member("g", "a", node="n")], "Starting", "False", "False"),
        ([member("g", "a", node="n"), member("g", "a", 1, node="n", ready=True)], "Running", "True", "False"),
        ([member("g", "a", index, node="n", ready=True) for index in range(2)], "Running", "True", "True"),
        (
            [*(member("g", "a", index, node="n", ready=True) for index in range(2)), member("g", "a", 2)],
            "Starting",
            "True",
            "True",
        ),
    ],
)
def test_a_gang_is_what_the_minimum_of_its_pods_is(pods: list[Pod], phase: str, scheduled: str, ready: str) -> None:
    status = status_of(pod_gang("g", part("a", 2), owner=OWNER), Observation(pods=tuple(pods)), NOW)
    assert (status.phase, told(status, "Scheduled")[0], told(status, "Ready")[0]) == (phase, scheduled, ready)
    assert (status.placementScore is not None) == (scheduled == "True")


def test_pods_that_go_or_have_ended_dont_count() -> None:
    going = msgspec.structs.replace(
        member("g", "a", node="n"), metadata=msgspec.structs.replace(member("g", "a").metadata, deletionTimestamp="x")
    )
    status = status_of(pod_gang("g", part("a")), Observation(pods=(going,)), NOW)
    assert told(status, "Scheduled")[0] == "False"


def test_what_the_scheduler_says_is_the_reason_while_the_gang_waits() -> None:
    gang = pod_gang("g", part("a"), owner=OWNER)
    verdict = Verdict(reason="Unschedulable", message="no node has room")
    status = status_of(gang, Observation(verdict=verdict), NOW)
    assert told(status, "Scheduled") == ("False", "Unschedulable")
    runs = Observation(pods=(member("g", "a", node="n"),), verdict=verdict)
    assert told(status_of(gang, runs, NOW), "Scheduled") == ("True", "PodsScheduled")


def test_conditions_of_others_stay_and_times_dont_begin_anew() -> None:
    initialized = Condition(
        type="Initialized", status="True", reason="PodGangPodsCreated", message="", lastTransitionTime=format_time(NOW)
    )
    gang = after(pod_gang("g", part("a"), owner=OWNER), PodGangStatus(phase="Pending", conditions=(initialized,)))
    first = status_of(gang, Observation(), NOW)
    assert first.conditions[0] == initialized
    assert status_of(after(gang, first), Observation(), NOW + 60) == first


def test_a_gang_of_nobody_is_initialized_when_its_pods_exist() -> None:
    gang = pod_gang("g", part("a", 1, pods=2))
    assert told(status_of(gang, Observation(pods=(member("g", "a"),)), NOW), "Initialized") == (
        "False",
        "PodGangPodsCreationPending",
    )
    both = Observation(pods=(member("g", "a"), member("g", "a", 1)))
    assert told(status_of(gang, both, NOW), "Initialized") == ("True", "PodGangPodsCreated")


@pytest.mark.parametrize(
    ("breached", "scheduled", "expected"),
    [("True", "True", "True"), ("True", "False", "False"), ("Unknown", "True", "False")],
)
def test_a_clique_below_its_minimum_that_ran_makes_the_gang_unhealthy(
    breached: str, scheduled: str, expected: str
) -> None:
    gang = pod_gang("g", part("a"), owner=OWNER)
    seen = Observation(cliques={"a": pod_clique("a", breached, scheduled)}, termination_delay_seconds=3600)
    assert told(status_of(gang, seen, NOW), "Unhealthy")[0] == expected


def test_a_gang_that_is_unhealthy_for_too_long_is_a_target() -> None:
    gang = pod_gang("g", part("a"), owner=OWNER)
    seen = Observation(cliques={"a": pod_clique("a", "True")}, termination_delay_seconds=3600)
    first = status_of(gang, seen, NOW)
    assert told(first, "DisruptionTarget")[0] == "False"
    assert look_again_seconds(first, seen, NOW) == 3601
    later = status_of(after(gang, first), seen, NOW + 3601)
    assert told(later, "DisruptionTarget") == ("True", "TerminationDelayElapsed")
    assert look_again_seconds(later, seen, NOW + 3601) is None


def test_pods_that_the_scheduler_takes_make_the_gang_a_target_only_if_it_needs_them() -> None:
    taken = PodCondition(type="DisruptionTarget", status="True")
    pods = [member("g", "a", index, node="n") for index in range(2)]
    pods[0] = msgspec.structs.replace(pods[0], status=msgspec.structs.replace(pods[0].status, conditions=(taken,)))
    seen = Observation(pods=tuple(pods))
    assert told(status_of(pod_gang("g", part("a", 1)), seen, NOW), "DisruptionTarget")[0] == "False"
    assert told(status_of(pod_gang("g", part("a", 2)), seen, NOW), "DisruptionTarget") == ("True", "PodsDisrupted")
    said = Observation(verdict=Verdict(disruption="a: preempted"))
    assert told(status_of(pod_gang("g", part("a")), said, NOW), "DisruptionTarget") == ("True", "PreemptionByScheduler")


def test_a_gang_of_nobody_that_falls_below_its_minimum_is_unhealthy_until_it_is_whole() -> None:
    gang = pod_gang("g", part("a"))
    runs = Observation(pods=(member("g", "a", node="n"),))
    whole = after(gang, status_of(gang, runs, NOW))
    fallen = after(gang, status_of(whole, Observation(), NOW))
    assert told(fallen.status, "Unhealthy") == ("True", "BelowMinimum")
    assert told(status_of(fallen, Observation(), NOW), "Unhealthy")[0] == "True"
    assert told(status_of(fallen, runs, NOW), "Unhealthy")[0] == "False"


def test_the_score_is_the_part_of_pods_that_share_a_domain() -> None:
    nodes = {"n1": {"rack": "r1", "zone": "z"}, "n2": {"rack": "r2", "zone": "z"}}
    pods = [member("g", "a", 0, node="n1"), member("g", "a", 1, node="n2"), member("g", "b", 0, node="n1")]
    assert placement_score(pod_gang("g", part("a"), part("b")), pods, nodes) == 1.0
    assert placement_score(pod_gang("g", part("a"), part("b"), topologyConstraint=pack("zone")), pods, nodes) == 1.0
    gang = pod_gang("g", part("a"), part("b"), topologyConstraint=pack("zone", "rack"))
    assert placement_score(gang, pods, nodes) == 0.6667
    config = TopologyConstraintGroupConfig(name="c", podGroupNames=("a",), topologyConstraint=pack("rack"))
    both = pod_gang("g", part("a"), part("b", topology=pack("rack")), topologyConstraintGroupConfigs=(config,))
    assert placement_score(both, pods, nodes) == 0.75
