"""The default scheduler's backend: one gang in the words of each version of the gang API."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bosket.api.core.pod import PodSchedulingGroup, PodWorkloadReference
from bosket.api.grove import PodCliqueScalingGroupConfig, PodGang, TopologyConstraintGroupConfig
from bosket.api.object import Condition, KubeObject
from bosket.api.scheduling_k8s import v1alpha1, v1alpha2, v1alpha3, v1beta1
from bosket.api.scheduling_k8s.part import GangSchedulingPolicy, PodGroupSchedulingPolicy
from bosket.grove.backends import Refused, Surroundings, prepare_pod
from bosket.grove.backends.default import DefaultBackend
from tests.grove_backends.scene import clique, clique_set, member, pack, part, pod_gang, serving

DEFAULT = DefaultBackend()
FIRST = serving(v1alpha1.Workload)
SECOND = serving(v1alpha2.Workload, v1alpha2.PodGroup)
BETA = serving(v1beta1.Workload, v1beta1.PodGroup)
COMPOSITE = BETA | serving(v1alpha3.Workload, v1alpha3.PodGroup, v1alpha3.CompositePodGroup)


def objects(gang: PodGang, served: frozenset[tuple[str, str]], **about: Any) -> dict[tuple[type, str], Any]:
    found = DEFAULT.sync(gang, Surroundings(served=served, **about)).objects
    return {(type(each), each.metadata.name): each for each in found}


def gang_of(minimum: int) -> PodGroupSchedulingPolicy:
    return PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(minCount=minimum))


def test_v1alpha1_has_one_workload_that_lists_its_groups() -> None:
    owner = clique_set("w", clique("a"), clique("b"))
    gang = pod_gang("w-0", part("w-0-a", 2), part("w-0-b", 1), owner=owner)
    ((_, workload),) = objects(gang, FIRST, owner=owner).items()
    assert workload.metadata.name == "w-0"
    assert (workload.spec.controllerRef.apiGroup, workload.spec.controllerRef.name) == ("grove.io", "w")
    assert workload.spec.podGroups == (
        v1alpha1.PodGroup(name="w-0-a", policy=gang_of(2)),
        v1alpha1.PodGroup(name="w-0-b", policy=gang_of(1)),
    )
    pod = prepare_pod(DEFAULT, gang, member("w-0", "w-0-a"), Surroundings(served=FIRST))
    assert pod.spec.workloadRef == PodWorkloadReference(name="w-0", podGroup="w-0-a")
    assert [each.name for each in pod.spec.schedulingGates] == ["scheduling.k8s.io/workload"]


def test_v1alpha1_counts_more_groups_than_a_workload_has_as_one() -> None:
    gang = pod_gang("w-0", *(part(f"w-0-c{index}", 2) for index in range(9)))
    rendering = DEFAULT.sync(gang, Surroundings(served=FIRST))
    (workload,) = rendering.objects
    assert isinstance(workload, v1alpha1.Workload)
    assert workload.spec.podGroups == (v1alpha1.PodGroup(name="w-0", policy=gang_of(18)),)
    assert rendering.left_out == ("its 9 pod groups count as one: a Workload has 8",)
    pod = prepare_pod(DEFAULT, gang, member("w-0", "w-0-c1"), Surroundings(served=FIRST))
    assert pod.spec.workloadRef == PodWorkloadReference(name="w-0", podGroup="w-0")


def test_v1alpha1_refuses_topology_that_must_hold() -> None:
    gang = pod_gang("w-0", part("w-0-a"), topologyConstraint=pack("rack"))
    with pytest.raises(Refused, match=r"w-0-a must be in one domain of rack; Kubernetes 1\.35 knows no topology"):
        DEFAULT.sync(gang, Surroundings(served=FIRST))


def test_v1alpha2_has_a_pod_group_for_each_part_made_from_templates_of_a_workload() -> None:
    gang = pod_gang("w-0", part("w-0-a", 2, topology=pack("rack")), topologyConstraint=pack("zone"))
    found = objects(gang, SECOND)
    group = found[v1alpha2.PodGroup, "w-0-a"].spec
    (template,) = found[v1alpha2.Workload, "w-0"].spec.podGroupTemplates
    assert group.podGroupTemplateRef.workload.podGroupTemplateName == template.name == "w-0-a"
    assert group.schedulingPolicy == template.schedulingPolicy == gang_of(2)
    assert [each.key for each in group.schedulingConstraints.topology] == ["rack"]
    pod = prepare_pod(DEFAULT, gang, member("w-0", "w-0-a"), Surroundings(served=SECOND))
    assert pod.spec.schedulingGroup == PodSchedulingGroup(podGroupName="w-0-a")


def test_v1beta1_alone_keeps_each_group_together_and_says_what_it_can_not() -> None:
    gang = pod_gang("w-0", part("w-0-a"), part("w-0-b"), topologyConstraint=pack("rack", "host"))
    rendering = DEFAULT.sync(gang, Surroundings(served=BETA))
    groups = [each for each in rendering.objects if isinstance(each, v1beta1.PodGroup)]
    assert [each.spec.schedulingConstraints and each.spec.schedulingConstraints.topology[0].key for each in groups] == [
        "rack",
        "rack",
    ]
    assert rendering.left_out == (
        "each of its pod groups is a gang of its own: without CompositePodGroups they can't be bound together",
        "each of w-0-a, w-0-b is kept in one domain of rack, but not all of them in the same one",
        "the gang prefers one domain of host; the default scheduler has no preferences",
    )


def test_composite_groups_make_one_gang_of_all_parts_with_topology_at_each_level() -> None:
    gang = pod_gang(
        "w-0",
        part("w-0-r"),
        part("w-0-g-0-x", 2, topology=pack("host")),
        part("w-0-g-0-y", 1),
        topologyConstraint=pack("zone"),
        topologyConstraintGroupConfigs=(
            TopologyConstraintGroupConfig(
                name="w-0-g-0", podGroupNames=("w-0-g-0-x", "w-0-g-0-y"), topologyConstraint=pack("rack")
            ),
        ),
    )
    found = objects(gang, COMPOSITE)
    root = found[v1alpha3.CompositePodGroup, "w-0"].spec
    (inner_name,) = [name for kind, name in found if kind is v1alpha3.CompositePodGroup and name != "w-0"]
    inner = found[v1alpha3.CompositePodGroup, inner_name].spec
    assert (root.schedulingPolicy.gang.minGroupCount, root.schedulingConstraints.topology[0].key) == (2, "zone")
    assert (inner.parentCompositePodGroupName, inner.schedulingPolicy.gang.minGroupCount) == ("w-0", 2)
    assert inner.schedulingConstraints.topology[0].key == "rack"
    parents = {
        name: each.spec.parentCompositePodGroupName for (kind, name), each in found.items() if kind is v1beta1.PodGroup
    }
    assert parents == {"w-0-r": "w-0", "w-0-g-0-x": inner_name, "w-0-g-0-y": inner_name}
    (template,) = found[v1beta1.Workload, "w-0"].spec.compositePodGroupTemplates
    assert [each.name for each in template.compositePodGroupTemplates] == [inner_name]


def test_groups_of_a_set_and_its_scaled_gangs_have_different_names() -> None:
    """Grove calls a group's first replica as it calls the gang of its second one."""
    config = TopologyConstraintGroupConfig(
        name="w-0-g-0", podGroupNames=("w-0-g-0-x",), topologyConstraint=pack("rack")
    )
    base = pod_gang("w-0", part("w-0-g-0-x"), part("w-0-r"), topologyConstraintGroupConfigs=(config,))
    scaled = pod_gang("w-0-g-0", part("w-0-g-1-x"), part("w-0-g-1-y"))
    assert not objects(base, COMPOSITE).keys() & objects(scaled, COMPOSITE).keys()


