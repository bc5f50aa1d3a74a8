"""The scale subresource."""

from __future__ import annotations

import pytest

from tests.apiserver.world import DEFINITIONS, JSON_PATCH, MERGE, WIDGETS, World, definition, widget

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture
async def deployed(world: World) -> World:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await world.ok("POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
    await world.ok("PATCH", f"{DEPLOYMENTS}/d/status", {"status": {"replicas": 1}}, MERGE)
    return world


async def test_a_scale_shows_numbers_and_selector(deployed: World) -> None:
    scale = await deployed.ok("GET", f"{DEPLOYMENTS}/d/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 1, "selector": "a=b"}


@pytest.mark.parametrize(
    ("body", "content_type"),
    [({"spec": {"replicas": 5}}, MERGE), ([{"op": "replace", "path": "/spec/replicas", "value": 5}], JSON_PATCH)],
)
async def test_a_scale_is_patched(deployed: World, body: object, content_type: str) -> None:
    scale = await deployed.ok("PATCH", f"{DEPLOYMENTS}/d/scale", body, content_type)
    assert scale["spec"] == {"replicas": 5}
    found = await deployed.ok("GET", f"{DEPLOYMENTS}/d")
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (5, 2)


async def test_a_scale_is_replaced_from_the_version_that_was_seen(deployed: World) -> None:
    scale = await deployed.ok("GET", f"{DEPLOYMENTS}/d/scale")
    scale["spec"]["replicas"] = 3
    await deployed.ok("PUT", f"{DEPLOYMENTS}/d/scale", scale)
    scale["spec"]["replicas"] = 4
    await deployed.refused(409, "PUT", f"{DEPLOYMENTS}/d/scale", scale)


async def test_a_negative_scale_is_refused(deployed: World) -> None:
    status = await deployed.refused(422, "PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": -1}}, MERGE)
    assert "spec.replicas: Invalid value: -1: must be greater than or equal to 0" in status["message"]
    await deployed.refused(422, "PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": "many"}}, MERGE)
    await deployed.refused(404, "GET", f"{DEPLOYMENTS}/other/scale")


async def test_a_custom_resource_scales_by_the_paths_of_its_definition(world: World) -> None:
    keep = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    scale = {
        "specReplicasPath": ".spec.size.count",
        "statusReplicasPath": ".status.count",
        "labelSelectorPath": ".status.selector",
    }
    await world.ok("POST", DEFINITIONS, definition(keep, subresources={"status": {}, "scale": scale}))
    await world.ok("POST", WIDGETS, widget())
    await world.ok("PATCH", f"{WIDGETS}/w/status", {"status": {"count": 1, "selector": "a=b"}}, MERGE)
    found = await world.ok("PATCH", f"{WIDGETS}/w/scale", {"spec": {"replicas": 7}}, MERGE)
    assert (found["spec"], found["status"]) == ({"replicas": 7}, {"replicas": 1, "selector": "a=b"})
    assert (await world.ok("GET", f"{WIDGETS}/w"))["spec"] == {"size": {"count": 7}}


async def test_a_custom_resource_that_has_no_place_for_replicas_is_not_scaled(world: World) -> None:
    scale = {"specReplicasPath": ".spec.size.count", "statusReplicasPath": ".status.count"}
    await world.ok("POST", DEFINITIONS, definition(subresources={"scale": scale}))
    await world.ok("POST", WIDGETS, widget(spec={"size": "large"}))
    for method, content_type in (("PUT", "application/json"), ("PATCH", MERGE)):
        refusal = await world.refused(422, method, f"{WIDGETS}/w/scale", {"spec": {"replicas": 7}}, content_type)
        assert "spec.size: Invalid value" in refusal["message"]
        assert "must be an object to hold spec.size.count, not a string" in refusal["message"]
    assert (await world.ok("GET", f"{WIDGETS}/w"))["spec"] == {"size": "large"}
