"""What stays and what changes when a group is there already."""

from __future__ import annotations

import msgspec

from bosket.api import keys
from bosket.api.kai import PodGroup, PodGroupSpec, TopologyConstraint
from bosket.api.object import ObjectMeta
from bosket.services.podgrouper.grouping import merge, pod_changes
from bosket.services.podgrouper.options import Options
from bosket.services.podgrouper.workload import Grouping
from tests.podgrouper.sketch import group_of, owner, pod

JOB = owner("batch/v1/Job", "train", labels={keys.QUEUE_LABEL: "q"}, annotations={"note": "new"})
COMPUTED = group_of(pod("train-x", JOB, labels={keys.NODE_POOL_LABEL: "pool-1"}), JOB)


def existing(
    labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **spec: object
) -> PodGroup:
    metadata = ObjectMeta(
        name=COMPUTED.metadata.name, namespace="team-a", labels=labels or {}, annotations=annotations or {}
    )
    return PodGroup(metadata=metadata, spec=PodGroupSpec(**spec))  # type: ignore[arg-type]


def test_the_queue_stays_in_spec_and_label() -> None:
    merged = merge(existing({keys.QUEUE_LABEL: "moved"}, queue="moved"), COMPUTED, Options())
    assert (merged.spec.queue, merged.metadata.labels[keys.QUEUE_LABEL]) == ("moved", "moved")


def test_a_queue_label_that_was_missing_is_added_and_an_empty_queue_stays() -> None:
    merged = merge(existing(), COMPUTED, Options())
    assert (merged.spec.queue, merged.metadata.labels) == ("", {keys.QUEUE_LABEL: "q"})


def test_a_node_pool_stays_and_its_absence_too() -> None:
    kept = merge(existing({keys.NODE_POOL_LABEL: "pool-2"}), COMPUTED, Options())
    assert kept.metadata.labels[keys.NODE_POOL_LABEL] == "pool-2"
    assert keys.NODE_POOL_LABEL not in merge(existing(), COMPUTED, Options()).metadata.labels


def test_what_users_and_the_scheduler_set_stays() -> None:
    merged = merge(existing(markUnschedulable=False, schedulingBackoff=1), COMPUTED, Options())
    assert (merged.spec.markUnschedulable, merged.spec.schedulingBackoff) == (False, 1)


def test_the_rest_of_the_spec_and_the_owner_are_replaced() -> None:
    merged = merge(existing(minMember=7, priorityClassName="build", preemptibility="preemptible"), COMPUTED, Options())
    assert merged.spec == msgspec.structs.replace(COMPUTED.spec, queue="")
    assert merged.metadata.ownerReferences == COMPUTED.metadata.ownerReferences


def test_labels_and_annotations_are_merged_and_new_values_win() -> None:
    merged = merge(existing({"mine": "1"}, {"mine": "2", "note": "old"}), COMPUTED, Options())
    assert merged.metadata.labels["mine"] == "1"
    assert merged.metadata.annotations["mine"] == "2"
    assert merged.metadata.annotations["note"] == "new"


def test_a_topology_set_by_hand_stays_unless_the_workload_names_one() -> None:
    by_hand = TopologyConstraint(topology="mine", requiredTopologyLevel="rack")
    assert merge(existing(topologyConstraint=by_hand), COMPUTED, Options()).spec.topologyConstraint == by_hand
    named = TopologyConstraint(topology="net")
    computed = msgspec.structs.replace(COMPUTED, spec=msgspec.structs.replace(COMPUTED.spec, topologyConstraint=named))
    assert merge(existing(topologyConstraint=by_hand), computed, Options()).spec.topologyConstraint == named


def test_merging_twice_changes_nothing() -> None:
    once = merge(
        existing({keys.NODE_POOL_LABEL: "pool-2"}, queue="moved", topologyConstraint=TopologyConstraint()),
        COMPUTED,
        Options(),
    )
    assert merge(once, COMPUTED, Options()) == once


def test_a_pod_is_told_its_group_and_sub_group_once() -> None:
    grouping = Grouping(COMPUTED, "workers")
    name = COMPUTED.metadata.name
    bare = pod("a")
    assert pod_changes(bare, grouping) == {
        "annotations": {keys.POD_GROUP_ANNOTATION: name},
        "labels": {keys.SUBGROUP_LABEL: "workers"},
    }
    told = pod("a", annotations={keys.POD_GROUP_ANNOTATION: name}, labels={keys.SUBGROUP_LABEL: "workers"})
    assert pod_changes(told, grouping) == {}
    assert pod_changes(told, Grouping(COMPUTED)) == {}
    wrong = pod("a", annotations={keys.POD_GROUP_ANNOTATION: name}, labels={keys.SUBGROUP_LABEL: "other"})
    assert pod_changes(wrong, grouping) == {"labels": {keys.SUBGROUP_LABEL: "workers"}}
