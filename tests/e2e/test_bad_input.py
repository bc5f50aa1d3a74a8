"""Bad input is answered, or ends in a condition, with the object, the field and the value; everything else goes on."""

from __future__ import annotations

from typing import Any

import pytest

from bosket.api.core import Pod
from bosket.api.kai import PodGroup, Queue
from bosket.kube.errors import ApiError, BadRequest, Invalid, NotFound
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import config_map, pod

JSON = {"Content-Type": "application/json"}
#: Sub-groups as they should be.
SIMPLE = [{"name": "a", "minMember": 1}]


def queue(name: str, **gpu: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"resources": {"gpu": gpu}},
    }


def pod_group(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"queue": "default-queue", **spec},
    }


async def refusal(cluster: Cluster, manifest: dict[str, Any], namespace: str | None = None) -> ApiError:
    with pytest.raises(ApiError) as raised:
        await cluster.client.create(manifest, namespace)
    return raised.value


def member(name: str, group: str, subgroup: str) -> dict[str, Any]:
    """A pod that says itself where it belongs."""
    made = pod(name, gpus=1, annotations={"pod-group-name": group})
    made["metadata"]["labels"] = {"kai.scheduler/subgroup-name": subgroup}
    return made


async def until_told(cluster: Cluster, group: str, text: str) -> None:
    """The condition of a pod group whose name begins like this has the text."""

    async def told() -> bool:
        groups = (await cluster.client.list(PodGroup, cluster.namespace)).items
        messages = [
            condition.message
            for each in groups
            if each.metadata.name.startswith(group)
            for condition in each.status.schedulingConditions
        ]
        assert any(text in message for message in messages), messages
        return True

    await cluster.eventually(told)


async def until_running(cluster: Cluster, name: str) -> None:
    async def runs() -> bool:
        return (await cluster.client.get(Pod, name, cluster.namespace)).status.phase == "Running"

    await cluster.eventually(runs)


async def test_malformed_json_is_answered_with_a_status(cluster: Cluster) -> None:
    path = f"/api/v1/namespaces/{cluster.namespace}/configmaps"
    with pytest.raises(BadRequest) as raised:
        await cluster.client.raw("POST", path, body=b'{"kind": "ConfigMap", "metadata": {', headers=JSON)
    assert raised.value.status.kind == "Status"
    assert raised.value.status.status == "Failure"
    assert raised.value.code == 400
    await cluster.client.create(config_map("goes-on"), cluster.namespace)


async def test_a_negative_quota_is_refused_by_name_of_the_field(cluster: Cluster) -> None:
    refused = await refusal(cluster, queue(f"{cluster.namespace}-bad", quota=-5))
    assert isinstance(refused, Invalid)
    assert "spec.resources.gpu.quota" in refused.message
    assert "-5" in refused.message
    assert f'"{cluster.namespace}-bad"' in refused.message
    assert "spec.resources.gpu.quota" in {cause.field for cause in refused.details.causes}


async def test_a_quota_between_unlimited_and_nothing_is_refused_with_what_would_be_right(cluster: Cluster) -> None:
    refused = await refusal(cluster, queue(f"{cluster.namespace}-bad", quota=-0.5))
    assert isinstance(refused, Invalid)
    assert "must be 0 or more, or -1 for unlimited" in refused.message


async def test_a_wrong_type_in_a_custom_object_is_refused_by_name_of_the_field(cluster: Cluster) -> None:
    refused = await refusal(cluster, pod_group("bad", minMember="two"), cluster.namespace)
    assert isinstance(refused, Invalid | BadRequest)
    assert "spec.minMember" in refused.message


async def test_a_wrong_type_in_a_built_in_object_is_refused_by_name_of_the_field(cluster: Cluster) -> None:
    manifest = pod("bad")
    manifest["spec"]["containers"][0]["image"] = True
    refused = await refusal(cluster, manifest, cluster.namespace)
    assert isinstance(refused, BadRequest)
    assert "image" in refused.message


async def test_a_rule_between_fields_is_kept(cluster: Cluster) -> None:
    subgroups = [{"name": "a", "minMember": 1}, {"name": "A_b", "minMember": 1}]
    refused = await refusal(cluster, pod_group("bad", subGroups=subgroups), cluster.namespace)
    assert isinstance(refused, Invalid)
    assert "spec.subGroups[1].name" in refused.message


async def test_a_pod_without_containers_is_refused(cluster: Cluster) -> None:
    refused = await refusal(cluster, pod("bad", containers=[]), cluster.namespace)
    assert isinstance(refused, Invalid)
    assert "spec.containers" in refused.message


async def test_a_name_that_can_not_be_is_refused(cluster: Cluster) -> None:
    refused = await refusal(cluster, config_map("Not_A_Name"), cluster.namespace)
    assert isinstance(refused, Invalid)
    assert "metadata.name" in refused.message
    assert "Not_A_Name" in refused.message


async def test_a_kind_that_nobody_serves_is_not_found(cluster: Cluster) -> None:
    with pytest.raises(NotFound) as raised:
        await cluster.client.raw("GET", "/apis/example.com/v1/widgets")
    assert raised.value.code == 404


