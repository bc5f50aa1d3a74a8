"""What every group has, whatever its kind: name, owner, queue, priority, preemptibility, delays, topology."""

from __future__ import annotations

import pytest

from bosket.api import keys
from bosket.api.kai import TopologyConstraint
from bosket.services.podgrouper.kind_default import parse_kind_defaults
from bosket.services.podgrouper.options import Options
from bosket.services.podgrouper.owner import Owner
from tests.podgrouper.sketch import SketchedCluster, group_of, owner, pod

UNKNOWN = "example.com/v1/Simulation"


def simulation(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> Owner:
    return owner(UNKNOWN, "sim", labels=labels, annotations=annotations)


def test_a_group_is_named_after_its_top_owner_and_belongs_to_it() -> None:
    top = simulation()
    middle = owner("example.com/v1/Step", "sim-1", owned_by=top)
    found = group_of(pod("sim-1-a", middle), middle, top)
    assert (found.metadata.name, found.metadata.namespace) == ("pg-sim-uid-sim", "team-a")
    (reference,) = found.metadata.ownerReferences
    assert (reference.apiVersion, reference.kind, reference.name, reference.uid) == (
        "example.com/v1",
        "Simulation",
        "sim",
        "uid-sim",
    )
    assert reference.controller is None
    assert found.spec.minMember == 1


def test_a_group_says_in_yaml_who_its_top_owner_is() -> None:
    top = simulation()
    found = group_of(pod("a", top), top)
    assert found.metadata.annotations[keys.TOP_OWNER_ANNOTATION] == (
        "name: sim\nuid: uid-sim\ngroup: example.com\nversion: v1\nkind: Simulation\n"
    )


@pytest.mark.parametrize("name", ["123", "1.5", "1e3", "0x1f", "0b1", "017", "true", "no", "null", "y", "2024-01-31"])
def test_a_name_that_yaml_would_not_read_as_text_is_quoted(name: str) -> None:
    top = owner(UNKNOWN, name)
    found = group_of(pod("a", top), top)
    assert found.metadata.annotations[keys.TOP_OWNER_ANNOTATION].startswith(f'name: "{name}"\n')


@pytest.mark.parametrize("name", ["1.2.3", "0b2", "1e", "truer", "2024-01-31-a", "e3"])
def test_a_name_that_yaml_reads_as_text_is_not_quoted(name: str) -> None:
    top = owner(UNKNOWN, name)
    found = group_of(pod("a", top), top)
    assert found.metadata.annotations[keys.TOP_OWNER_ANNOTATION].startswith(f"name: {name}\n")


def test_labels_and_annotations_are_the_owners_and_the_users_name_is_the_pods() -> None:
    top = simulation(labels={"team": "blue"}, annotations={"note": "hello"})
    found = group_of(pod("a", top, labels={"user": "ann", "x": "y"}, annotations={"user": "ann-a", "z": "z"}), top)
    assert found.metadata.labels == {"team": "blue", "user": "ann"}
    assert found.metadata.annotations.keys() == {"note", "user", keys.TOP_OWNER_ANNOTATION}


@pytest.mark.parametrize(
    ("of_owner", "of_pod", "queue"),
    [
        ({keys.QUEUE_LABEL: "o"}, {keys.QUEUE_LABEL: "p"}, "o"),
        ({}, {keys.QUEUE_LABEL: "p"}, "p"),
        ({keys.QUEUE_LABEL: ""}, {keys.QUEUE_LABEL: "p"}, ""),
        ({"project": "pr"}, {keys.QUEUE_LABEL: "p"}, "p"),
        ({"project": "pr"}, {"project": "pp"}, "pr"),
        ({}, {"project": "pp", keys.NODE_POOL_LABEL: "np"}, "pp-np"),
        ({keys.NODE_POOL_LABEL: "np"}, {"project": "pp"}, "pp"),
        ({}, {}, "default-queue"),
    ],
)
def test_the_queue_is_a_label_of_the_owner_then_of_the_pod_then_the_project(
    of_owner: dict[str, str], of_pod: dict[str, str], queue: str
) -> None:
    top = simulation(labels=of_owner)
    assert group_of(pod("a", top, labels=of_pod), top).spec.queue == queue


def test_the_nearest_owner_with_an_existing_priority_class_decides() -> None:
    top = simulation(labels={"priorityClassName": "build"})
    middle = owner("example.com/v1/Step", "sim-1", owned_by=top, labels={"priorityClassName": "inference"})
    assert group_of(pod("a", middle), middle, top).spec.priorityClassName == "inference"
    unknown = owner("example.com/v1/Step", "sim-1", owned_by=top, labels={"priorityClassName": "nope"})
    assert group_of(pod("a", unknown), unknown, top).spec.priorityClassName == "build"


def test_the_pods_priority_class_comes_before_that_of_an_owner_further_up() -> None:
    top = simulation(labels={"priorityClassName": "build"})
    middle = owner("example.com/v1/Step", "sim-1", owned_by=top)
    assert group_of(pod("a", middle, priority_class="inference"), middle, top).spec.priorityClassName == "inference"


def test_an_empty_priority_label_hides_the_pods_own_class() -> None:
    top = simulation(labels={"priorityClassName": ""})
    assert group_of(pod("a", top, priority_class="build"), top).spec.priorityClassName == "train"


def test_without_any_class_the_default_of_the_kind_counts_and_then_train() -> None:
    top = simulation()
    text = '[{"typeName":"Simulation","group":"example.com","priorityName":"build","preemptibility":"Non-Preemptible"}]'
    cluster = SketchedCluster(defaults=parse_kind_defaults(text))
    found = group_of(pod("a", top), top, cluster=cluster)
    assert (found.spec.priorityClassName, found.spec.preemptibility) == ("build", "non-preemptible")
    assert group_of(pod("a", top), top).spec.priorityClassName == "train"


def test_defaults_of_a_kind_in_its_group_come_before_those_of_the_bare_kind() -> None:
    text = '[{"typeName":"Job","priorityName":"a"},{"typeName":"Job","group":"batch","priorityName":"b"}]'
    defaults = parse_kind_defaults(text)
    assert defaults.of(owner("batch/v1/Job", "x").gvk).priority_name == "b"
    assert defaults.of(owner("example.com/v1/Job", "x").gvk).priority_name == "a"


@pytest.mark.parametrize("text", ["", "{", "{}", '[{"typeName": 3}]', "null"])
def test_unreadable_defaults_are_as_good_as_none(text: str) -> None:
    assert parse_kind_defaults(text).by_kind == {}


@pytest.mark.parametrize(
    ("of_owner", "of_pod", "expected"),
    [
        ("preemptible", "non-preemptible", "preemptible"),
        ("sometimes", "non-preemptible", "non-preemptible"),
        ("Preemptible", None, ""),
        ("", "preemptible", ""),
        (None, "preemptible", "preemptible"),
    ],
)
def test_preemptibility_is_the_first_valid_label(of_owner: str | None, of_pod: str | None, expected: str) -> None:
    top = simulation(labels={} if of_owner is None else {keys.PREEMPTIBILITY_LABEL: of_owner})
    labels = {} if of_pod is None else {keys.PREEMPTIBILITY_LABEL: of_pod}
    assert group_of(pod("a", top, labels=labels), top).spec.preemptibility == expected


@pytest.mark.parametrize(
    ("text", "delay", "grace"),
    [
        ("90s", "1m30s", "1m30s"),
        ("1.5s", "1.5s", "1.5s"),
        ("0", "0s", "0s"),
        ("-1s", None, "-1s"),
        ("30", None, None),
        ("1d", None, None),
    ],
)
def test_delays_are_go_durations_and_only_the_staleness_grace_may_be_negative(
    text: str, delay: str | None, grace: str | None
) -> None:
    top = simulation(annotations={keys.PREEMPTION_DELAY_ANNOTATION: text, keys.STALENESS_GRACE_PERIOD_ANNOTATION: text})
    spec = group_of(pod("a", top), top).spec
    assert (spec.preemptionDelay, spec.stalenessGracePeriod) == (delay, grace)


def test_an_invalid_delay_of_an_owner_gives_way_to_the_pods() -> None:
    top = simulation(annotations={keys.PREEMPTION_DELAY_ANNOTATION: "soon"})
    a_pod = pod("a", top, annotations={keys.PREEMPTION_DELAY_ANNOTATION: "5s"})
    assert group_of(a_pod, top).spec.preemptionDelay == "5s"


def test_topology_comes_from_the_top_owners_annotations_alone() -> None:
    wanted = {keys.TOPOLOGY_ANNOTATION: "net", keys.TOPOLOGY_REQUIRED_ANNOTATION: "rack"}
    top = simulation(annotations=wanted)
    constraint = TopologyConstraint(topology="net", requiredTopologyLevel="rack")
    assert group_of(pod("a", top), top).spec.topologyConstraint == constraint
    plain = simulation()
    assert group_of(pod("a", plain, annotations=wanted), plain).spec.topologyConstraint is None


def test_the_node_pool_is_copied_from_the_pod_unless_the_owner_has_one() -> None:
    top = simulation()
    labelled = pod("a", top, labels={keys.NODE_POOL_LABEL: "pool-1"})
    assert group_of(labelled, top).metadata.labels == {keys.NODE_POOL_LABEL: "pool-1"}
    other = simulation(labels={keys.NODE_POOL_LABEL: "pool-2"})
    assert group_of(labelled, other).metadata.labels == {keys.NODE_POOL_LABEL: "pool-2"}
    assert group_of(labelled, top, options=Options(node_pool_label_key="")).metadata.labels == {}


def test_a_run_time_limit_comes_from_the_top_owner_or_from_the_pods() -> None:
    top, key = simulation(), keys.RUN_TIME_LIMIT_ANNOTATION
    a_pod = pod("a", top, annotations={key: "2h"})
    assert group_of(a_pod, top).metadata.annotations[key] == "2h"
    declared = simulation(annotations={key: "1h"})
    assert group_of(pod("a", declared, annotations={key: "2h"}), declared).metadata.annotations[key] == "1h"
