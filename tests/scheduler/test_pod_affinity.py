"""Pods that must be near others, or away from them."""

from collections.abc import Sequence

import msgspec
import pytest

from bosket.api.core import Namespace
from bosket.api.core.node import Node
from bosket.api.object import KubeObject, LabelSelector, LabelSelectorRequirement, ObjectMeta
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.model.decisions import Decisions
from bosket.testing.build import PodBuilder, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, decided, drop_named, placements, reasons, state_of
from tests.scheduler.affinity import HOST, away, near, term

ZONES = [node("a1", zone="a"), node("a2", zone="a"), node("b1", zone="b")]


def one(*objects: KubeObject | Sequence[Node]) -> Decisions:
    return decided(queue("q"), pod_group("g"), *objects)


def member(name: str = "g-0", group: str = "g") -> PodBuilder:
    return pod(name).cpu("1").of_group(group)


def namespace(name: str, **labels: str) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name, labels=labels))


# Affinity


def test_a_pod_goes_to_the_domain_of_the_pods_it_must_be_near() -> None:
    database = pod("db").label("app", "db").running_on("b1").build()
    wanting = member().with_spec(affinity=near(term("zone", app="db"))).build()
    assert placements(one(ZONES, database, wanting)) == {"g-0": "b1"}


def test_without_such_a_pod_it_waits_and_says_why() -> None:
    wanting = member().with_spec(affinity=near(term("zone", app="db"))).build()
    decisions = one(ZONES, wanting)
    assert placements(decisions) == {}
    assert "3 node(s) didn't match pod affinity rules." in reasons(decisions)["g"]


def test_the_first_of_a_series_may_go_anywhere_and_the_others_follow_it() -> None:
    members = [
        member(f"g-{i}").label("app", "web").with_spec(affinity=near(term("zone", app="web"))).build() for i in "012"
    ]
    decisions = decided(queue("q"), pod_group("g", min_member=3), ZONES, members)
    assert len(placements(decisions)) == 3
    assert len({node[0] for node in placements(decisions).values()}) == 1, "they are in one zone"


def test_where_the_first_of_a_series_is_all_others_must_fit_in() -> None:
    together = near(term(app="web"))
    members = [member(f"g-{i}").label("app", "web").with_spec(affinity=together).build() for i in "012"]
    small = [node("n1", pods=2), node("n2", pods=2)]
    assert placements(decided(queue("q"), pod_group("g", min_member=3), small, members)) == {}
    assert len(placements(decided(queue("q"), pod_group("g", min_member=3), small, node("n0", pods=3), members))) == 3


def test_the_first_of_a_series_still_needs_a_node_with_the_label() -> None:
    wanting = member().label("app", "web").with_spec(affinity=near(term("rack", app="web"))).build()
    assert placements(one(ZONES, wanting)) == {}
    assert placements(one(ZONES, node("r", rack="1"), wanting)) == {"g-0": "r"}


def test_all_terms_must_be_satisfied_by_the_same_pods() -> None:
    """As Kubernetes counts: a pod that matches one of two terms counts for neither."""
    half = pod("half").label("app", "db").running_on("a1").build()
    whole = pod("whole").label("app", "db").label("tier", "back").running_on("b1").build()
    wanting = member().with_spec(affinity=near(term("zone", app="db"), term("zone", tier="back"))).build()
    assert placements(one(ZONES, half, wanting)) == {}
    assert placements(one(ZONES, half, whole, wanting)) == {"g-0": "b1"}


# Anti-affinity


def test_a_gang_that_keeps_its_members_apart_takes_one_node_each() -> None:
    members = [member(f"g-{i}").label("app", "web").with_spec(affinity=away(term(app="web"))).build() for i in "012"]
    decisions = decided(queue("q"), pod_group("g", min_member=3), ZONES, members)
    assert sorted(placements(decisions).values()) == ["a1", "a2", "b1"]


def test_one_member_more_than_domains_holds_the_whole_gang_back() -> None:
    members = [
        member(f"g-{i}").label("app", "web").with_spec(affinity=away(term("zone", app="web"))).build() for i in "012"
    ]
    decisions = decided(queue("q"), pod_group("g", min_member=3), ZONES, members)
    assert placements(decisions) == {}
    assert "3 node(s) didn't match pod anti-affinity rules." in reasons(decisions)["g"]


def test_pods_that_are_there_keep_others_away() -> None:
    loner = pod("loner").with_spec(affinity=away(term("zone", app="web"))).running_on("a1").build()
    assert placements(one(ZONES, loner, member().label("app", "web").build())) == {"g-0": "b1"}
    assert placements(one(ZONES, loner, member().label("app", "other").build())) == {"g-0": "a1"}
    reported = reasons(one(ZONES[:2], loner, member().label("app", "web").build()))["g"]
    assert "2 node(s) didn't satisfy existing pods anti-affinity rules." in reported


