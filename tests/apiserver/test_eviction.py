"""Evictions ask the disruption budget."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.test_garbage_collection import settle
from tests.apiserver.world import MERGE, PODS, Doc, World, pod

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
READY = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


async def run(world: World, name: str, *, ready: bool = True, owners: list[Doc] | None = None) -> Doc:
    metadata: Doc = {"labels": {"app": "x"}} | ({"ownerReferences": owners} if owners else {})
    created: Doc = await world.ok("POST", PODS, pod(name, metadata=metadata, nodeName="n"))
    await world.ok("PATCH", f"{PODS}/{name}/status", READY if ready else {"status": {"phase": "Running"}}, MERGE)
    return created


async def guard(world: World, **spec: Any) -> None:
    selector = {"matchLabels": {"app": "x"}}
    await world.ok("POST", BUDGETS, {"metadata": {"name": "b"}, "spec": {"selector": selector, **spec}})


def eviction(name: str, **options: Any) -> Doc:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options}


async def test_without_a_budget_an_eviction_deletes_and_says_why(world: World) -> None:
    await run(world, "a")
    answer = await world.call("POST", f"{PODS}/a/eviction", eviction("a"))
    assert (answer.status, answer.body["status"]) == (201, "Success")
    found = await world.ok("GET", f"{PODS}/a")
    assert found["metadata"]["deletionGracePeriodSeconds"] == 30
    target = next(each for each in found["status"]["conditions"] if each["type"] == "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")


async def test_a_budget_without_room_refuses_and_names_its_numbers(world: World) -> None:
    await guard(world, minAvailable=2)
    await run(world, "a")
    await run(world, "b")
    answer = await world.call("POST", f"{PODS}/a/eviction", eviction("a"))
    assert answer.status == 429
    assert answer.message == "Cannot evict pod as it would violate the pod's disruption budget."
    (cause,) = answer.body["details"]["causes"]
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"] == "The disruption budget b needs 2 healthy pods and has 2 currently"
    assert "retry-after" not in answer.headers  # nobody knows when the budget will have room
    assert "deletionTimestamp" not in (await world.ok("GET", f"{PODS}/a"))["metadata"]


async def test_a_budget_with_room_for_one_lets_one_go(world: World) -> None:
    await guard(world, minAvailable=2)
    for name in "abc":
        await run(world, name)
    await world.ok("POST", f"{PODS}/a/eviction", eviction("a"))
    await world.refused(429, "POST", f"{PODS}/b/eviction", eviction("b"))


async def test_the_size_of_a_workload_counts_not_how_much_of_it_is_there(world: World) -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 4, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    path = "/apis/apps/v1/namespaces/default/replicasets"
    owner = await world.ok("POST", path, {"metadata": {"name": "r"}, "spec": spec})
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": owner["metadata"]["uid"]}
    await guard(world, maxUnavailable="50%")
    for name in "ab":
        await run(world, name, owners=[{**reference, "controller": True}])
    # two of four are missing already
    await world.refused(429, "POST", f"{PODS}/a/eviction", eviction("a"))


async def test_pods_that_serve_nobody_go_without_asking(world: World) -> None:
    await guard(world, minAvailable=5)
    await world.ok("POST", PODS, pod("pending", labels={"app": "x"}))
    await world.ok("POST", f"{PODS}/pending/eviction", eviction("pending"))
    assert not await world.exists(f"{PODS}/pending")


async def test_an_unhealthy_pod_goes_while_the_budget_is_healthy(world: World) -> None:
    await guard(world, minAvailable=1)
    await run(world, "healthy")
    await run(world, "sick", ready=False)
    await world.ok("POST", f"{PODS}/sick/eviction", eviction("sick"))
    await world.refused(429, "POST", f"{PODS}/healthy/eviction", eviction("healthy"))


async def test_options_of_the_deletion_hold(world: World) -> None:
    await run(world, "a")
    wrong = eviction("a", preconditions={"uid": "other"})
    await world.refused(409, "POST", f"{PODS}/a/eviction", wrong)
    await world.ok("POST", f"{PODS}/a/eviction", eviction("a", dryRun=["All"]))
    assert "deletionTimestamp" not in (await world.ok("GET", f"{PODS}/a"))["metadata"]
    await world.ok("POST", f"{PODS}/a/eviction", eviction("a", gracePeriodSeconds=0))
    assert not await world.exists(f"{PODS}/a")
    await world.refused(404, "POST", f"{PODS}/a/eviction", eviction("a"))


async def test_the_status_of_a_budget_is_kept_up_to_date(world: World) -> None:
    async with world.running():
        await guard(world, minAvailable=2)
        for name in "abc":
            await run(world, name)
        await settle()
        status = (await world.ok("GET", f"{BUDGETS}/b"))["status"]
        numbers = [status[key] for key in ("currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed")]
        assert numbers == [3, 2, 3, 1]
        assert status["conditions"][0]["reason"] == "SufficientPods"
        await world.ok("POST", f"{PODS}/a/eviction", eviction("a"))
        await settle()
        assert (await world.ok("GET", f"{BUDGETS}/b"))["status"]["disruptionsAllowed"] == 0


@pytest.mark.parametrize(
    "selector",
    [
        {"matchExpressions": [{"key": "a", "operator": "Equal"}]},
        {"matchExpressions": [{"key": "a", "operator": "In"}]},
        {"matchLabels": {"": "b"}},
        {"matchLabels": {"a": "-1"}},
    ],
)
async def test_a_budget_whose_selector_can_not_be_understood_is_refused(world: World, selector: dict[str, Any]) -> None:
    body = {"metadata": {"name": "b"}, "spec": {"selector": selector, "minAvailable": 1}}
    assert "spec.selector: Invalid value" in (await world.refused(422, "POST", BUDGETS, body))["message"]


@pytest.mark.parametrize("share", ["101%", "²%", "9" * 5000 + "%", "-1%", "1.5%", "%"])
async def test_a_budget_of_a_share_that_can_not_be_is_refused(world: World, share: str) -> None:
    body = {"metadata": {"name": "b"}, "spec": {"selector": {}, "minAvailable": share}}
    assert "spec.minAvailable: Invalid value" in (await world.refused(422, "POST", BUDGETS, body))["message"]
    for good in ("0%", "100%", "0100%", "7%"):
        body["spec"] = {"selector": {}, "minAvailable": good}
        await world.ok("POST", BUDGETS, body, dryRun="All")


async def test_a_budget_that_says_nothing_is_counted(world: World) -> None:
    async with world.running():
        await world.ok("POST", BUDGETS, {"metadata": {"name": "b"}})
        await settle()
    assert (await world.ok("GET", f"{BUDGETS}/b"))["status"]["disruptionsAllowed"] == 0
