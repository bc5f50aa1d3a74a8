"""Pods that must be spread evenly over zones, racks or hosts."""

from collections.abc import Mapping, Sequence

import pytest

from bosket.api.core.affinity import TopologySpreadConstraint
from bosket.api.core.pod import Pod
from bosket.api.object import KubeObject, LabelSelector
from bosket.scheduler.model.decisions import Decisions
from bosket.testing.build import PodBuilder, node, pod, pod_group, queue, tainted
from bosket.testing.cluster import NOW, decided, placements, reasons
from tests.scheduler.affinity import HOST, spread

ZONES = [node("a1", zone="a"), node("a2", zone="a"), node("b1", zone="b")]


def web(name: str = "g-0") -> PodBuilder:
    return pod(name).cpu("1").label("app", "web")


def running(*nodes: str) -> list[Pod]:
    return [web(f"r{number}").running_on(name).build() for number, name in enumerate(nodes)]


def one(*objects: KubeObject | Sequence[KubeObject]) -> Decisions:
    return decided(queue("q"), pod_group("g"), *objects)


def member(*constraints: TopologySpreadConstraint, name: str = "g-0") -> Pod:
    return web(name).of_group("g").with_spec(topologySpreadConstraints=constraints).build()


def test_a_gang_is_spread_evenly_over_zones() -> None:
    members = [member(spread("zone", app="web"), name=f"g-{i}") for i in range(4)]
    decisions = decided(queue("q"), pod_group("g", min_member=4), ZONES, members)
    zones = sorted(node[0] for node in placements(decisions).values())
    assert zones == ["a", "a", "b", "b"]


def test_what_is_placed_in_a_zone_counts_for_all_its_nodes() -> None:
    members = [member(spread("zone", app="web"), name=f"g-{i}") for i in range(2)]
    decisions = decided(queue("q"), pod_group("g", min_member=2), ZONES, members)
    assert sorted(node[0] for node in placements(decisions).values()) == ["a", "b"]


def test_when_the_emptiest_domain_fills_up_the_others_may_take_more() -> None:
    hosts = [node("n1"), node("n2")]
    members = [member(spread(HOST, app="web"), name=f"g-{i}") for i in range(4)]
    decisions = decided(queue("q"), pod_group("g", min_member=4), hosts, members)
    assert sorted(placements(decisions).values()) == ["n1", "n1", "n2", "n2"]


def test_the_domain_that_is_ahead_by_the_skew_gets_no_more() -> None:
    assert placements(one(ZONES, running("a1"), member(spread("zone", app="web")))) == {"g-0": "b1"}
    assert placements(one(ZONES, running("a1"), member(spread("zone", 2, app="web")))) == {"g-0": "a1"}


def test_no_domain_left_is_the_reason() -> None:
    full = node("b1", zone="b", pods=0)
    decisions = one(ZONES[:2], full, running("a1"), member(spread("zone", app="web")))
    assert placements(decisions) == {}
    assert "2 node(s) didn't match pod topology spread constraints." in reasons(decisions)["g"]


def test_nodes_without_the_label_are_left_out_and_say_so() -> None:
    decisions = one(node("bare"), member(spread("zone", app="web")))
    assert placements(decisions) == {}
    expected = "1 node(s) didn't match pod topology spread constraints (missing required label)."
    assert expected in reasons(decisions)["g"]


def test_a_pod_that_its_own_selector_does_not_select_adds_nothing() -> None:
    """It may then go where the skew is already reached."""
    other = spread("zone", app="other")
    theirs = pod("o").label("app", "other").running_on("a1").build()
    assert placements(one(ZONES, theirs, member(other))) == {"g-0": "a1"}


def test_only_pods_of_the_same_namespace_that_stay_are_counted() -> None:
    elsewhere = pod("e", "other").label("app", "web").running_on("a1").build()
    going = web("going").running_on("a1").being_deleted_at(NOW).build()
    assert placements(one(ZONES, elsewhere, going, member(spread("zone", app="web")))) == {"g-0": "a1"}


def test_an_empty_selector_counts_nobody() -> None:
    constraint = spread("zone", labelSelector=LabelSelector())
    assert placements(one(ZONES, running("a1", "a2"), member(constraint))) == {"g-0": "a1"}


def test_fewer_domains_than_the_minimum_count_as_if_one_were_empty() -> None:
    constraint = spread("zone", app="web", minDomains=3)
    assert placements(one(ZONES, running("a1", "b1"), member(constraint))) == {}
    assert placements(one(ZONES, node("c1", zone="c"), running("a1", "b1"), member(constraint))) == {"g-0": "c1"}
    assert placements(one(ZONES, running("a1", "b1"), member(spread("zone", app="web")))) == {"g-0": "a1"}


@pytest.mark.parametrize(("policy", "expected"), [("Honor", {"g-0": "a1"}), ("Ignore", {}), (None, {"g-0": "a1"})])
def test_nodes_that_the_pod_does_not_want_are_left_out_of_the_count_unless_ignored(
    policy: str | None, expected: Mapping[str, str]
) -> None:
    constraint = spread("zone", app="web", nodeAffinityPolicy=policy)
    picky = web().of_group("g").only_on("zone", "a").with_spec(topologySpreadConstraints=(constraint,)).build()
    assert placements(one(ZONES, running("a1"), picky)) == expected


@pytest.mark.parametrize(("policy", "expected"), [("Honor", {"g-0": "a1"}), ("Ignore", {}), (None, {})])
def test_nodes_with_taints_count_unless_they_are_honored(policy: str | None, expected: Mapping[str, str]) -> None:
    nodes = [node("a1", zone="a"), tainted(node("b1", zone="b"), "dedicated")]
    constraint = spread("zone", app="web", nodeTaintsPolicy=policy)
    assert placements(one(nodes, running("a1"), member(constraint))) == expected


def test_match_label_keys_count_pods_with_the_same_value_only() -> None:
    constraint = spread("zone", app="web", matchLabelKeys=("revision",))
    old = web("old").label("revision", "1").running_on("a1").build()
    new = web().label("revision", "2").of_group("g").with_spec(topologySpreadConstraints=(constraint,)).build()
    assert placements(one(ZONES, old, new)) == {"g-0": "a1"}
    same = web().label("revision", "1").of_group("g").with_spec(topologySpreadConstraints=(constraint,)).build()
    assert placements(one(ZONES, old, same)) == {"g-0": "b1"}


def test_all_constraints_must_hold() -> None:
    both = (spread("zone", app="web"), spread(HOST, app="web"))
    assert placements(one(ZONES, running("a1", "b1"), member(*both))) == {"g-0": "a2"}


def test_nodes_that_lack_the_label_of_one_constraint_count_for_none() -> None:
    racks = (spread("rack", app="web"), spread("zone", app="web"))
    rack = node("r1", zone="r", rack="1")
    assert placements(one(ZONES, rack, running("r1"), member(*racks))) == {"g-0": "r1"}
    assert placements(one(ZONES, rack, running("r1"), member(racks[1]))) == {"g-0": "a1"}


def test_a_constraint_that_may_be_violated_keeps_nobody_away() -> None:
    soft = spread("zone", app="web", when="ScheduleAnyway")
    assert placements(one(ZONES, running("a1", "a1"), member(soft))) == {"g-0": "a1"}
