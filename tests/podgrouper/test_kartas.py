"""Kinds that an administrator describes by a Karta, without code."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from bosket.services.podgrouper.options import Options
from bosket.services.podgrouper.owner import GroupingError, Owner
from tests.podgrouper.sketch import SketchedCluster, group_of, grouping_of, owner, pod

LABELS = {"run.ai/karta-group": "example.com", "run.ai/karta-version": "v1", "run.ai/karta-kind": "Flow"}


def component(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "ownerRef": "flow",
        "podSelector": {"componentTypeSelector": {"keyPath": ".metadata.labels.role", "value": name}},
        "scaleDefinition": {"replicasPath": f".spec.{name}.replicas", "minReplicasPath": f".spec.{name}.least"},
        "specDefinition": {"podTemplateSpecPath": f".spec.{name}.template"},
        **more,
    }


def spec(**gangs: Any) -> dict[str, Any]:
    root = {
        "name": "flow",
        "kind": {"group": "example.com", "version": "v1", "kind": "Flow"},
        "statusDefinition": {"statusMappings": {}},
    }
    return {
        "structureDefinition": {"rootComponent": root, "childComponents": [component("head"), component("worker")]},
        "optimizationInstructions": {"gangScheduling": gangs},
    }


ONE = spec(podGroup={"name": "all", "subGroups": [{"componentName": "head"}, {"componentName": "worker"}]})


def karta(content: dict[str, Any], name: str = "flow", labels: dict[str, str] | None = None) -> Owner:
    return owner("run.ai/v1alpha1/Karta", name, labels=LABELS if labels is None else labels, spec=content)


FLOW = owner("example.com/v1/Flow", "f", spec={"head": {"replicas": 1}, "worker": {"replicas": 5, "least": 3}})
WORKER = pod("w", FLOW, labels={"role": "worker"})


def test_components_are_sub_groups_of_their_least_replicas() -> None:
    found = grouping_of(WORKER, FLOW, cluster=SketchedCluster(owners=(karta(ONE),)))
    group = found.pod_group
    assert (group.metadata.name, group.spec.minSubGroup, found.subgroup) == ("pg-uid-f-all", 2, "worker")
    assert {each.name: each.minMember for each in group.spec.subGroups} == {"head": 1, "worker": 3}


def test_without_parts_the_group_has_all_pods() -> None:
    cluster = SketchedCluster(owners=(karta(spec(podGroup={"name": "all"})),))
    assert group_of(WORKER, FLOW, cluster=cluster).spec.minMember == 4


def test_the_older_form_groups_by_keys_of_the_pods() -> None:
    members = [{"componentName": "worker", "groupByKeyPaths": [".metadata.labels.role"]}]
    cluster = SketchedCluster(owners=(karta(spec(podGroups=[{"name": "g", "members": members}])),))
    found = group_of(WORKER, FLOW, cluster=cluster)
    assert (found.metadata.name, found.spec.minMember) == ("pg-uid-f-worker", 3)
    with pytest.raises(GroupingError, match="pod team-a/h is a member of no group"):
        group_of(pod("h", FLOW, labels={"role": "head"}), FLOW, cluster=cluster)


def test_instances_of_a_component_have_scales_of_their_own() -> None:
    content = spec(podGroups=[{"name": "g", "members": [{"componentName": "worker"}]}])
    worker = content["structureDefinition"]["childComponents"][1]
    worker["instanceIdPath"] = ".spec.pools[].name"
    worker["scaleDefinition"] = {"replicasPath": ".spec.pools[].size"}
    worker["podSelector"]["componentInstanceSelector"] = {"idPath": ".metadata.labels.pool"}
    flow = owner("example.com/v1/Flow", "f", spec={"pools": [{"name": "a", "size": 2}, {"name": "b", "size": 7}]})
    cluster = SketchedCluster(owners=(karta(content),))
    of_pod = pod("w", flow, labels={"role": "worker", "pool": "b"})
    assert group_of(of_pod, flow, cluster=cluster).spec.minMember == 7
    with pytest.raises(GroupingError, match='the pod belongs to "c", and component "worker" has no such instance'):
        group_of(pod("w", flow, labels={"role": "worker", "pool": "c"}), flow, cluster=cluster)


def _without_status(content: dict[str, Any]) -> None:
    del content["structureDefinition"]["rootComponent"]["statusDefinition"]


def _circle(content: dict[str, Any]) -> None:
    head, worker = content["structureDefinition"]["childComponents"]
    head["ownerRef"], worker["ownerRef"] = "worker", "head"


def _no_jq(content: dict[str, Any]) -> None:
    content["structureDefinition"]["childComponents"][0]["scaleDefinition"]["replicasPath"] = ".spec["


def _twice(content: dict[str, Any]) -> None:
    content["structureDefinition"]["childComponents"][0]["name"] = "worker"


@pytest.mark.parametrize("damage", [_without_status, _circle, _no_jq, _twice])
def test_a_karta_that_is_wrong_in_itself_is_as_good_as_none(damage: Any) -> None:
    content = copy.deepcopy(ONE)
    damage(content)
    found = group_of(WORKER, FLOW, cluster=SketchedCluster(owners=(karta(content),)))
    assert found.metadata.name == "pg-f-uid-f"


@pytest.mark.parametrize(
    "kartas", [(), (karta(ONE), karta(ONE, "another")), (karta(ONE, labels={}),)], ids=["none", "two", "unlabelled"]
)
def test_without_one_karta_for_the_kind_the_default_holds(kartas: tuple[Owner, ...]) -> None:
    assert group_of(WORKER, FLOW, cluster=SketchedCluster(owners=kartas)).metadata.name == "pg-f-uid-f"


def test_kartas_can_be_switched_off() -> None:
    cluster = SketchedCluster(owners=(karta(ONE),))
    assert group_of(WORKER, FLOW, cluster=cluster, options=Options(karta_fallback=False)).spec.minMember == 1


def test_an_expression_that_fails_on_the_workload_is_told() -> None:
    flow = owner("example.com/v1/Flow", "f", spec={"head": 3, "worker": {"replicas": 1}})
    with pytest.raises(GroupingError, match=r'".spec.head.*": Cannot index number'):
        group_of(pod("w", flow, labels={"role": "worker"}), flow, cluster=SketchedCluster(owners=(karta(ONE),)))
