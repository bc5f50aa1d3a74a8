"""Binding a pod to a node: once, and only the pod that was meant."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.world import PODS, World


def binding(node: str = "n", **metadata: Any) -> dict[str, Any]:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a", **metadata}, "target": target}


async def test_a_bound_pod_has_a_node_and_says_that_it_is_scheduled(world: World) -> None:
    created = await world.create_pod()
    body = binding(uid=created["metadata"]["uid"], annotations={"x": "y"})
    answer = await world.call("POST", f"{PODS}/a/binding", body)
    assert answer.status == 201
    assert (answer.body["kind"], answer.body["status"]) == ("Status", "Success")
    bound = await world.ok("GET", f"{PODS}/a")
    assert bound["spec"]["nodeName"] == "n"
    assert bound["metadata"]["annotations"] == {"x": "y"}
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


async def test_a_pod_is_bound_once(world: World) -> None:
    await world.create_pod()
    await world.ok("POST", f"{PODS}/a/binding", binding("n1"))
    status = await world.refused(409, "POST", f"{PODS}/a/binding", binding("n2"))
    assert status["message"] == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"'
    )
    assert (await world.ok("GET", f"{PODS}/a"))["spec"]["nodeName"] == "n1"


async def test_a_pod_of_the_same_name_is_not_the_same_pod(world: World) -> None:
    first = await world.create_pod()
    await world.ok("DELETE", f"{PODS}/a")
    await world.create_pod()
    status = await world.refused(409, "POST", f"{PODS}/a/binding", binding(uid=first["metadata"]["uid"]))
    assert "UID in precondition" in status["message"]


async def test_a_gated_pod_is_not_bound(world: World) -> None:
    await world.create_pod("a", schedulingGates=[{"name": "x.io/g"}])
    status = await world.refused(409, "POST", f"{PODS}/a/binding", binding())
    assert "non-empty .spec.schedulingGates" in status["message"]


async def test_a_pod_that_is_going_is_not_bound(world: World) -> None:
    from tests.apiserver.world import pod

    await world.ok("POST", PODS, pod("a", metadata={"finalizers": ["x.io/f"]}))
    await world.ok("DELETE", f"{PODS}/a")
    status = await world.refused(409, "POST", f"{PODS}/a/binding", binding())
    assert "is being deleted, cannot be assigned to a host" in status["message"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (binding(""), 422),
        ({"metadata": {"name": "b"}, "target": {"name": "n"}}, 400),
        ({"metadata": {"name": "a"}, "target": {"kind": "Pod", "name": "n"}}, 422),
        ({"metadata": {"name": "a"}, "target": "n"}, 400),
    ],
)
async def test_a_binding_that_makes_no_sense_is_refused(world: World, body: dict[str, Any], code: int) -> None:
    await world.create_pod()
    await world.refused(code, "POST", f"{PODS}/a/binding", body)


async def test_nothing_is_bound_that_is_not_there(world: World) -> None:
    await world.refused(404, "POST", f"{PODS}/a/binding", binding())
    await world.refused(405, "GET", f"{PODS}/a/binding")


async def test_a_pod_that_has_changed_since_is_not_bound_where_a_version_is_asked_for(world: World) -> None:
    before = (await world.create_pod())["metadata"]["resourceVersion"]
    await world.ok(
        "PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, content_type="application/merge-patch+json"
    )
    status = await world.refused(409, "POST", f"{PODS}/a/binding", binding(resourceVersion=before))
    assert "ResourceVersion in precondition" in status["message"]
    now = (await world.ok("GET", f"{PODS}/a"))["metadata"]["resourceVersion"]
    await world.ok("POST", f"{PODS}/a/binding", binding(resourceVersion=now))