def test_more_groups_than_a_workload_has_go_without_one() -> None:
    gang = pod_gang("w-0", *(part(f"w-0-c{index}") for index in range(9)))
    found = objects(gang, BETA)
    assert {kind for kind, _ in found} == {v1beta1.PodGroup}
    assert all(each.spec.workloadRef is None for each in found.values())


def test_groups_have_the_priority_of_their_pods() -> None:
    """The scheduler refuses pods of another priority than their group's."""
    owner = clique_set("w", clique("a", priorityClassName="high"))
    gang = pod_gang("w-0", part("w-0-a"), owner=owner)
    found = objects(gang, BETA, owner=owner)
    assert found[v1beta1.PodGroup, "w-0-a"].spec.priorityClassName == "high"
    urgent = pod_gang("w-0", part("w-0-a"), owner=owner, priorityClassName="urgent")
    cluster = Surroundings(served=BETA, owner=owner)
    assert prepare_pod(DEFAULT, urgent, member("w-0", "w-0-a"), cluster).spec.priorityClassName == "urgent"


def test_a_group_that_has_pods_stays_as_it_is_where_it_can_not_be_changed() -> None:
    before = pod_gang("w-0", part("w-0-a"), priorityClassName="low")
    owned = DEFAULT.sync(before, Surroundings(served=BETA)).objects
    after = pod_gang("w-0", part("w-0-a"), priorityClassName="urgent")
    cluster = Surroundings(served=BETA, owned=owned, pods=(member("w-0", "w-0-a"),))
    rendering = DEFAULT.sync(after, cluster)
    assert owned[1] in rendering.objects
    assert rendering.left_out == ("PodGroup w-0-a can't be changed while it has pods",)
    assert prepare_pod(DEFAULT, after, member("w-0", "w-0-a", 1), cluster).spec.priorityClassName == "low"