async def test_a_body_of_another_kind_than_the_path_is_refused(cluster: Cluster) -> None:
    path = f"/api/v1/namespaces/{cluster.namespace}/configmaps"
    with pytest.raises(BadRequest, match="Secret"):
        await cluster.client.raw(
            "POST", path, body={"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}, headers=JSON
        )


async def test_a_pod_group_whose_queue_does_not_exist_says_so_and_others_run(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    await cluster.start_services("podgrouper", "scheduler", "binder")
    await cluster.client.create(pod("lost", gpus=1, queue="no-such-queue"), cluster.namespace)
    await cluster.client.create(pod("found", gpus=1), cluster.namespace)

    async def says_so() -> bool:
        groups = (await cluster.client.list(PodGroup, cluster.namespace)).items
        lost = [each for each in groups if each.spec.queue == "no-such-queue"]
        told = [
            reason for group in lost for condition in group.status.schedulingConditions for reason in condition.reasons
        ]
        return any(each.reason == "QueueDoesNotExist" and "no-such-queue" in each.message for each in told)

    await cluster.eventually(says_so)
    await until_running(cluster, "found")
    assert not (await cluster.client.get(Pod, "lost", cluster.namespace)).spec.nodeName


async def test_queues_in_a_circle_and_below_unknown_parents_are_told_to_their_jobs_and_others_run(
    cluster: Cluster,
) -> None:
    await cluster.add_nodes(1)
    orphan = await cluster.add_queue(parent=f"{cluster.namespace}-nobody")
    ring = await cluster.add_queue()
    other = await cluster.add_queue(parent=ring)
    await cluster.client.patch(Queue, ring, {"spec": {"parentQueue": other}})
    fine = await cluster.add_queue()
    await cluster.start_services("podgrouper", "scheduler", "binder")
    await cluster.client.create(pod("orphan", gpus=1, queue=orphan), cluster.namespace)
    await cluster.client.create(pod("ring", gpus=1, queue=ring), cluster.namespace)
    await cluster.client.create(pod("fine", gpus=1, queue=fine), cluster.namespace)
    await until_running(cluster, "fine")
    await until_told(cluster, "pg-orphan-", f"its parent queue '{cluster.namespace}-nobody' does not exist")
    await until_told(cluster, "pg-ring-", f"its parents form a circle ({ring} → {other} → {ring})")

    await cluster.client.patch(Queue, ring, {"spec": {"parentQueue": None}})
    await cluster.client.create(pod("other", gpus=1, queue=other), cluster.namespace)
    await until_running(cluster, "other")  # the circle is open, and what was wrong is forgotten


async def test_sub_groups_that_can_not_be_followed_are_told_to_their_job_and_others_run(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    await cluster.start_services("scheduler", "binder")  # nobody else touches these pod groups
    wrong = {
        "parentless": [{"name": "a", "minMember": 1, "parent": "nobody"}],
        "circle": [{"name": "a", "minMember": 1, "parent": "b"}, {"name": "b", "parent": "a"}],
    }
    for name, subgroups in wrong.items():
        await cluster.client.create(pod_group(name, subGroups=subgroups), cluster.namespace)
        await cluster.client.create(member(f"{name}-0", name, "a"), cluster.namespace)
    await cluster.client.create(pod_group("greedy", subGroups=SIMPLE, minSubGroup=3), cluster.namespace)
    await cluster.client.create(member("greedy-0", "greedy", "a"), cluster.namespace)
    await cluster.client.create(pod_group("fine", subGroups=SIMPLE), cluster.namespace)
    await cluster.client.create(member("fine-0", "fine", "a"), cluster.namespace)
    await until_running(cluster, "fine-0")
    await until_told(
        cluster, "parentless", "sub-group 'a' names the parent 'nobody', which spec.subGroups doesn't have"
    )
    await until_told(cluster, "circle", "the parents of sub-group 'a' form a circle")
    await until_told(cluster, "greedy", "spec.minSubGroup is 3, there are 1 sub-groups")


async def test_a_pod_of_an_unknown_sub_group_is_told_so_and_the_others_of_its_gang_run(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    await cluster.start_services("scheduler", "binder")
    await cluster.client.create(pod_group("gang", subGroups=SIMPLE), cluster.namespace)
    await cluster.client.create(member("lost", "gang", "nobody"), cluster.namespace)
    await cluster.client.create(member("found", "gang", "a"), cluster.namespace)
    await until_running(cluster, "found")

    async def told() -> bool:
        lost = await cluster.client.get(Pod, "lost", cluster.namespace)
        messages = [each.message for each in lost.status.conditions if each.type == "PodScheduled"]
        assert not lost.spec.nodeName
        return messages == [
            f'Pod references subgroup "nobody", which does not exist in PodGroup {cluster.namespace}/gang'
        ]

    await cluster.eventually(told)


async def test_an_absurd_request_and_a_missing_priority_class_stop_nobody(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    await cluster.start_services("podgrouper", "scheduler", "binder")
    absurd = pod("absurd", gpus=1)
    absurd["spec"]["containers"][0]["resources"] = {"requests": {"memory": "9e99"}}
    await cluster.client.create(absurd, cluster.namespace)
    nobody = pod("nobody", gpus=1)
    nobody["metadata"]["labels"]["priorityClassName"] = "nobody"
    await cluster.client.create(nobody, cluster.namespace)
    await cluster.client.create(pod("fine", gpus=1), cluster.namespace)
    await until_running(cluster, "fine")
    await until_running(cluster, "nobody")
    await until_told(cluster, "pg-absurd-", f"pod {cluster.namespace}/absurd: resources: memory is 9000")
    assert not (await cluster.client.get(Pod, "absurd", cluster.namespace)).spec.nodeName
