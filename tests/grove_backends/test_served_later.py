"""A cluster that begins to serve a gang API while everything runs: each version of it, from sets down to pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bosket.api import keys, volcano
from bosket.api.apiextensions import CustomResourceDefinition
from bosket.api.core import Event, Pod
from bosket.api.core.pod import PodSchedulingGroup, PodWorkloadReference
from bosket.api.crd import crd_manifest
from bosket.api.grove import PodGang
from bosket.api.object import KubeObject
from bosket.api.scheduling_k8s import v1alpha1, v1alpha2, v1beta1
from bosket.api.table import resource_of
from tests.grove.sets import NAMESPACE, clique, clique_set
from tests.grove.test_topology_aware import BINDING, RACK, packed
from tests.grove.world import World, world
from tests.grove_backends.scene import part, pod_gang

pytestmark = pytest.mark.looptime

#: Nothing is scheduled here: only the schedulers' objects are looked at.
OPERATOR = ("grove-operator", "grove-backends")
DEFAULT = "default-scheduler"
ANYTHING = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
#: Discovery is asked every minute, by operator and backends each.
NOTICED_SECONDS = 75


async def install(grove: World, *kinds: type[KubeObject]) -> None:
    """Serve these kinds from now on."""
    for kind in kinds:
        resource = resource_of(kind)
        await grove.client.create(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {
                    "name": resource.group_resource,
                    "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
                },
                "spec": {
                    "group": resource.group,
                    "scope": "Namespaced",
                    "names": {"kind": resource.kind, "plural": resource.plural, "singular": resource.singular},
                    "versions": [{"name": resource.version, "served": True, "storage": True, "schema": ANYTHING}],
                },
            }
        )


async def names(grove: World, kind: type[KubeObject]) -> list[str]:
    return sorted(each.metadata.name for each in (await grove.client.list(kind, NAMESPACE)).items)


def link_of(pod: Pod) -> object:
    return pod.spec.workloadRef or pod.spec.schedulingGroup


V1ALPHA1 = (v1alpha1.Workload,)
V1ALPHA2 = (v1alpha2.Workload, v1alpha2.PodGroup)
V1BETA1 = (v1beta1.Workload, v1beta1.PodGroup)


@pytest.mark.parametrize(
    ("kinds", "link"),
    [
        (V1ALPHA1, PodWorkloadReference(name="s-0", podGroup="s-0-a")),
        (V1ALPHA2, PodSchedulingGroup(podGroupName="s-0-a")),
        (V1BETA1, PodSchedulingGroup(podGroupName="s-0-a")),
    ],
    ids=["v1alpha1", "v1alpha2", "v1beta1"],
)
async def test_a_gang_api_that_is_served_later_is_used_without_a_restart(
    kinds: tuple[type[KubeObject], ...], link: object
) -> None:
    """With the objects of each version, made, linked to by pods that come after, changed, and removed with the gang."""
    async with world(0, services=OPERATOR) as grove:
        await grove.apply(clique_set("s", clique("a", 2, scheduler=DEFAULT), clique("b", scheduler=DEFAULT)))
        await grove.settle()
        assert {link_of(each) for each in await grove.pods()} == {None}, "nobody serves anything to link to"
        await install(grove, *kinds)
        await grove.settle(NOTICED_SECONDS)
        workload, *groups = kinds
        assert await names(grove, workload) == ["s-0"]
        for kind in groups:
            assert await names(grove, kind) == ["s-0-a", "s-0-b"]
        first, second = await grove.pods("s-0-a")
        await grove.delete_pod(first)
        await grove.settle()
        linked = {each.metadata.name: link_of(each) for each in await grove.pods("s-0-a")}
        assert linked.pop(second.metadata.name) is None, "a pod's link can't be changed"
        assert list(linked.values()) == [link]
        assert not any(each.spec.schedulingGates for each in await grove.pods()), "they were added in time"
        await grove.apply(clique_set("t", clique("c", scheduler=DEFAULT)))
        await grove.settle()
        (pod,) = await grove.pods("t-0-c")
        assert link_of(pod) is not None
        assert not pod.spec.schedulingGates
        await grove.client.delete(PodGang, "t-0", NAMESPACE)
        await grove.settle()
        assert await names(grove, workload) == ["s-0", "t-0"], "gangs come back, and so do their objects"


@pytest.mark.parametrize("kinds", [V1ALPHA1, V1ALPHA2], ids=["v1alpha1", "v1alpha2"])
async def test_versions_whose_groups_can_not_be_changed_make_them_anew_when_that_is_possible(
    kinds: tuple[type[KubeObject], ...],
) -> None:
    """Gangs without pods: where there are some, groups stay as they are."""
    async with world(0, services=("grove-backends",)) as grove:
        await install(grove, *kinds)
        await grove.apply(_gang(2))
        await grove.settle(NOTICED_SECONDS)
        (before,) = (await grove.client.list(kinds[0], NAMESPACE)).items
        changed = {"spec": msgspec.to_builtins(_gang(3).spec)}
        await grove.client.patch(PodGang, "g", changed, namespace=NAMESPACE)
        await grove.settle(60)
        for kind in kinds:
            (after,) = (await grove.client.list(kind, NAMESPACE)).items
            assert b'"minCount":3' in msgspec.json.encode(after)
        (after,) = (await grove.client.list(kinds[0], NAMESPACE)).items
        assert after.metadata.uid != before.metadata.uid


def _gang(minimum: int) -> PodGang:
    return pod_gang("g", part("g-a", minimum, pods=0), labels={keys.GROVE_SCHEDULER_LABEL: DEFAULT}, uid="")


async def test_v1alpha1_refuses_topology_in_an_event_and_a_condition_and_holds_the_pods_back() -> None:
    """Kubernetes 1.35 knows no topology; nothing is made, and the pods keep their gate."""
    async with world(0, services=OPERATOR) as grove:
        await install(grove, *V1ALPHA1)
        await grove.settle(NOTICED_SECONDS)
        await grove.apply(BINDING, clique_set("s", clique("a", scheduler=DEFAULT), **packed("rack")))
        await grove.settle()
        assert await names(grove, v1alpha1.Workload) == []
        (pod,) = await grove.pods()
        assert [each.name for each in pod.spec.schedulingGates] == ["scheduling.k8s.io/workload"]
        said = f"s-0-a must be in one domain of {RACK}; Kubernetes 1.35 knows no topology of gangs"
        await assert_refused(grove, "BackendRefused", said)


async def test_yunikorn_refuses_topology_in_an_event_and_a_condition_and_no_pod_is_made() -> None:
    """It has no object that could be missing, and no gate."""
    async with world(0, services=OPERATOR) as grove:
        await grove.apply(BINDING, clique_set("s", clique("a", scheduler="yunikorn"), **packed("rack")))
        await grove.settle()
        assert await grove.pods() == []
        await assert_refused(grove, "BackendRefused", f"the gang must be in one domain of {RACK}; YuniKorn")
        (error,) = (await grove.clique("s-0-a")).status.lastErrors
        assert error.code == "ERR_BUILD_POD_RESOURCE"


async def assert_refused(grove: World, reason: str, said: str) -> None:
    gang = await grove.client.get(PodGang, "s-0", NAMESPACE)
    (condition,) = [each for each in gang.status.conditions if each.type == "Scheduled"]
    assert (condition.status, condition.reason) == ("False", reason)
    assert condition.message.startswith(said)
    events = (await grove.client.list(Event, NAMESPACE)).items
    (event,) = [each for each in events if each.reason == reason and each.message.startswith(said)]
    assert event.count == 1
    assert (event.type, event.involvedObject.kind, event.involvedObject.name) == ("Warning", "PodGang", "s-0")


async def test_volcano_that_is_installed_later_is_told_of_gangs_that_wait() -> None:
    async with world(0, services=OPERATOR) as grove:
        await grove.apply(clique_set("s", clique("a", scheduler="volcano")))
        await grove.settle()
        await assert_refused(grove, "VolcanoCapabilityUnavailable", "the API server doesn't serve scheduling.volcano")
        await install(grove, volcano.PodGroup)
        await grove.settle(NOTICED_SECONDS)
        assert await names(grove, volcano.PodGroup) == ["s-0"]


async def test_volcano_before_1_14_which_knows_no_sub_groups_is_found_out() -> None:
    """Its definition has no subGroupPolicy, so that the API server drops it without a word."""
    async with world(0, services=OPERATOR) as grove:
        manifest: dict[str, Any] = crd_manifest(resource_of(volcano.PodGroup))
        schema = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        schema.pop("x-kubernetes-preserve-unknown-fields")
        whole = schema["properties"].pop("subGroupPolicy")
        await grove.client.create(manifest)
        await grove.apply(clique_set("s", clique("a", scheduler="volcano")))
        await grove.settle(NOTICED_SECONDS)
        await assert_refused(grove, "VolcanoCapabilityUnavailable", "the API server drops subGroupPolicy of PodGroups")
        schema["properties"]["subGroupPolicy"] = whole
        await grove.client.patch(CustomResourceDefinition, manifest["metadata"]["name"], {"spec": manifest["spec"]})
        await grove.settle(NOTICED_SECONDS)
        (group,) = (await grove.client.list(volcano.PodGroup, NAMESPACE)).items
        assert [each.name for each in group.spec.subGroupPolicy] == ["s-0-a"]
