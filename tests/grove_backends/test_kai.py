"""KAI's backend: what PodGroup a gang becomes, and what its pods carry."""

from __future__ import annotations

import msgspec
import pytest

from bosket.api import keys
from bosket.api.grove import TopologyConstraintGroupConfig
from bosket.api.kai import PodGroup, PodGroupSpec, SubGroup, TopologyConstraint
from bosket.api.kai.podgroup import PodGroupStatus, SchedulingCondition, UnschedulableExplanation
from bosket.api.ownership import controller_reference
from bosket.grove.backends import Refused, Surroundings, prepare_pod
from bosket.grove.backends.backend import owned_metadata
from bosket.grove.backends.kai import KaiBackend, queue_of_set
from tests.grove_backends.scene import around, clique, clique_set, member, pack, part, pod_gang

KAI = KaiBackend()


def rendered(gang: object, **about: object) -> PodGroup:
    (found,) = KAI.sync(gang, around(KAI, **about)).objects  # type: ignore[arg-type]
    assert isinstance(found, PodGroup)
    return found


def test_a_gang_becomes_a_pod_group_with_a_sub_group_for_each_of_its_parts() -> None:
    gang = pod_gang("set-0", part("set-0-a", 2), part("set-0-b", 1), priorityClassName="inference")
    group = rendered(gang)
    assert group.metadata.name == "pg-set-0-u1"
    assert group.metadata.ownerReferences == (controller_reference(gang),)
    assert group.spec == PodGroupSpec(
        minMember=3,
        queue=keys.DEFAULT_QUEUE,
        priorityClassName="inference",
        subGroups=(SubGroup(name="set-0-a", minMember=2), SubGroup(name="set-0-b", minMember=1)),
    )


def test_topology_constraints_keep_their_level_in_the_tree() -> None:
    gang = pod_gang(
        "h-0",
        part("h-0-g-0-x", 2, topology=pack("host")),
        part("h-0-r", 1),
        annotations={keys.GROVE_TOPOLOGY_ANNOTATION: "grove-topology"},
        topologyConstraint=pack("block", "rack"),
        topologyConstraintGroupConfigs=(
            TopologyConstraintGroupConfig(
                name="h-0-g-0", podGroupNames=("h-0-g-0-x",), topologyConstraint=pack("rack")
            ),
            TopologyConstraintGroupConfig(name="empty", podGroupNames=()),
        ),
    )
    group = rendered(gang)

    def level(required: str, preferred: str = "") -> TopologyConstraint:
        return TopologyConstraint(
            topology="grove-topology", requiredTopologyLevel=required, preferredTopologyLevel=preferred
        )

    assert group.spec.topologyConstraint == level("block", "rack")
    assert group.spec.subGroups == (
        SubGroup(name="h-0-g-0", minSubGroup=1, topologyConstraint=level("rack")),
        SubGroup(name="h-0-g-0-x", minMember=2, parent="h-0-g-0", topologyConstraint=level("host")),
        SubGroup(name="h-0-r", minMember=1),
    )


def test_a_constraint_without_the_name_of_a_topology_is_refused() -> None:
    with pytest.raises(
        Refused, match=r"PodGang ml/g has topology constraints, but no annotation grove.io/topology-name"
    ):
        rendered(pod_gang("g", part("a"), topologyConstraint=pack("rack")))


@pytest.mark.parametrize(
    ("on_set", "on_cliques", "queue"),
    [("team-a", ["", "team-a"], "team-a"), ("", ["team-b", ""], "team-b"), ("", ["", ""], None)],
)
def test_the_queue_is_the_sets_or_its_cliques(on_set: str, on_cliques: list[str], queue: str | None) -> None:
    cliques = [
        clique(f"c{index}", labels={keys.QUEUE_LABEL: each} if each else {}) for index, each in enumerate(on_cliques)
    ]
    owner = clique_set("s", *cliques, labels={keys.QUEUE_LABEL: on_set} if on_set else {})
    assert queue_of_set(owner) == queue
    gang = pod_gang("s-0", part("s-0-c0"), owner=owner)
    assert rendered(gang, owner=owner).spec.queue == (queue or keys.DEFAULT_QUEUE)


@pytest.mark.parametrize(
    ("on_set", "message"),
    [
        ("q", 'KAI queue on PodCliqueSet ml/s is "q" but PodClique template "a" resolves to "q1"'),
        ("", r"conflicting KAI queues on PodCliqueSet ml/s PodClique templates: \[q1 q2\]"),
    ],
)
def test_queues_that_disagree_are_refused(on_set: str, message: str) -> None:
    owner = clique_set(
        "s",
        clique("a", labels={keys.QUEUE_LABEL: "q1"}),
        clique("b", labels={keys.QUEUE_LABEL: "q2"}),
        labels={keys.QUEUE_LABEL: on_set} if on_set else {},
    )
    with pytest.raises(Refused, match=message):
        queue_of_set(owner)


def queued(key: str, queue: str) -> dict[str, dict[str, str]]:
    return {key: {keys.QUEUE_LABEL: queue}}