def test_pods_placed_in_the_same_cycle_keep_others_away_too() -> None:
    loner = member("a-0", "a").with_spec(affinity=away(term("zone", app="web"))).build()
    other = member("b-0", "b").label("app", "web").build()
    decisions = decided(queue("q"), pod_group("a"), pod_group("b"), ZONES, loner, other)
    zones = {name: node[0] for name, node in placements(decisions).items()}
    assert zones["a-0"] != zones["b-0"]


def test_nodes_without_the_label_are_nobodys_neighbours() -> None:
    web = pod("web").label("app", "web").running_on("n1").build()
    lonely = member().with_spec(affinity=away(term("zone", app="web"))).build()
    assert placements(one(node("n1"), web, lonely)) == {"g-0": "n1"}


# Who counts


def test_a_pod_that_is_being_deleted_still_counts() -> None:
    going = pod("db").label("app", "db").running_on("b1").being_deleted_at(NOW).build()
    wanting = member().with_spec(affinity=near(term("zone", app="db"))).build()
    lonely = member().with_spec(affinity=away(term("zone", app="db"))).build()
    assert placements(one(ZONES, going, wanting)) == {"g-0": "b1"}
    assert placements(one(ZONES[2:], going, lonely)) == {}


def test_a_pod_that_is_done_does_not_count() -> None:
    finished = pod("db").label("app", "db").running_on("b1").build()
    finished = msgspec.structs.replace(finished, status=msgspec.structs.replace(finished.status, phase="Succeeded"))
    lonely = member().with_spec(affinity=away(term("zone", app="db"))).build()
    assert placements(one(ZONES[2:], finished, lonely)) == {"g-0": "b1"}


def test_waiting_pods_of_other_schedulers_keep_nobody_away() -> None:
    waiting = pod("x").with_spec(affinity=away(term(app="web"))).build()
    waiting = msgspec.structs.replace(waiting, spec=msgspec.structs.replace(waiting.spec, schedulerName="x"))
    assert placements(one(ZONES, waiting, member().label("app", "web").build())) == {"g-0": "a1"}


# Namespaces


def test_a_term_without_namespaces_means_the_pods_own() -> None:
    elsewhere = pod("db", "other").label("app", "db").running_on("b1").build()
    wanting = member().with_spec(affinity=near(term("zone", app="db"))).build()
    assert placements(one(ZONES, elsewhere, wanting)) == {}
    asking = member().with_spec(affinity=near(term("zone", namespaces=("other",), app="db"))).build()
    assert placements(one(ZONES, elsewhere, asking)) == {"g-0": "b1"}


def test_an_empty_namespace_selector_means_all_namespaces_whether_known_or_not() -> None:
    elsewhere = pod("db", "other").label("app", "db").running_on("b1").build()
    asking = member().with_spec(affinity=near(term("zone", namespaceSelector=LabelSelector(), app="db"))).build()
    assert placements(one(ZONES, elsewhere, asking)) == {"g-0": "b1"}


def test_a_namespace_selector_means_namespaces_by_their_labels_as_these_are_now() -> None:
    elsewhere = pod("db", "other").label("app", "db").running_on("b1").build()
    team = LabelSelector(matchLabels={"team": "ml"})
    asking = member().with_spec(affinity=near(term("zone", namespaceSelector=team, app="db"))).build()
    state = state_of([queue("q"), pod_group("g"), *ZONES, elsewhere, asking])
    assert placements(decide(state.snapshot(NOW), Configuration())) == {}
    state.put(namespace("other", team="ml"))
    assert placements(decide(state.snapshot(NOW), Configuration())) == {"g-0": "b1"}
    state.put(namespace("other", team="web"))
    assert placements(decide(state.snapshot(NOW), Configuration())) == {}
    state.put(namespace("other", team="ml"))
    drop_named(state, Namespace, "other")
    assert placements(decide(state.snapshot(NOW), Configuration())) == {}


def test_match_label_keys_mean_pods_with_the_same_value_of_these_labels() -> None:
    """One revision of an application keeps away from itself, not from the revision before."""
    apart = away(term("zone", app="web", matchLabelKeys=("revision",)))
    old = pod("old").label("app", "web").label("revision", "1").running_on("a1").build()
    new = member().label("app", "web").label("revision", "2").with_spec(affinity=apart).build()
    assert placements(one(ZONES, old, new)) == {"g-0": "a1"}
    same = member().label("app", "web").label("revision", "1").with_spec(affinity=apart).build()
    assert placements(one(ZONES, old, same)) == {"g-0": "b1"}


