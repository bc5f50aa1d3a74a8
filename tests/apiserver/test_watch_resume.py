"""Watches that begin at a version: nothing is missed, nothing is sent twice, and a forgotten version is refused."""

from __future__ import annotations

import pytest

from tests.apiserver.world import CONFIG_MAPS, MERGE, PODS, World, config_map


async def test_a_watch_without_a_version_begins_with_what_is_there(world: World) -> None:
    await world.create_pod("b")
    await world.create_pod("a")
    events = await world.watch(PODS)
    assert [await events.brief(), await events.brief()] == [("ADDED", "a"), ("ADDED", "b")]
    await world.create_pod("c")
    assert await events.brief() == ("ADDED", "c")


async def test_a_watch_from_a_version_gets_exactly_what_came_after(world: World) -> None:
    await world.create_pod("a")
    version = (await world.ok("GET", PODS))["metadata"]["resourceVersion"]
    await world.create_pod("b")
    await world.ok("PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    await world.ok("DELETE", f"{PODS}/b")
    events = await world.watch(PODS, resourceVersion=version)
    assert [await events.brief() for _ in range(3)] == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    await world.create_pod("c")
    assert await events.brief() == ("ADDED", "c")


async def test_every_event_carries_its_own_version(world: World) -> None:
    events = await world.watch(PODS)
    await world.create_pod("a")
    await world.ok("DELETE", f"{PODS}/a")
    added, deleted = await events.next(), await events.next()
    first, last = (int(each["object"]["metadata"]["resourceVersion"]) for each in (added, deleted))
    assert first < last
    resumed = await world.watch(PODS, resourceVersion=first)
    assert await resumed.brief() == ("DELETED", "a")


async def test_a_version_that_is_forgotten_is_gone() -> None:
    world = World(history=10)
    version = (await world.ok("GET", CONFIG_MAPS))["metadata"]["resourceVersion"]
    for number in range(11):
        await world.ok("POST", CONFIG_MAPS, config_map(f"c{number}"))
    status = await world.refused(410, "GET", CONFIG_MAPS, watch="true", resourceVersion=version)
    assert status["reason"] == "Expired"
    assert status["message"].startswith(f"too old resource version: {version}")
    events = await world.watch(CONFIG_MAPS, resourceVersion=int(version) + 1)
    assert await events.brief() == ("ADDED", "c1")


async def test_the_history_of_one_resource_is_not_pushed_out_by_another() -> None:
    world = World(history=10)
    version = (await world.ok("GET", PODS))["metadata"]["resourceVersion"]
    for number in range(30):
        await world.ok("POST", CONFIG_MAPS, config_map(f"c{number}"))
    await world.create_pod("a")
    events = await world.watch(PODS, resourceVersion=version)
    assert await events.brief() == ("ADDED", "a")


async def test_a_version_from_another_life_of_the_server_is_gone(world: World) -> None:
    await world.refused(410, "GET", PODS, watch="true", resourceVersion="999999")


async def test_a_list_at_a_future_version_is_told_to_wait(world: World) -> None:
    answer = await world.call("GET", PODS, resourceVersion="999999", resourceVersionMatch="NotOlderThan")
    assert answer.status == 504
    assert answer.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize("version", ["abc", "-1", "1.5"])
async def test_a_version_that_is_none_is_a_bad_request(world: World, version: str) -> None:
    await world.refused(400, "GET", PODS, watch="true", resourceVersion=version)


async def test_a_watch_list_ends_its_first_part_with_a_bookmark(world: World) -> None:
    await world.create_pod("a")
    parameters = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    events = await world.watch(PODS, **parameters)
    assert await events.brief() == ("ADDED", "a")
    bookmark = await events.next()
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["kind"] == "Pod"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    await world.create_pod("b")
    assert await events.brief() == ("ADDED", "b")


async def test_initial_events_need_a_matching_rule(world: World) -> None:
    status = await world.refused(422, "GET", PODS, watch="true", sendInitialEvents="true")
    assert "resourceVersionMatch" in status["message"]


@pytest.mark.looptime
async def test_a_watch_ends_when_its_time_is_over_with_a_last_bookmark(world: World) -> None:
    events = await world.watch(PODS, timeoutSeconds=3, allowWatchBookmarks="true")
    assert (await events.next())["type"] == "BOOKMARK"
    assert await events.ended()


@pytest.mark.looptime
async def test_bookmarks_come_every_minute_and_can_be_resumed_from(world: World) -> None:
    async with world.running():
        events = await world.watch(PODS, allowWatchBookmarks="true")
        silent = await world.watch(PODS)
        await world.ok("POST", CONFIG_MAPS, config_map("a"))  # moves the version, of no interest to this watch
        await world.clock.sleep(61)
        bookmark = await events.next()
        assert bookmark["type"] == "BOOKMARK"
        version = (await world.ok("GET", PODS))["metadata"]["resourceVersion"]
        assert bookmark["object"]["metadata"]["resourceVersion"] == version
        await world.create_pod("a")
        assert await silent.brief() == ("ADDED", "a")


async def test_a_watch_of_one_object_and_the_old_path_work(world: World) -> None:
    await world.create_pod("a")
    await world.create_pod("b")
    events = await world.watch("/api/v1/watch/namespaces/default/pods/b")
    assert await events.brief() == ("ADDED", "b")
    # Where an object is named, asking for a watch otherwise means nothing, as in Kubernetes.
    assert (await world.ok("GET", f"{PODS}/b", watch="true"))["kind"] == "Pod"
    old = await world.watch("/api/v1/watch/namespaces/default/pods")
    assert await old.brief() == ("ADDED", "a")


async def test_closing_the_watches_lets_clients_have_what_is_queued(world: World) -> None:
    events = await world.watch(PODS)
    await world.create_pod("a")
    world.server.close_watches()
    assert await events.brief() == ("ADDED", "a")
    assert await events.ended()
    assert not world.server.reader.watchers


async def test_a_client_that_leaves_is_forgotten(world: World) -> None:
    events = await world.watch(PODS)
    await events.close()
    assert not world.server.reader.watchers
    await world.create_pod("a")
    transport = world.server.transport()
    await transport.aclose()
