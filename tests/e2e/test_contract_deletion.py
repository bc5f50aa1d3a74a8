"""What every API server promises about deletion: of one, of many, of owners, of namespaces, and evictions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bosket.api.core import Node
from bosket.api.object import ObjectMeta
from bosket.kube.errors import ApiError, BadRequest, Conflict, Forbidden, Invalid, NotFound, TooManyRequests
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import Manifest, config_map, job, pod

Doc = dict[str, Any]
HOLD = "example.com/hold"


def path(cluster: Cluster, plural: str, name: str = "", *, group: str = "api/v1", namespace: str = "") -> str:
    return f"/{group}/namespaces/{namespace or cluster.namespace}/{plural}" + (f"/{name}" if name else "")


async def get(cluster: Cluster, plural: str, name: str = "", **where: str) -> Doc:
    found: Doc = json.loads((await cluster.client.raw("GET", path(cluster, plural, name, **where))).body)
    return found


async def delete(cluster: Cluster, url: str, **options: Any) -> Doc:
    """DELETE with these options in the body, as kubectl and Go clients send them."""
    body = {"apiVersion": "v1", "kind": "DeleteOptions", **options} if options else None
    answer: Doc = json.loads((await cluster.client.raw("DELETE", url, body=body)).body)
    return answer


async def make(cluster: Cluster, name: str, *owners: Doc, blocking: bool = False, **metadata: Any) -> Doc:
    """A ConfigMap, owned by these."""
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            **({"blockOwnerDeletion": True} if blocking else {}),
        }
        for owner in owners
    ]
    if references:
        metadata["ownerReferences"] = references
    created: Doc = await cluster.client.create(config_map(name, **metadata), cluster.namespace)
    return created


async def exists(cluster: Cluster, plural: str, name: str, **where: str) -> bool:
    try:
        await get(cluster, plural, name, **where)
    except NotFound:
        return False
    return True


async def until_gone(cluster: Cluster, plural: str, *names: str, **where: str) -> None:
    async def all_are_gone() -> bool:
        return not any([await exists(cluster, plural, name, **where) for name in names])

    await cluster.eventually(all_are_gone)


async def release(cluster: Cluster, name: str) -> None:
    """Take the finalizers from a ConfigMap."""
    patch = {"metadata": {"finalizers": None}}
    headers = {"content-type": "application/merge-patch+json"}
    await cluster.client.raw("PATCH", path(cluster, "configmaps", name), body=patch, headers=headers)


# ── one object ──


async def test_a_deletion_answers_with_a_status_that_names_what_is_gone(cluster: Cluster) -> None:
    made = await make(cluster, "a")
    answer = await delete(cluster, path(cluster, "configmaps", "a"))
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    assert not await exists(cluster, "configmaps", "a")
    with pytest.raises(NotFound) as missing:
        await delete(cluster, path(cluster, "configmaps", "a"))
    assert missing.value.message == 'configmaps "a" not found'
    assert missing.value.details.kind == "configmaps"


async def test_the_deletion_of_some_kinds_answers_with_the_object(cluster: Cluster) -> None:
    await cluster.client.create(pod("p"), cluster.namespace)
    answer = await delete(cluster, path(cluster, "pods", "p"))
    assert (answer["kind"], answer["metadata"]["name"]) == ("Pod", "p")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    await cluster.client.create(account, cluster.namespace)
    answer = await delete(cluster, path(cluster, "serviceaccounts", "robot"))
    assert (answer["kind"], answer["metadata"]["name"]) == ("ServiceAccount", "robot")


async def test_what_has_finalizers_is_marked_and_stays(cluster: Cluster) -> None:
    await make(cluster, "held", finalizers=[HOLD, "example.com/other"])
    answer = await delete(cluster, path(cluster, "configmaps", "held"))
    marked = answer["metadata"]
    assert answer["kind"] == "ConfigMap"
    assert marked["deletionGracePeriodSeconds"] == 0
    again = (await delete(cluster, path(cluster, "configmaps", "held")))["metadata"]
    assert again["deletionTimestamp"] == marked["deletionTimestamp"]
    assert again["resourceVersion"] == marked["resourceVersion"]
    patch_headers = {"content-type": "application/merge-patch+json"}
    url = path(cluster, "configmaps", "held")
    for finalizers in ([HOLD, "example.com/other", "example.com/new"], ["example.com/new"]):
        body = {"metadata": {"finalizers": finalizers}}
        with pytest.raises(Invalid, match="no new finalizers can be added if the object is being deleted"):
            await cluster.client.raw("PATCH", url, body=body, headers=patch_headers)
    await cluster.client.raw("PATCH", url, body={"data": {"still": "writable"}}, headers=patch_headers)
    await cluster.client.raw("PATCH", url, body={"metadata": {"finalizers": [HOLD]}}, headers=patch_headers)
    assert (await get(cluster, "configmaps", "held"))["data"] == {"still": "writable"}
    await release(cluster, "held")
    assert not await exists(cluster, "configmaps", "held")


async def test_a_dry_run_deletes_nothing(cluster: Cluster) -> None:
    await make(cluster, "a")
    await make(cluster, "b", finalizers=[HOLD])
    await delete(cluster, path(cluster, "configmaps", "a"), dryRun=["All"])
    await cluster.client.raw("DELETE", path(cluster, "configmaps", "a"), query=(("dryRun", "All"),))
    await delete(cluster, path(cluster, "configmaps", "b"), dryRun=["All"])
    await cluster.client.raw("DELETE", path(cluster, "configmaps"), query=(("dryRun", "All"),))
    assert "deletionTimestamp" not in (await get(cluster, "configmaps", "a"))["metadata"]
    assert "deletionTimestamp" not in (await get(cluster, "configmaps", "b"))["metadata"]
    await release(cluster, "b")


async def test_a_deletion_can_insist_on_uid_and_version(cluster: Cluster) -> None:
    meta = (await make(cluster, "a"))["metadata"]
    url = path(cluster, "configmaps", "a")
    with pytest.raises(Conflict, match="the UID in the precondition"):
        await delete(cluster, url, preconditions={"uid": "00000000-0000-0000-0000-000000000000"})
    with pytest.raises(Conflict, match="the ResourceVersion in the precondition"):
        await delete(cluster, url, preconditions={"uid": meta["uid"], "resourceVersion": "1"})
    await delete(cluster, url, preconditions={"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]})
    assert not await exists(cluster, "configmaps", "a")


async def test_options_that_contradict_each_other_are_refused(cluster: Cluster) -> None:
    await make(cluster, "a")
    url = path(cluster, "configmaps", "a")
    with pytest.raises(Invalid, match="propagationPolicy"):
        await delete(cluster, url, propagationPolicy="Sometimes")
    with pytest.raises(Invalid, match="orphanDependents and deletionPropagation cannot be both set"):
        await delete(cluster, url, propagationPolicy="Orphan", orphanDependents=True)
    with pytest.raises(Invalid, match="dryRun"):
        await delete(cluster, url, dryRun=["Some"])
    with pytest.raises(BadRequest):
        await delete(cluster, url, gracePeriodSeconds="soon")
    assert await exists(cluster, "configmaps", "a")


# ── pods ──


async def silent_node(cluster: Cluster) -> str:
    """A node on which no kubelet answers: pods on it go when their time has come, or when they are made to."""
    name = f"{cluster.namespace}-silent"
    await cluster.add(Node(metadata=ObjectMeta(name=name)))
    return name


async def test_a_pod_on_a_node_is_given_its_grace_which_can_only_be_shortened(cluster: Cluster) -> None:
    node = await silent_node(cluster)
    await cluster.client.create(pod("p", nodeName=node, terminationGracePeriodSeconds=300), cluster.namespace)
    url = path(cluster, "pods", "p")
    first = (await delete(cluster, url))["metadata"]
    assert first["deletionGracePeriodSeconds"] == 300
    longer = (await delete(cluster, url, gracePeriodSeconds=600))["metadata"]
    assert longer["deletionGracePeriodSeconds"] == 300
    assert longer["deletionTimestamp"] == first["deletionTimestamp"]
    shorter = (await delete(cluster, url, gracePeriodSeconds=100))["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 100
    assert shorter["deletionTimestamp"] < first["deletionTimestamp"]
    assert await exists(cluster, "pods", "p")
    await delete(cluster, url, gracePeriodSeconds=0)
    assert not await exists(cluster, "pods", "p")


async def test_a_pod_goes_at_once_when_nobody_has_to_stop_it(cluster: Cluster) -> None:
    node = await silent_node(cluster)
    await cluster.client.create(pod("unbound", terminationGracePeriodSeconds=300), cluster.namespace)
    await delete(cluster, path(cluster, "pods", "unbound"))
    assert not await exists(cluster, "pods", "unbound")
    await cluster.client.create(pod("over", nodeName=node, terminationGracePeriodSeconds=300), cluster.namespace)
    headers = {"content-type": "application/merge-patch+json"}
    url = path(cluster, "pods", "over")
    await cluster.client.raw("PATCH", f"{url}/status", body={"status": {"phase": "Succeeded"}}, headers=headers)
    await delete(cluster, url)
    assert not await exists(cluster, "pods", "over")
    await cluster.client.create(pod("forced", nodeName=node, terminationGracePeriodSeconds=300), cluster.namespace)
    query = (("gracePeriodSeconds", "0"),)
    await cluster.client.raw("DELETE", path(cluster, "pods", "forced"), query=query)
    assert not await exists(cluster, "pods", "forced")


# ── many ──


async def test_of_many_those_that_are_selected_are_deleted_and_listed(cluster: Cluster) -> None:
    for name, colour in (("a", "red"), ("b", "red"), ("c", "blue")):
        await make(cluster, name, labels={"colour": colour})
    await make(cluster, "held", labels={"colour": "red"}, finalizers=[HOLD])
    url = path(cluster, "configmaps")
    response = await cluster.client.raw("DELETE", url, query=(("labelSelector", "colour=red"),))
    answer = json.loads(response.body)
    assert answer["kind"] == "ConfigMapList"
    assert sorted(each["metadata"]["name"] for each in answer["items"]) == ["a", "b", "held"]
    left = (await get(cluster, "configmaps"))["items"]
    assert {"c", "held"} <= {each["metadata"]["name"] for each in left}
    assert not {"a", "b"} & {each["metadata"]["name"] for each in left}
    assert (await get(cluster, "configmaps", "held"))["metadata"]["deletionTimestamp"]
    await cluster.client.raw("DELETE", url, query=(("fieldSelector", "metadata.name=c"),))
    assert not await exists(cluster, "configmaps", "c")
    await release(cluster, "held")


async def test_namespaces_are_not_deleted_by_the_dozen(cluster: Cluster) -> None:
    with pytest.raises(ApiError) as refusal:
        await cluster.client.raw("DELETE", "/api/v1/namespaces")
    assert (refusal.value.code, refusal.value.reason) == (405, "MethodNotAllowed")


# ── owners ──


async def test_background_deletion_takes_owners_first_and_dependents_after(cluster: Cluster) -> None:
    owner = await make(cluster, "owner")
    child = await make(cluster, "child", owner)
    await make(cluster, "grandchild", child)
    await delete(cluster, path(cluster, "configmaps", "owner"), propagationPolicy="Background")
    assert not await exists(cluster, "configmaps", "owner")
    await until_gone(cluster, "configmaps", "child", "grandchild")


async def test_foreground_deletion_takes_dependents_first(cluster: Cluster) -> None:
    owner = await make(cluster, "owner")
    child = await make(cluster, "child", owner, blocking=True)
    await make(cluster, "grandchild", child, blocking=True, finalizers=[HOLD])
    answer = await delete(cluster, path(cluster, "configmaps", "owner"), propagationPolicy="Foreground")
    assert answer["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert answer["metadata"]["deletionTimestamp"]

    async def grandchild_is_marked() -> bool:
        return "deletionTimestamp" in (await get(cluster, "configmaps", "grandchild"))["metadata"]

    await cluster.eventually(grandchild_is_marked)
    waiting = (await get(cluster, "configmaps", "child"))["metadata"]
    assert waiting["finalizers"] == ["foregroundDeletion"]
    assert await exists(cluster, "configmaps", "owner")
    await release(cluster, "grandchild")
    await until_gone(cluster, "configmaps", "grandchild", "child", "owner")


async def test_foreground_deletion_does_not_wait_for_those_who_do_not_block_it(cluster: Cluster) -> None:
    owner = await make(cluster, "owner")
    await make(cluster, "held", owner, finalizers=[HOLD])
    await delete(cluster, path(cluster, "configmaps", "owner"), propagationPolicy="Foreground")
    await until_gone(cluster, "configmaps", "owner")

    async def held_is_marked() -> bool:
        return "deletionTimestamp" in (await get(cluster, "configmaps", "held"))["metadata"]

    await cluster.eventually(held_is_marked)
    await release(cluster, "held")
    await until_gone(cluster, "configmaps", "held")


@pytest.mark.parametrize("options", [{"propagationPolicy": "Orphan"}, {"orphanDependents": True}])
async def test_orphans_lose_their_owner_and_stay(cluster: Cluster, options: Doc) -> None:
    owner, other = await make(cluster, "owner"), await make(cluster, "other")
    await make(cluster, "child", owner)
    await make(cluster, "shared", owner, other)
    await delete(cluster, path(cluster, "configmaps", "owner"), **options)
    await until_gone(cluster, "configmaps", "owner")
    assert "ownerReferences" not in (await get(cluster, "configmaps", "child"))["metadata"]
    references = (await get(cluster, "configmaps", "shared"))["metadata"]["ownerReferences"]
    assert [each["name"] for each in references] == ["other"]


async def test_one_of_two_owners_is_enough(cluster: Cluster) -> None:
    first, second = await make(cluster, "first"), await make(cluster, "second")
    await make(cluster, "child", first, second)
    await delete(cluster, path(cluster, "configmaps", "first"), propagationPolicy="Background")

    async def child_forgot_the_first() -> bool:
        references = (await get(cluster, "configmaps", "child"))["metadata"]["ownerReferences"]
        return [each["name"] for each in references] == ["second"]

    await cluster.eventually(child_forgot_the_first)
    await delete(cluster, path(cluster, "configmaps", "second"), propagationPolicy="Background")
    await until_gone(cluster, "configmaps", "child")


async def test_what_names_an_owner_that_never_was_is_collected(cluster: Cluster) -> None:
    ghost = {"metadata": {"name": "ghost", "uid": "11111111-2222-3333-4444-555555555555"}}
    await make(cluster, "child", ghost)
    await until_gone(cluster, "configmaps", "child")
    # One of that name is there, and is another one.
    await make(cluster, "ghost")
    await make(cluster, "child", ghost)
    await until_gone(cluster, "configmaps", "child")
    assert await exists(cluster, "configmaps", "ghost")


async def test_a_deletion_can_be_turned_from_foreground_to_orphan(cluster: Cluster) -> None:
    owner = await make(cluster, "owner", finalizers=[HOLD])
    await make(cluster, "child", owner, blocking=True, finalizers=[HOLD])
    await delete(cluster, path(cluster, "configmaps", "owner"), propagationPolicy="Foreground")
    await delete(cluster, path(cluster, "configmaps", "owner"), propagationPolicy="Orphan")

    async def child_is_free() -> bool:
        return "ownerReferences" not in (await get(cluster, "configmaps", "child"))["metadata"]

    await cluster.eventually(child_is_free)

    async def only_ours_is_left() -> bool:
        return bool((await get(cluster, "configmaps", "owner"))["metadata"]["finalizers"] == [HOLD])

    await cluster.eventually(only_ours_is_left)
    await release(cluster, "owner")
    await release(cluster, "child")


# ── workloads ──


async def test_a_job_that_is_deleted_without_a_word_leaves_its_pods_and_says_so(cluster: Cluster) -> None:
    await cluster.client.create(job("train", pods=1), cluster.namespace)

    async def pod_is_there() -> list[Doc] | None:
        found: list[Doc] = (await get(cluster, "pods"))["items"]
        return found

    found = await cluster.eventually(pod_is_there)
    assert found[0]["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] is True
    response = await cluster.client.raw("DELETE", path(cluster, "jobs", "train", group="apis/batch/v1"))
    assert "child pods are preserved by default when jobs are deleted" in response.headers["warning"]
    await until_gone(cluster, "jobs", "train", group="apis/batch/v1")
    (left,) = (await get(cluster, "pods"))["items"]
    assert "ownerReferences" not in left["metadata"]
    assert "deletionTimestamp" not in left["metadata"]


async def test_a_finished_job_goes_when_its_time_is_over_and_takes_its_pods_along(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    manifest = job("brief", pods=1, run_duration="100ms", nodeName=node)
    manifest["spec"]["ttlSecondsAfterFinished"] = 0
    await cluster.client.create(manifest, cluster.namespace)
    await until_gone(cluster, "jobs", "brief", group="apis/batch/v1")

    async def no_pods() -> bool:
        return not (await get(cluster, "pods"))["items"]

    await cluster.eventually(no_pods)


# ── namespaces ──


async def test_a_namespace_that_cannot_be_emptied_says_why(cluster: Cluster) -> None:
    name = f"{cluster.namespace}-inner"
    await cluster.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    await cluster.client.create(config_map("held", finalizers=[HOLD]), name)
    await cluster.client.create(config_map("free"), name)
    url = f"/api/v1/namespaces/{name}"
    answer = await delete(cluster, url)
    assert answer["status"]["phase"] == "Terminating"
    assert answer["spec"]["finalizers"] == ["kubernetes"]

    async def conditions() -> dict[str, Doc] | None:
        found = json.loads((await cluster.client.raw("GET", url)).body)["status"].get("conditions", ())
        by_type = {each["type"]: each for each in found}
        return by_type if by_type.get("NamespaceFinalizersRemaining", {}).get("status") == "True" else None

    seen = await cluster.eventually(conditions)
    assert {kind: (each["status"], each["reason"]) for kind, each in seen.items()} == {
        "NamespaceDeletionDiscoveryFailure": ("False", "ResourcesDiscovered"),
        "NamespaceDeletionGroupVersionParsingFailure": ("False", "ParsedGroupVersions"),
        "NamespaceDeletionContentFailure": ("False", "ContentDeleted"),
        "NamespaceContentRemaining": ("True", "SomeResourcesRemain"),
        "NamespaceFinalizersRemaining": ("True", "SomeFinalizersRemain"),
    }
    message = seen["NamespaceContentRemaining"]["message"]
    assert message == "Some resources are remaining: configmaps. has 1 resource instances"
    message = seen["NamespaceFinalizersRemaining"]["message"]
    assert message == f"Some content in the namespace has finalizers remaining: {HOLD} in 1 resource instances"
    assert not await exists(cluster, "configmaps", "free", namespace=name)
    with pytest.raises(Forbidden, match="because it is being terminated") as late:
        await cluster.client.create(config_map("late"), name)
    assert [cause.reason for cause in late.value.details.causes] == ["NamespaceTerminating"]
    headers = {"content-type": "application/merge-patch+json"}
    held = path(cluster, "configmaps", "held", namespace=name)
    await cluster.client.raw("PATCH", held, body={"metadata": {"finalizers": None}}, headers=headers)

    async def namespace_is_gone() -> bool:
        try:
            await cluster.client.raw("GET", url)
        except NotFound:
            return True
        return False

    await cluster.eventually(namespace_is_gone)


async def test_a_namespace_waits_for_the_finalizers_of_others(cluster: Cluster) -> None:
    name = f"{cluster.namespace}-inner"
    url = f"/api/v1/namespaces/{name}"
    await cluster.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    namespace = json.loads((await cluster.client.raw("GET", url)).body)
    namespace["spec"]["finalizers"].append(HOLD)
    await cluster.client.raw("PUT", f"{url}/finalize", body=namespace)
    await delete(cluster, url)

    async def only_ours_is_left() -> Doc | None:
        found: Doc = json.loads((await cluster.client.raw("GET", url)).body)
        return found if found["spec"].get("finalizers") == [HOLD] else None

    emptied = await cluster.eventually(only_ours_is_left)
    assert emptied["status"]["phase"] == "Terminating"
    emptied["spec"]["finalizers"] = []
    await cluster.client.raw("PUT", f"{url}/finalize", body=emptied)
    with pytest.raises(NotFound):
        await cluster.client.raw("GET", url)


async def test_the_namespaces_of_the_system_stay(cluster: Cluster) -> None:
    for name in ("default", "kube-system", "kube-public"):
        with pytest.raises(Forbidden, match="this namespace may not be deleted"):
            await delete(cluster, f"/api/v1/namespaces/{name}")


# ── evictions ──


def budget(name: str, **spec: Any) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "guarded"}}, **spec},
    }


async def evict(cluster: Cluster, name: str, **more: Any) -> Doc:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **more}
    response = await cluster.client.raw("POST", f"{path(cluster, 'pods', name)}/eviction", body=body)
    answer: Doc = json.loads(response.body)
    return answer


async def guarded_pods(cluster: Cluster, *names: str, **spec: Any) -> None:
    """Pods that a budget may guard; running and ready."""
    node, *_ = await cluster.add_nodes(1)
    for name in names:
        manifest = pod(name, nodeName=node, **spec)
        manifest["metadata"]["labels"] = {"app": "guarded"}
        await cluster.client.create(manifest, cluster.namespace)

    async def all_ready() -> bool:
        found = [await get(cluster, "pods", name) for name in names]
        return all(
            any(each["type"] == "Ready" and each["status"] == "True" for each in one["status"].get("conditions", ()))
            for one in found
        )

    await cluster.eventually(all_ready)


async def counted(cluster: Cluster, name: str, **wanted: int) -> Doc:
    """The status of a budget as soon as it says that."""

    async def status() -> Doc | None:
        found: Doc = (await get(cluster, "poddisruptionbudgets", name, group="apis/policy/v1")).get("status", {})
        return found if all(found.get(key) == value for key, value in wanted.items()) else None

    return await cluster.eventually(status)


async def test_an_eviction_that_a_budget_forbids_is_refused_with_the_reason(cluster: Cluster) -> None:
    await guarded_pods(cluster, "a", "b")
    await cluster.client.create(budget("both", minAvailable=2), cluster.namespace)
    status = await counted(cluster, "both", currentHealthy=2, desiredHealthy=2, observedGeneration=1)
    assert (status["expectedPods"], status["disruptionsAllowed"]) == (2, 0)
    (condition,) = status["conditions"]
    assert condition["type"] == "DisruptionAllowed"
    assert (condition["status"], condition["reason"]) == ("False", "InsufficientPods")
    with pytest.raises(TooManyRequests) as refusal:
        await evict(cluster, "a")
    assert refusal.value.message == "Cannot evict pod as it would violate the pod's disruption budget."
    (cause,) = refusal.value.details.causes
    assert cause.reason == "DisruptionBudget"
    assert cause.message == "The disruption budget both needs 2 healthy pods and has 2 currently"
    assert "deletionTimestamp" not in (await get(cluster, "pods", "a"))["metadata"]


async def test_an_eviction_that_a_budget_allows_is_a_deletion_that_is_counted(cluster: Cluster) -> None:
    await guarded_pods(cluster, "a", "b", terminationGracePeriodSeconds=30, annotations={"bosket.dev/stop-delay": "1s"})
    await cluster.client.create(budget("one", minAvailable=1), cluster.namespace)
    await counted(cluster, "one", currentHealthy=2, disruptionsAllowed=1, observedGeneration=1)
    answer = await evict(cluster, "a", deleteOptions={"dryRun": ["All"]})
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert "deletionTimestamp" not in (await get(cluster, "pods", "a"))["metadata"]
    answer = await evict(cluster, "a")
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    going = await get(cluster, "pods", "a")
    assert going["metadata"]["deletionGracePeriodSeconds"] == 30
    (target,) = [each for each in going["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")
    with pytest.raises(TooManyRequests):
        await evict(cluster, "b")
    await evict(cluster, "a")  # is on its way already: nobody has to be asked
    await until_gone(cluster, "pods", "a")


async def test_a_pod_that_is_not_ready_may_go_where_the_budget_says_so(cluster: Cluster) -> None:
    node = await silent_node(cluster)
    for name in ("pending", "sick"):
        manifest = pod(name, nodeName=node)
        manifest["metadata"]["labels"] = {"app": "guarded"}
        await cluster.client.create(manifest, cluster.namespace)
    headers = {"content-type": "application/merge-patch+json"}
    url = f"{path(cluster, 'pods', 'sick')}/status"
    await cluster.client.raw("PATCH", url, body={"status": {"phase": "Running"}}, headers=headers)
    await cluster.client.create(budget("strict", minAvailable=1), cluster.namespace)
    await counted(cluster, "strict", currentHealthy=0, desiredHealthy=1, observedGeneration=1)
    await evict(cluster, "pending")
    with pytest.raises(TooManyRequests):
        await evict(cluster, "sick")
    await cluster.client.raw(
        "PATCH",
        path(cluster, "poddisruptionbudgets", "strict", group="apis/policy/v1"),
        body={"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}},
        headers=headers,
    )

    async def evicted() -> bool:
        try:
            await evict(cluster, "sick")
        except TooManyRequests:
            return False  # the budget's new state isn't counted yet
        return True

    await cluster.eventually(evicted)
    assert "deletionTimestamp" in (await get(cluster, "pods", "sick"))["metadata"]


async def test_evictions_that_make_no_sense_are_refused(cluster: Cluster) -> None:
    await guarded_pods(cluster, "a")
    with pytest.raises(NotFound):
        await evict(cluster, "nobody")
    with pytest.raises(Conflict):
        await evict(cluster, "a", deleteOptions={"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}})
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "b"}}
    with pytest.raises(BadRequest, match="name"):
        await cluster.client.raw("POST", f"{path(cluster, 'pods', 'a')}/eviction", body=body)
    for name in ("one", "two"):
        await cluster.client.create(budget(name, minAvailable=0), cluster.namespace)
        await counted(cluster, name, currentHealthy=1, observedGeneration=1)
    with pytest.raises(ApiError, match="This pod has more than one PodDisruptionBudget") as confused:
        await evict(cluster, "a")
    assert confused.value.code == 500


async def test_a_budget_of_a_share_needs_to_know_how_many_there_should_be(cluster: Cluster) -> None:
    await guarded_pods(cluster, "a", "b")
    await cluster.client.create(budget("share", maxUnavailable=1), cluster.namespace)
    status = await counted(cluster, "share", currentHealthy=2, observedGeneration=1)
    assert (status["expectedPods"], status["disruptionsAllowed"]) == (0, 0)
    with pytest.raises(TooManyRequests):
        await evict(cluster, "a")


async def test_a_budget_over_pods_of_a_kind_without_scale_says_that_it_fails(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    manifest = job("train", pods=1, nodeName=node)
    manifest["spec"]["template"]["metadata"]["labels"] = {"app": "guarded"}
    await cluster.client.create(manifest, cluster.namespace)
    await cluster.client.create(budget("share", minAvailable="50%"), cluster.namespace)

    async def failure() -> Doc | None:
        found = await get(cluster, "poddisruptionbudgets", "share", group="apis/policy/v1")
        conditions: list[Doc] = found.get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["reason"] == "SyncFailed"), None)

    condition = await cluster.eventually(failure)
    assert condition["message"] == "jobs.batch does not implement the scale subresource"