def test_mismatch_label_keys_mean_pods_with_another_value_of_these_labels() -> None:
    """Tenants keep away from each other, not from themselves."""
    apart = away(term("zone", labelSelector=LabelSelector(), mismatchLabelKeys=("tenant",)))
    theirs = pod("theirs").label("tenant", "x").running_on("a1").build()
    assert placements(one(ZONES, theirs, member().label("tenant", "y").with_spec(affinity=apart).build())) == {
        "g-0": "b1"
    }
    assert placements(one(ZONES, theirs, member().label("tenant", "x").with_spec(affinity=apart).build())) == {
        "g-0": "a1"
    }


# Selectors


@pytest.mark.parametrize(
    ("operator", "values", "kept_away"),
    [("In", ("web", "api"), True), ("NotIn", ("web",), False), ("Exists", (), True), ("DoesNotExist", (), False)],
)
def test_selectors_by_expression(operator: str, values: tuple[str, ...], kept_away: bool) -> None:
    expression = LabelSelectorRequirement(key="app", operator=operator, values=values)
    lonely = (
        member().with_spec(affinity=away(term(labelSelector=LabelSelector(matchExpressions=(expression,))))).build()
    )
    web = pod("web").label("app", "web").running_on("n").build()
    assert placements(one(node("n"), web, lonely)) == ({} if kept_away else {"g-0": "n"})


def test_a_selector_that_makes_no_sense_selects_no_pod() -> None:
    expression = LabelSelectorRequirement(key="app", operator="Sometimes")
    lonely = (
        member().with_spec(affinity=away(term(labelSelector=LabelSelector(matchExpressions=(expression,))))).build()
    )
    web = pod("web").label("app", "web").running_on("n").build()
    assert placements(one(node("n"), web, lonely)) == {"g-0": "n"}


def test_an_absent_selector_selects_no_pod() -> None:
    lonely = member().with_spec(affinity=away(term(labelSelector=None))).build()
    web = pod("web").label("app", "web").running_on("n").build()
    assert placements(one(node("n"), web, lonely)) == {"g-0": "n"}


# The live state


def test_what_keeps_pods_away_may_come_and_go() -> None:
    state = state_of([queue("q"), pod_group("g"), node("n"), member().label("app", "web").build()])
    loner = pod("loner").with_spec(affinity=away(term(app="web"))).running_on("n").build()
    state.put(loner)
    assert placements(decide(state.snapshot(NOW), Configuration())) == {}
    state.drop(loner)
    assert placements(decide(state.snapshot(NOW), Configuration())) == {"g-0": "n"}


def test_labels_may_change() -> None:
    state = state_of([queue("q"), pod_group("g"), node("n"), member().label("app", "web").build()])
    state.put(pod("loner").with_spec(affinity=away(term(app="db"))).running_on("n").build())
    assert placements(decide(state.snapshot(NOW), Configuration())) == {"g-0": "n"}
    state.put(member().label("app", "db").build())
    assert placements(decide(state.snapshot(NOW), Configuration())) == {}


def test_labels_that_nobody_selects_make_no_classes() -> None:
    members = [member(f"g-{i}").label("index", str(i)).label("app", "web").build() for i in range(20)]
    state = state_of([queue("q"), pod_group("g"), node("n"), *members])
    (job,) = state.snapshot(NOW).jobs.values()
    assert len({task.pod_class for task in job.tasks}) == 1
    state.put(pod("loner").with_spec(affinity=away(term(app="web"))).running_on("n").build())
    (job,) = state.snapshot(NOW).jobs.values()
    assert len({task.pod_class for task in job.tasks}) == 1


def test_pods_are_told_apart_only_as_long_as_somebody_selects_them() -> None:
    members = [member(f"g-{i}").label("app", f"web-{i % 2}").build() for i in range(4)]
    state = state_of([queue("q"), pod_group("g"), node("n"), *members])

    def classes() -> int:
        (job,) = state.snapshot(NOW).jobs.values()
        return len({task.pod_class for task in job.tasks})

    assert classes() == 1
    loner = pod("loner").with_spec(affinity=away(term(app="web-0"))).running_on("n").build()
    state.put(loner)
    assert classes() == 2
    state.drop(loner)
    assert classes() == 1


def test_hostnames_are_compared_by_label_not_by_name() -> None:
    renamed = [node("n1", labels={HOST: "same"}), node("n2", labels={HOST: "same"})]
    web = pod("web").label("app", "web").running_on("n1").build()
    assert placements(one(renamed, web, member().with_spec(affinity=away(term(app="web"))).build())) == {}
