"""What every API server promises to those who write: versions, patches of all types, subresources, dry runs."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from bosket.api.apps import Deployment
from bosket.api.core import ConfigMap, Pod
from bosket.api.kai import PodGroup
from bosket.api.table import resource_of
from bosket.kube.client import PatchType
from bosket.kube.codec import untyped
from bosket.kube.errors import AlreadyExists, BadRequest, Conflict, Invalid, NotFound
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import Manifest, config_map, deployment, pod


async def test_a_created_object_has_what_the_server_adds(cluster: Cluster) -> None:
    created = await cluster.client.create(config_map("a", {"k": "v"}), cluster.namespace)
    metadata = created["metadata"]
    assert metadata["namespace"] == cluster.namespace
    assert metadata["uid"]
    assert metadata["resourceVersion"]
    assert metadata["creationTimestamp"].endswith("Z")
    assert created == await cluster.client.get(untyped(resource_of(ConfigMap)), "a", cluster.namespace)


async def test_a_name_is_generated_from_its_beginning(cluster: Cluster) -> None:
    manifest = config_map("", generateName="step-")
    names = {(await cluster.client.create(manifest, cluster.namespace))["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("step-") and len(name) == len("step-") + 5 for name in names)


async def test_a_second_object_of_a_name_is_refused(cluster: Cluster) -> None:
    await cluster.client.create(config_map("a"), cluster.namespace)
    with pytest.raises(AlreadyExists, match='configmaps "a" already exists'):
        await cluster.client.create(config_map("a"), cluster.namespace)


async def test_an_object_in_a_namespace_that_does_not_exist_is_refused(cluster: Cluster) -> None:
    with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
        await cluster.client.create(config_map("a"), "nowhere")


async def test_a_dry_run_answers_and_leaves_nothing(cluster: Cluster) -> None:
    created = await cluster.client.create(config_map("a"), cluster.namespace, dry_run=True)
    assert created["metadata"]["uid"]
    with pytest.raises(NotFound, match='configmaps "a" not found'):
        await cluster.client.get(ConfigMap, "a", cluster.namespace)


async def test_a_write_of_a_stale_version_conflicts_and_names_the_object(cluster: Cluster) -> None:
    first = await cluster.client.create(config_map("a", {"k": "1"}), cluster.namespace)
    await cluster.client.patch(ConfigMap, "a", {"data": {"k": "2"}}, namespace=cluster.namespace)
    with pytest.raises(Conflict, match=r'on configmaps "a": the object has been modified') as refusal:
        await cluster.client.replace({**first, "data": {"k": "3"}})
    assert refusal.value.details.name == "a"
    assert refusal.value.details.kind == "configmaps"


async def test_a_change_that_changes_nothing_keeps_the_version(cluster: Cluster) -> None:
    first = await cluster.client.create(config_map("a", {"k": "1"}), cluster.namespace)
    again = await cluster.client.patch(ConfigMap, "a", {"data": {"k": "1"}}, namespace=cluster.namespace)
    assert again.metadata.resourceVersion == first["metadata"]["resourceVersion"]


async def test_a_merge_patch_sets_and_removes(cluster: Cluster) -> None:
    await cluster.client.create(config_map("a", {"keep": "1", "drop": "2"}), cluster.namespace)
    changed = await cluster.client.patch(
        ConfigMap, "a", {"data": {"drop": None, "new": "3"}}, namespace=cluster.namespace, type=PatchType.MERGE
    )
    assert changed.data == {"keep": "1", "new": "3"}


async def test_a_json_patch_is_carried_out_as_a_whole_or_not_at_all(cluster: Cluster) -> None:
    await cluster.client.create(config_map("a", {"k": "1"}), cluster.namespace)
    operations: list[dict[str, str]] = [
        {"op": "add", "path": "/data/new", "value": "2"},
        {"op": "test", "path": "/data/k", "value": "something else"},
    ]
    with pytest.raises(Invalid):
        await cluster.client.patch(ConfigMap, "a", operations, namespace=cluster.namespace, type=PatchType.JSON)
    assert (await cluster.client.get(ConfigMap, "a", cluster.namespace)).data == {"k": "1"}
    changed = await cluster.client.patch(
        ConfigMap, "a", operations[:1], namespace=cluster.namespace, type=PatchType.JSON
    )
    assert changed.data == {"k": "1", "new": "2"}


async def test_a_strategic_patch_merges_lists_by_their_key(cluster: Cluster) -> None:
    await cluster.client.create(deployment("a", replicas=0), cluster.namespace)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "example.com/side:1"}]}}}}
    changed = await cluster.client.patch(Deployment, "a", patch, namespace=cluster.namespace, type=PatchType.STRATEGIC)
    assert {each.name for each in changed.spec.template.spec.containers} == {"main", "side"}


async def test_an_apply_patch_creates_then_owns_its_fields(cluster: Cluster) -> None:
    async def apply(data: dict[str, str], manager: str, *, force: bool = False) -> ConfigMap:
        body = {"metadata": {"name": "a"}, "data": data}
        return await cluster.client.patch(
            ConfigMap,
            "a",
            body,
            namespace=cluster.namespace,
            type=PatchType.APPLY,
            field_manager=manager,
            force=force,
        )

    assert (await apply({"one": "1", "two": "2"}, "first")).data == {"one": "1", "two": "2"}
    # What a manager no longer applies goes.
    assert (await apply({"one": "1"}, "first")).data == {"one": "1"}
    # What belongs to another is not taken without force.
    with pytest.raises(Conflict, match="first"):
        await apply({"one": "changed"}, "second")
    assert (await apply({"one": "changed"}, "second", force=True)).data == {"one": "changed"}


async def test_status_and_spec_are_written_apart(cluster: Cluster) -> None:
    group: Manifest = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"queue": "default-queue", "minMember": 2},
    }
    created = await cluster.client.create(group, cluster.namespace)
    assert created["metadata"]["generation"] == 1
    usage = {"resourcesStatus": {"allocated": {"cpu": "1"}}}
    by_status = await cluster.client.patch(
        PodGroup, "g", {"status": usage, "spec": {"minMember": 9}}, namespace=cluster.namespace, subresource="status"
    )
    assert by_status.status.resourcesStatus.allocated == {"cpu": "1"}
    assert by_status.spec.minMember == 2
    assert by_status.metadata.generation == 1
    by_spec = await cluster.client.patch(
        PodGroup, "g", {"status": {"resourcesStatus": None}, "spec": {"minMember": 3}}, namespace=cluster.namespace
    )
    assert by_spec.status.resourcesStatus.allocated == {"cpu": "1"}
    assert by_spec.spec.minMember == 3
    assert by_spec.metadata.generation == 2


async def test_fields_that_no_struct_knows_survive_a_read_modify_write(cluster: Cluster) -> None:
    manifest = pod("p", subdomain="survives", hostname="also")
    await cluster.client.create(manifest, cluster.namespace)
    before = await cluster.client.get(Pod, "p", cluster.namespace)
    labels = {**before.metadata.labels, "seen": "true"}
    await cluster.client.modify(before, _with_labels(before, labels))
    after = await cluster.client.get(untyped(resource_of(Pod)), "p", cluster.namespace)
    assert after["metadata"]["labels"]["seen"] == "true"
    assert after["spec"]["subdomain"] == "survives"
    assert after["spec"]["hostname"] == "also"


async def test_a_modification_of_what_was_changed_since_conflicts(cluster: Cluster) -> None:
    await cluster.client.create(pod("p"), cluster.namespace)
    before = await cluster.client.get(Pod, "p", cluster.namespace)
    await cluster.client.modify(before, _with_labels(before, {"by": "one"}))
    with pytest.raises(Conflict):
        await cluster.client.modify(before, _with_labels(before, {"by": "another"}))


async def test_a_scale_is_read_and_written_by_its_subresource(cluster: Cluster) -> None:
    await cluster.client.create(deployment("d", replicas=0), cluster.namespace)
    path = f"/apis/apps/v1/namespaces/{cluster.namespace}/deployments/d/scale"
    scale = await cluster.client.raw("GET", path)
    assert b'"kind":"Scale"' in scale.body
    patch = {"Content-Type": PatchType.MERGE}
    await cluster.client.raw("PATCH", path, body={"spec": {"replicas": 2}}, headers=patch)
    assert (await cluster.client.get(Deployment, "d", cluster.namespace)).spec.replicas == 2


async def test_what_a_pod_is_made_of_can_not_be_changed_later(cluster: Cluster) -> None:
    await cluster.client.create(pod("p"), cluster.namespace)
    with pytest.raises(Invalid, match="spec"):
        await cluster.client.patch(Pod, "p", {"spec": {"schedulerName": "other"}}, namespace=cluster.namespace)


async def test_a_patch_that_is_not_json_is_a_bad_request(cluster: Cluster) -> None:
    await cluster.client.create(config_map("a"), cluster.namespace)
    path = f"/api/v1/namespaces/{cluster.namespace}/configmaps/a"
    with pytest.raises(BadRequest):
        await cluster.client.raw("PATCH", path, body=b"{not json", headers={"Content-Type": PatchType.MERGE})


async def test_whoever_asks_is_told_what_they_may_do(cluster: Cluster) -> None:
    question = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"namespace": cluster.namespace, "verb": "create", "resource": "pods"}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = json.loads((await cluster.client.raw("POST", path, body=question)).body)
    assert answer["status"]["allowed"] is True


def _with_labels(before: Pod, labels: dict[str, str]) -> Pod:
    return replace(before, metadata=replace(before.metadata, labels=labels))
