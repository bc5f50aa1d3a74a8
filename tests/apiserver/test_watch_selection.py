"""What a watch with a selector sees: objects enter and leave its view by changing."""

from __future__ import annotations

import pytest

from tests.apiserver.world import MERGE, PODS, World, pod


async def test_an_object_that_begins_to_match_is_added_and_one_that_ceases_is_deleted(world: World) -> None:
    await world.ok("POST", PODS, pod("a", labels={"app": "x"}))
    events = await world.watch(PODS, labelSelector="app=y")
    await world.ok("PATCH", f"{PODS}/a", {"metadata": {"labels": {"app": "y"}}}, MERGE)
    await world.ok("PATCH", f"{PODS}/a", {"metadata": {"labels": {"more": "z"}}}, MERGE)
    left = await world.ok("PATCH", f"{PODS}/a", {"metadata": {"labels": {"app": "z"}}}, MERGE)
    assert await events.brief() == ("ADDED", "a")
    assert await events.brief() == ("MODIFIED", "a")
    event = await events.next()
    assert event["type"] == "DELETED"
    # as it last matched, at the version at which it left
    assert event["object"]["metadata"]["labels"]["app"] == "y"
    assert event["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


async def test_a_resumed_watch_sees_the_same_transitions(world: World) -> None:
    created = await world.ok("POST", PODS, pod("a", labels={"app": "x"}))
    for value in ("y", "z"):
        await world.ok("PATCH", f"{PODS}/a", {"metadata": {"labels": {"app": value}}}, MERGE)
    version = created["metadata"]["resourceVersion"]
    events = await world.watch(PODS, labelSelector="app=y", resourceVersion=version)
    assert [await events.brief(), await events.brief()] == [("ADDED", "a"), ("DELETED", "a")]


async def test_a_kubelet_sees_pods_arrive_on_its_node(world: World) -> None:
    await world.create_pod("a")
    await world.create_pod("b")
    events = await world.watch("/api/v1/pods", fieldSelector="spec.nodeName=n1")
    for name, node in (("a", "n2"), ("b", "n1")):
        target = {"target": {"kind": "Node", "name": node}}
        await world.ok("POST", f"{PODS}/{name}/binding", {"metadata": {"name": name}, **target})
    event = await events.next()
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "b")
    assert event["object"]["spec"]["nodeName"] == "n1"


async def test_the_scheduler_sees_pods_leave_when_they_are_bound(world: World) -> None:
    await world.create_pod("a")
    events = await world.watch("/api/v1/pods", fieldSelector="spec.nodeName=")
    assert await events.brief() == ("ADDED", "a")
    await world.ok("POST", f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"name": "n"}})
    assert await events.brief() == ("DELETED", "a")


async def test_a_watch_of_a_namespace_sees_only_that(world: World) -> None:
    events = await world.watch(PODS)
    await world.ok("POST", "/api/v1/namespaces/kube-system/pods", pod("elsewhere"))
    await world.create_pod("here")
    assert await events.brief() == ("ADDED", "here")


@pytest.mark.looptime
async def test_metadata_only_watches_carry_nothing_else(world: World) -> None:
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    events = await world.watch(PODS, accept=accept, allowWatchBookmarks="true", timeoutSeconds=1)
    await world.create_pod("a")
    shown = (await events.next())["object"]
    assert set(shown) == {"kind", "apiVersion", "metadata"}
    assert (shown["kind"], shown["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert (await events.next())["object"]["kind"] == "PartialObjectMetadata"


async def test_table_watches_tell_the_columns_once(world: World) -> None:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    events = await world.watch(PODS, accept=accept)
    await world.create_pod("a")
    await world.create_pod("b")
    first, second = (await events.next())["object"], (await events.next())["object"]
    assert first["columnDefinitions"][0]["name"] == "Name"
    assert second["columnDefinitions"] is None
    assert second["rows"][0]["cells"][0] == "b"