@pytest.mark.parametrize("served", [FIRST, SECOND, BETA, COMPOSITE])
def test_what_the_server_fills_in_is_no_difference(served: frozenset[tuple[str, str]]) -> None:
    gang = pod_gang("w-0", part("w-0-a", 2), part("w-0-b"))
    wanted = DEFAULT.sync(gang, Surroundings(served=served)).objects

    def filled(each: Any) -> Any:
        if not hasattr(each.spec, "priority"):
            return each
        spec = msgspec.structs.replace(each.spec, priority=0)
        return msgspec.structs.replace(each, spec=spec)

    cluster = Surroundings(served=served, owned=tuple(map(filled, wanted)))
    assert DEFAULT.check_gang_ready(gang, cluster)


def test_a_minimum_that_changes_is_changed_in_place_where_that_is_possible() -> None:
    before, after = pod_gang("w-0", part("w-0-a", 2)), pod_gang("w-0", part("w-0-a", 3))

    def changed(served: frozenset[tuple[str, str]], kind: type[KubeObject]) -> Any:
        return DEFAULT.update(
            next(each for each in DEFAULT.sync(before, Surroundings(served=served)).objects if type(each) is kind),
            next(each for each in DEFAULT.sync(after, Surroundings(served=served)).objects if type(each) is kind),
        )

    assert changed(BETA, v1beta1.PodGroup).spec.schedulingPolicy == gang_of(3)
    assert changed(SECOND, v1alpha2.PodGroup) is None
    assert changed(FIRST, v1alpha1.Workload) is None


@pytest.mark.parametrize("served", [SECOND, BETA])
def test_a_server_that_drops_topology_is_found_out(served: frozenset[tuple[str, str]]) -> None:
    """It does so without a word where its feature gate is off."""
    gang = pod_gang("w-0", part("w-0-a", topology=pack("rack")))
    wanted = DEFAULT.sync(gang, Surroundings(served=served)).objects

    def dropped(each: Any) -> Any:
        if not hasattr(each.spec, "schedulingConstraints"):
            return each
        return msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, schedulingConstraints=None))

    with pytest.raises(Refused, match="w-0-a must be in one domain of rack, and the API server drops that"):
        DEFAULT.sync(gang, Surroundings(served=served, owned=tuple(map(dropped, wanted))))


def test_only_the_newest_version_is_looked_at() -> None:
    """Versions show the same objects: those of another would look like a surplus."""
    assert DEFAULT.kinds_in(COMPOSITE) == (v1beta1.Workload, v1alpha3.CompositePodGroup, v1beta1.PodGroup)
    assert DEFAULT.kinds_in(serving(v1alpha3.Workload, v1alpha3.PodGroup)) == (v1alpha3.Workload, v1alpha3.PodGroup)
    assert DEFAULT.kinds_in(frozenset()) == ()


def test_without_a_gang_api_pods_go_one_by_one_and_the_gang_is_told() -> None:
    gang = pod_gang("w-0", part("w-0-a"))
    (untold,) = DEFAULT.sync(gang, Surroundings()).left_out
    assert untold.startswith("the API server serves no gang API")
    pod = prepare_pod(DEFAULT, gang, member("w-0", "w-0-a"), Surroundings())
    assert (pod.spec.schedulerName, pod.spec.schedulingGates) == ("default-scheduler", ())
    assert pod.spec.schedulingGroup is None


def test_a_gang_without_minimums_waits_for_nobody() -> None:
    (group,) = [
        each for (kind, _), each in objects(pod_gang("g", part("a", 0)), BETA).items() if kind is v1beta1.PodGroup
    ]
    assert group.spec.schedulingPolicy.gang is None
    assert group.spec.schedulingPolicy.basic is not None


def test_names_that_are_no_labels_are_made_into_ones_in_the_same_way_everywhere() -> None:
    groups = (PodCliqueScalingGroupConfig(name="g", cliqueNames=("a",)),)
    owner = clique_set("my.set", clique("a"), groups=groups)
    gang = pod_gang("my.set-0", part("my.set-0-g-0-a"), owner=owner)
    (name,) = [name for kind, name in objects(gang, BETA) if kind is v1beta1.PodGroup]
    assert "." not in name
    pod = prepare_pod(DEFAULT, gang, member("my.set-0", "my.set-0-g-0-a"), Surroundings(served=BETA))
    assert pod.spec.schedulingGroup == PodSchedulingGroup(podGroupName=name)


def test_what_the_scheduler_says_of_groups_comes_back() -> None:
    gang = pod_gang("g", part("a"))

    def said(*told: Condition) -> Any:
        group = objects(gang, BETA)[v1beta1.PodGroup, "a"]
        group = msgspec.structs.replace(group, status=v1beta1.PodGroupStatus(conditions=told))
        return DEFAULT.verdict(gang, Surroundings(served=BETA, owned=(group,)))

    def told(type_: str, status: str, reason: str) -> Condition:
        return Condition(
            type=type_, status=status, reason=reason, message="why", lastTransitionTime="2026-11-16T00:00:00Z"
        )

    assert said(told("PodGroupInitiallyScheduled", "False", "Unschedulable")).reason == "Unschedulable"
    assert said(told("DisruptionTarget", "True", "PreemptionByScheduler")).disruption == "a: why"
