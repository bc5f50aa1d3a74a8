"""Namespaces: what they have, and how they go."""

from __future__ import annotations

import pytest

from tests.apiserver.test_garbage_collection import settle
from tests.apiserver.world import DEFINITIONS, MERGE, World, config_map, definition, pod, widget

NAMESPACES = "/api/v1/namespaces"


async def make(world: World) -> None:
    await world.ok("POST", NAMESPACES, {"metadata": {"name": "t"}})


async def test_a_namespace_is_active_and_labelled_with_its_name(world: World) -> None:
    created = await world.ok("POST", NAMESPACES, {"metadata": {"name": "t"}})
    assert created["status"] == {"phase": "Active"}
    assert created["spec"]["finalizers"] == ["kubernetes"]
    assert created["metadata"]["labels"] == {"kubernetes.io/metadata.name": "t"}


async def test_a_namespace_drains_and_goes(world: World) -> None:
    await make(world)
    await world.ok("POST", DEFINITIONS, definition())
    await world.ok("POST", f"{NAMESPACES}/t/configmaps", config_map("a"))
    await world.ok("POST", "/apis/example.com/v1/namespaces/t/widgets", widget())
    async with world.running():
        marked = await world.ok("DELETE", f"{NAMESPACES}/t")
        assert marked["status"]["phase"] == "Terminating"
        await world.until_gone(f"{NAMESPACES}/t")
    assert (await world.ok("GET", "/api/v1/configmaps"))["items"] == []
    assert (await world.ok("GET", "/apis/example.com/v1/widgets"))["items"] == []


async def test_a_namespace_waits_for_its_pods_and_says_so(world: World) -> None:
    await make(world)
    async with world.running():
        await world.ok("POST", f"{NAMESPACES}/t/pods", pod("a", nodeName="n"))
        await world.ok("DELETE", f"{NAMESPACES}/t")
        await settle()
        found = await world.ok("GET", f"{NAMESPACES}/t")
        (condition,) = [each for each in found["status"]["conditions"] if each["status"] == "True"]
        assert condition["type"] == "NamespaceContentRemaining"
        assert "pods. has 1 resource instances" in condition["message"]
        await world.ok("DELETE", f"{NAMESPACES}/t/pods/a", {"gracePeriodSeconds": 0})
        await world.until_gone(f"{NAMESPACES}/t")


async def test_nothing_new_comes_into_a_namespace_that_is_going(world: World) -> None:
    await make(world)
    await world.ok("DELETE", f"{NAMESPACES}/t")
    status = await world.refused(403, "POST", f"{NAMESPACES}/t/pods", pod("a"))
    assert status["message"] == (
        'pods "a" is forbidden: unable to create new content in namespace t because it is being terminated'
    )
    assert status["details"]["causes"][0]["reason"] == "NamespaceTerminating"


async def test_only_the_finalize_subresource_touches_the_finalizers_of_the_spec(world: World) -> None:
    await make(world)
    found = await world.ok("PATCH", f"{NAMESPACES}/t", {"spec": {"finalizers": []}}, MERGE)
    assert found["spec"]["finalizers"] == ["kubernetes"]
    await world.ok("DELETE", f"{NAMESPACES}/t")
    found = await world.ok("GET", f"{NAMESPACES}/t")
    found["spec"]["finalizers"] = []
    await world.ok("PUT", f"{NAMESPACES}/t/finalize", found)
    assert not await world.exists(f"{NAMESPACES}/t")


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_some_namespaces_are_there_to_stay(world: World, name: str) -> None:
    status = await world.refused(403, "DELETE", f"{NAMESPACES}/{name}")
    assert "this namespace may not be deleted" in status["message"]


async def test_a_namespace_is_a_dns_label(world: World) -> None:
    await world.refused(422, "POST", NAMESPACES, {"metadata": {"name": "a.b"}})