@pytest.mark.parametrize(
    ("on_set", "on_clique", "queue"),
    [
        ({**queued("labels", "a"), **queued("annotations", "b")}, {}, "a"),
        (queued("annotations", "b"), {}, "b"),
        ({}, {**queued("labels", "a"), **queued("annotations", "b")}, "a"),
        ({}, queued("annotations", "b"), "b"),
        (queued("annotations", "b"), queued("labels", "b"), "b"),
    ],
)
def test_labels_name_the_queue_before_annotations_do(
    on_set: dict[str, dict[str, str]], on_clique: dict[str, dict[str, str]], queue: str
) -> None:
    """Unit table "KAI: queue matrix"."""
    owner = clique_set("s", msgspec.structs.replace(clique("c"), **on_clique))
    owner = msgspec.structs.replace(owner, metadata=msgspec.structs.replace(owner.metadata, **on_set))
    assert queue_of_set(owner) == queue


def test_what_kai_set_on_a_pod_group_stays() -> None:
    gang = pod_gang("g", part("a", 2), labels={keys.QUEUE_LABEL: "new", "team": "x"})
    labels = {keys.QUEUE_LABEL: "old", keys.NODE_POOL_LABEL: "p"}
    found = PodGroup(
        metadata=msgspec.structs.replace(owned_metadata(gang, "pg-g-u1"), labels=labels),
        spec=PodGroupSpec(minMember=1, queue="old", markUnschedulable=False, schedulingBackoff=1),
        status=PodGroupStatus(phase="Running"),
    )
    after = KAI.update(found, rendered(gang))
    assert isinstance(after, PodGroup)
    assert after.spec == PodGroupSpec(
        minMember=2,
        queue="old",
        markUnschedulable=False,
        schedulingBackoff=1,
        subGroups=(SubGroup(name="a", minMember=2),),
    )
    assert after.metadata.labels == {keys.QUEUE_LABEL: "old", keys.NODE_POOL_LABEL: "p", "team": "x"}
    assert after.status.phase == "Running"


def test_pods_name_their_group_and_sub_group_and_wait_until_it_exists() -> None:
    gang = pod_gang("g", part("a"))
    pod = prepare_pod(KAI, gang, member("g", "a"), around(KAI))
    assert pod.spec.schedulerName == "kai-scheduler"
    assert [each.name for each in pod.spec.schedulingGates] == ["grove.io/podgang"]
    assert pod.metadata.labels[keys.SUBGROUP_LABEL] == "a"
    assert pod.metadata.annotations == {
        keys.SKIP_PODGROUPER_ANNOTATION: "true",
        keys.POD_GROUP_ANNOTATION: "pg-g-u1",
    }
    there = around(KAI, owned=(rendered(gang),))
    assert prepare_pod(KAI, gang, member("g", "a"), there).spec.schedulingGates == ()


def test_a_group_that_the_gang_owns_under_another_name_is_kept() -> None:
    gang = pod_gang("g", part("a"))
    other = msgspec.structs.replace(rendered(gang), metadata=owned_metadata(gang, "g"))
    cluster = around(KAI, owned=(other,))
    assert KAI.sync(gang, cluster).objects[0].metadata.name == "g"
    assert prepare_pod(KAI, gang, member("g", "a"), cluster).metadata.annotations[keys.POD_GROUP_ANNOTATION] == "g"


def test_of_two_groups_the_one_that_pods_name_is_kept() -> None:
    gang = pod_gang("g", part("a"))
    groups = tuple(
        msgspec.structs.replace(rendered(gang), metadata=owned_metadata(gang, name)) for name in ("g", "pg-g-u1")
    )
    named = prepare_pod(KAI, gang, member("g", "a"), around(KAI, owned=groups[:1]))
    assert KAI.sync(gang, around(KAI, owned=groups)).objects[0].metadata.name == "pg-g-u1"
    assert KAI.sync(gang, around(KAI, owned=groups, pods=(named,))).objects[0].metadata.name == "g"


def test_a_pod_of_another_gang_is_refused() -> None:
    with pytest.raises(Refused, match=r"pod ml/a-0 of PodGang ml/g has label grove.io/podgang 'other'"):
        prepare_pod(KAI, pod_gang("g", part("a")), member("other", "a"), around(KAI))


def test_without_its_kind_the_gang_is_refused() -> None:
    with pytest.raises(Refused, match=r"doesn't serve scheduling\.run\.ai/v2alpha2 PodGroups"):
        KAI.sync(pod_gang("g", part("a")), Surroundings())


def test_the_schedulers_reasons_come_back() -> None:
    gang = pod_gang("g", part("a"))
    told = SchedulingCondition(
        type="UnschedulableOnNodePool",
        status="True",
        reasons=(UnschedulableExplanation(reason="PodSchedulingErrors", message="no node has 9 GPUs"),),
    )
    group = msgspec.structs.replace(rendered(gang), status=PodGroupStatus(schedulingConditions=(told,)))
    verdict = KAI.verdict(gang, around(KAI, owned=(group,)))
    assert (verdict.reason, verdict.message) == ("PodSchedulingErrors", "no node has 9 GPUs")


def test_the_sentence_of_the_scheduler_comes_back_before_its_reasons() -> None:
    gang = pod_gang("g", part("a"))
    told = SchedulingCondition(
        type="UnschedulableOnNodePool",
        status="True",
        message="needs 9 GPUs on one node; the largest has 8\nno node has 9 GPUs",
        reasons=(UnschedulableExplanation(reason="PodSchedulingErrors", message="no node has 9 GPUs"),),
    )
    group = msgspec.structs.replace(rendered(gang), status=PodGroupStatus(schedulingConditions=(told,)))
    verdict = KAI.verdict(gang, around(KAI, owned=(group,)))
    assert verdict.message == "needs 9 GPUs on one node; the largest has 8; no node has 9 GPUs"
