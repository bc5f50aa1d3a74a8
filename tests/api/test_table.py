"""The table of kinds: each is found by its Struct, its apiVersion and kind, and its path."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from bosket.api import apps, autoscaling, batch, core, events, grove, kai, resource_k8s
from bosket.api.object import KubeObject
from bosket.api.resource import AnyResource
from bosket.api.scheduling_k8s import v1alpha1, v1alpha2, v1beta1
from bosket.api.table import FORMER, REQUESTS, TABLE, resource_at, resource_for, resource_of

EVERY = (*TABLE, *REQUESTS, *FORMER)


def name(resource: AnyResource) -> str:
    return f"{resource.group_resource}/{resource.version}"


@pytest.mark.parametrize("resource", EVERY, ids=name)
def test_a_kind_is_found_in_every_way(resource: AnyResource) -> None:
    assert resource_of(resource.struct) is resource
    assert resource_for(resource.api_version, resource.kind) is resource
    assert resource_at(resource.group, resource.version, resource.plural) is resource


@pytest.mark.parametrize("resource", EVERY, ids=name)
def test_a_kind_is_an_object_with_metadata_that_a_decoder_can_be_made_for(resource: AnyResource) -> None:
    assert issubclass(resource.struct, KubeObject)
    assert msgspec.json.Decoder(resource.struct).type is resource.struct


def test_no_kind_stands_in_the_table_twice() -> None:
    assert max(Counter((r.group, r.version, r.kind) for r in EVERY).values()) == 1
    assert max(Counter((r.group, r.version, r.plural) for r in EVERY).values()) == 1
    assert max(Counter(r.struct for r in EVERY).values()) == 1


def test_a_stored_kind_has_one_version_per_group() -> None:
    """A server keeps an object once; versions of different shape can't stand beside each other without conversion."""
    assert max(Counter((r.group, r.plural) for r in TABLE).values()) == 1


def test_what_is_unknown_is_no_kind() -> None:
    assert resource_for("v1", "Pods") is None
    assert resource_for("apps/v1beta1", "Deployment") is None
    assert resource_at("", "v1", "deployments") is None
    with pytest.raises(LookupError, match=r"bosket\.api\.core\.pod\.PodSpec is no kind's Struct"):
        resource_of(core.PodSpec)


def test_kinds_of_one_name_in_different_groups_are_kept_apart() -> None:
    assert resource_of(core.Event).path("ns") == "/api/v1/namespaces/ns/events"
    assert resource_of(events.Event).path("ns") == "/apis/events.k8s.io/v1/namespaces/ns/events"
    assert resource_of(kai.PodGroup).api_version == "scheduling.run.ai/v2alpha2"
    assert resource_of(v1beta1.PodGroup).api_version == "scheduling.k8s.io/v1beta1"
    assert resource_of(v1alpha2.PodGroup).api_version == "scheduling.k8s.io/v1alpha2"
    assert resource_of(v1alpha1.Workload).api_version == "scheduling.k8s.io/v1alpha1"


def test_paths_are_those_of_kubernetes() -> None:
    assert resource_of(core.Pod).path("ns", "a", "binding") == "/api/v1/namespaces/ns/pods/a/binding"
    assert resource_of(core.Node).path(None, "n") == "/api/v1/nodes/n"
    assert resource_of(apps.Deployment).path("ns", "d", "scale") == "/apis/apps/v1/namespaces/ns/deployments/d/scale"
    assert resource_of(batch.Job).path() == "/apis/batch/v1/jobs"
    assert resource_of(resource_k8s.ResourceSlice).path() == "/apis/resource.k8s.io/v1/resourceslices"
    assert resource_of(kai.Queue).path(None, "q") == "/apis/scheduling.run.ai/v2/queues/q"
    assert resource_of(grove.PodGang).path("ns") == "/apis/scheduler.grove.io/v1alpha1/namespaces/ns/podgangs"


def test_get_all_gets_what_kubectl_gets() -> None:
    assert {r.plural for r in TABLE if "all" in r.categories} == {
        "cronjobs",
        "daemonsets",
        "deployments",
        "horizontalpodautoscalers",
        "jobs",
        "pods",
        "replicasets",
        "replicationcontrollers",
        "services",
        "statefulsets",
    }


def test_what_can_be_scaled_has_the_scale_subresource() -> None:
    assert {r.plural for r in TABLE if "scale" in r.subresources} == {
        "deployments",
        "podcliques",
        "podcliquescalinggroups",
        "podcliquesets",
        "replicasets",
        "replicationcontrollers",
        "statefulsets",
    }


def test_cluster_scoped_kinds_of_kubernetes() -> None:
    scoped = {r.plural for r in TABLE if not r.namespaced}
    assert {"nodes", "namespaces", "persistentvolumes", "priorityclasses", "storageclasses", "csinodes"} <= scoped
    assert {"resourceslices", "deviceclasses", "clusterroles", "customresourcedefinitions", "queues"} <= scoped
    assert not {"pods", "leases", "csistoragecapacities", "resourceclaims", "podgroups", "events"} & scoped


def test_the_scale_of_something_is_no_kind_of_its_own() -> None:
    with pytest.raises(LookupError):
        resource_of(autoscaling.Scale)
