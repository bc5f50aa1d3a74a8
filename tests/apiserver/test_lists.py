"""Lists: order, selectors, consistent pages, and the forms in which they come."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.apiserver.world import CONFIG_MAPS, MERGE, PODS, World, config_map, pod


async def names(world: World, path: str, **query: Any) -> list[str]:
    return [each["metadata"]["name"] for each in (await world.ok("GET", path, **query))["items"]]


async def test_a_list_is_ordered_by_namespace_and_name(world: World) -> None:
    await world.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "default-2"}})
    for path in ("/api/v1/namespaces/default-2/configmaps", CONFIG_MAPS):
        for name in ("b", "a"):
            await world.ok("POST", path, config_map(name))
    found = (await world.ok("GET", "/api/v1/configmaps"))["items"]
    keys = [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in found]
    # as etcd sorts the keys: a dash comes before a slash
    assert keys == ["default-2/a", "default-2/b", "default/a", "default/b"]


async def test_label_selectors(world: World) -> None:
    await world.ok("POST", PODS, pod("a", labels={"app": "x", "tier": "1"}))
    await world.ok("POST", PODS, pod("b", labels={"app": "y"}))
    await world.ok("POST", PODS, pod("c"))
    assert await names(world, PODS, labelSelector="app=x") == ["a"]
    assert await names(world, PODS, labelSelector="app in (x,y),!tier") == ["b"]
    assert await names(world, PODS, labelSelector="app!=x") == ["b", "c"]


async def test_field_selectors(world: World) -> None:
    await world.create_pod("a", schedulerName="kai-scheduler")
    await world.create_pod("b", nodeName="n")
    await world.ok("PATCH", f"{PODS}/b/status", {"status": {"phase": "Running"}}, MERGE)
    assert await names(world, PODS, fieldSelector="metadata.name=a") == ["a"]
    assert await names(world, PODS, fieldSelector="spec.nodeName=n") == ["b"]
    assert await names(world, "/api/v1/pods", fieldSelector="spec.nodeName=") == ["a"]
    assert await names(world, PODS, fieldSelector="status.phase!=Running") == ["a"]
    assert await names(world, PODS, fieldSelector="spec.schedulerName=kai-scheduler,status.phase=Pending") == ["a"]


async def test_the_index_follows_a_pod_from_node_to_nowhere(world: World) -> None:
    await world.create_pod("a", nodeName="n")
    await world.ok("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert await names(world, PODS, fieldSelector="spec.nodeName=n") == []


async def test_an_unknown_field_is_a_bad_request_that_names_it(world: World) -> None:
    status = await world.refused(400, "GET", PODS, fieldSelector="spec.colour=red")
    assert "field label not supported: spec.colour" in status["message"]


@pytest.mark.parametrize("selector", ["a in b", "=x", "a=b=c"])
async def test_a_selector_that_makes_no_sense_is_a_bad_request(world: World, selector: str) -> None:
    await world.refused(400, "GET", PODS, labelSelector=selector)


async def test_pages_are_consistent_whatever_happens_between_them(world: World) -> None:
    for name in "abcde":
        await world.ok("POST", CONFIG_MAPS, config_map(name))
    first = await world.ok("GET", CONFIG_MAPS, limit=2)
    assert first["metadata"]["remainingItemCount"] == 3
    await world.ok("DELETE", f"{CONFIG_MAPS}/d")
    await world.ok("POST", CONFIG_MAPS, config_map("bb"))
    second = await world.ok("GET", CONFIG_MAPS, limit=2, **{"continue": first["metadata"]["continue"]})
    last = await world.ok("GET", CONFIG_MAPS, limit=2, **{"continue": second["metadata"]["continue"]})
    found = [each["metadata"]["name"] for page in (first, second, last) for each in page["items"]]
    assert found == list("abcde")
    assert {page["metadata"]["resourceVersion"] for page in (first, second, last)} == {
        first["metadata"]["resourceVersion"]
    }
    assert "continue" not in last["metadata"]


async def test_a_page_that_history_no_longer_reaches_is_gone_with_a_token_to_go_on() -> None:
    world = World(history=3)
    for name in "abcd":
        await world.ok("POST", CONFIG_MAPS, config_map(name))
    token = (await world.ok("GET", CONFIG_MAPS, limit=2))["metadata"]["continue"]
    await world.ok("DELETE", f"{CONFIG_MAPS}/c")
    for number in range(5):
        await world.ok("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": str(number)}}, MERGE)
    status = await world.refused(410, "GET", CONFIG_MAPS, limit=2, **{"continue": token})
    assert status["reason"] == "Expired"
    rest = await names(world, CONFIG_MAPS, **{"continue": status["metadata"]["continue"]})
    assert rest == ["d"]


async def test_pages_are_of_one_version_whatever_happens_meanwhile(world: World) -> None:
    """Against a copy: what is changed, deleted and created while somebody pages through several namespaces."""
    choice = random.Random(4)
    paths = []
    for namespace in ("a", "a-b", "b"):
        await world.ok("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        paths.append(f"/api/v1/namespaces/{namespace}/configmaps")
    for number in range(40):
        await world.ok("POST", choice.choice(paths), config_map(f"c{number}", labels={"x": str(number % 3)}))
    everywhere = "/api/v1/configmaps"
    for selector in ("", "x=1"):
        before = (await world.ok("GET", everywhere, labelSelector=selector))["items"]
        found, token = [], ""
        while True:
            page = await world.ok("GET", everywhere, labelSelector=selector, limit=7, **{"continue": token})
            found += page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                break
            for each in choice.sample(before, 3):
                path = f"/api/v1/namespaces/{each['metadata']['namespace']}/configmaps/{each['metadata']['name']}"
                await world.call("PATCH", path, {"metadata": {"labels": {"x": str(choice.randrange(3))}}}, MERGE)
            victim = choice.choice(before)["metadata"]
            await world.call("DELETE", f"/api/v1/namespaces/{victim['namespace']}/configmaps/{victim['name']}")
            await world.ok("POST", choice.choice(paths), config_map(f"n{choice.random()}", labels={"x": "1"}))
        assert found == before


async def test_a_page_of_a_selection_does_not_count_the_rest(world: World) -> None:
    for name in "abc":
        await world.ok("POST", CONFIG_MAPS, config_map(name, labels={"x": "y"}))
    page = await world.ok("GET", CONFIG_MAPS, limit=1, labelSelector="x=y")
    assert "remainingItemCount" not in page["metadata"]


@pytest.mark.parametrize("query", [{"continue": "rubbish"}, {"limit": "x"}, {"timeoutSeconds": "x"}])
async def test_parameters_that_make_no_sense_are_bad_requests(world: World, query: dict[str, str]) -> None:
    await world.refused(400, "GET", CONFIG_MAPS, **query)


async def test_an_exact_version_is_served_while_history_reaches_it() -> None:
    world = World(history=4)
    await world.ok("POST", CONFIG_MAPS, config_map("a"))
    version = (await world.ok("GET", CONFIG_MAPS))["metadata"]["resourceVersion"]
    await world.ok("POST", CONFIG_MAPS, config_map("b"))
    await world.ok("DELETE", f"{CONFIG_MAPS}/a")
    past = await world.ok("GET", CONFIG_MAPS, resourceVersion=version, resourceVersionMatch="Exact")
    assert [each["metadata"]["name"] for each in past["items"]] == ["a"]
    assert past["metadata"]["resourceVersion"] == version
    for name in "cdefg":
        await world.ok("POST", CONFIG_MAPS, config_map(name))
    await world.refused(410, "GET", CONFIG_MAPS, resourceVersion=version, resourceVersionMatch="Exact")


async def test_metadata_only_lists(world: World) -> None:
    await world.create_pod("a")
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    found = (await world.call("GET", PODS, accept=accept)).body
    assert found["kind"] == "PartialObjectMetadataList"
    assert set(found["items"][0]) == {"kind", "apiVersion", "metadata"}
    one = (await world.call("GET", f"{PODS}/a", accept=accept.replace("List", ""))).body
    assert one["kind"] == "PartialObjectMetadata"


async def test_a_client_that_accepts_nothing_we_have_is_told(world: World) -> None:
    assert (await world.call("GET", PODS, accept="application/xml")).status == 406
    protobuf_first = "application/vnd.kubernetes.protobuf, application/json"
    assert (await world.call("GET", PODS, accept=protobuf_first)).status == 200
