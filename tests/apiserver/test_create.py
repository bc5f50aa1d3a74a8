"""Creating objects: identity, names, namespaces, dry runs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.apiserver.world import CONFIG_MAPS, PODS, World, config_map, pod


async def test_the_server_gives_identity_and_birth(world: World) -> None:
    first = (await world.create_pod("a"))["metadata"]
    second = (await world.create_pod("b"))["metadata"]
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", first["uid"])
    assert first["uid"] != second["uid"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", first["creationTimestamp"])
    assert first["generation"] == 1
    assert int(second["resourceVersion"]) > int(first["resourceVersion"])


async def test_what_a_client_says_about_identity_is_ignored(world: World) -> None:
    forged = {"uid": "mine", "creationTimestamp": "1999-01-01T00:00:00Z", "generation": 7, "deletionTimestamp": None}
    created = await world.ok("POST", PODS, pod("a", metadata=forged))
    assert created["metadata"]["uid"] != "mine"
    assert created["metadata"]["generation"] == 1
    assert not created["metadata"]["creationTimestamp"].startswith("1999")


async def test_generate_name_appends_five_unmistakable_characters(world: World) -> None:
    names = {
        (await world.ok("POST", CONFIG_MAPS, config_map("", generateName="web-")))["metadata"]["name"]
        for _ in range(20)
    }
    assert len(names) == 20
    assert all(re.fullmatch("web-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


async def test_a_long_generate_name_is_cut_to_make_room(world: World) -> None:
    created = await world.ok("POST", CONFIG_MAPS, config_map("", generateName="x" * 70))
    assert len(created["metadata"]["name"]) == 63


async def test_a_name_is_taken_once(world: World) -> None:
    await world.create_pod("a")
    status = await world.refused(409, "POST", PODS, pod("a"))
    assert status["reason"] == "AlreadyExists"
    assert status["message"] == 'pods "a" already exists'
    assert status["details"] == {"name": "a", "kind": "pods"}


async def test_an_object_needs_a_name(world: World) -> None:
    status = await world.refused(422, "POST", CONFIG_MAPS, config_map(""))
    assert "metadata.name: Required value: name or generateName is required" in status["message"]


@pytest.mark.parametrize("name", ["A", "a_b", "-a", "a" * 254, "a..b"])
async def test_a_name_that_is_no_dns_name_is_refused_with_the_field_and_the_value(world: World, name: str) -> None:
    status = await world.refused(422, "POST", CONFIG_MAPS, config_map(name))
    (cause,) = status["details"]["causes"]
    assert cause["field"] == "metadata.name"
    assert name[:20] in cause["message"]


async def test_the_namespace_must_exist(world: World) -> None:
    status = await world.refused(404, "POST", "/api/v1/namespaces/nowhere/pods", pod())
    assert status["message"] == 'namespaces "nowhere" not found'


async def test_the_namespace_of_the_object_must_be_that_of_the_path(world: World) -> None:
    status = await world.refused(400, "POST", PODS, pod("a", metadata={"namespace": "kube-system"}))
    assert "does not match the namespace sent on the request" in status["message"]


async def test_an_object_with_a_version_is_not_new(world: World) -> None:
    status = await world.refused(400, "POST", PODS, pod("a", metadata={"resourceVersion": "5"}))
    assert status["message"] == "resourceVersion should not be set on objects to be created"


async def test_a_dry_run_answers_as_if_and_stores_nothing(world: World) -> None:
    created = await world.ok("POST", PODS, pod("a"), dryRun="All")
    assert created["spec"]["restartPolicy"] == "Always"
    assert "resourceVersion" not in created["metadata"]
    assert not await world.exists(f"{PODS}/a")


async def test_labels_and_owners_are_checked(world: World) -> None:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1", "controller": True}] * 2
    metadata: dict[str, Any] = {"labels": {"bad key": "x", "ok": "bad value!"}, "ownerReferences": owners}
    status = await world.refused(422, "POST", CONFIG_MAPS, config_map("a", **metadata))
    fields = [cause["field"] for cause in status["details"]["causes"]]
    assert fields == ["metadata.labels", "metadata.labels", "metadata.ownerReferences"]
    assert "Only one reference can have Controller set to true" in status["message"]


async def test_the_server_has_kubernetes_own_namespaces_and_priorities_from_the_start(world: World) -> None:
    found = await world.ok("GET", "/api/v1/namespaces")
    names = [each["metadata"]["name"] for each in found["items"]]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert found["items"][0]["metadata"]["labels"] == {"kubernetes.io/metadata.name": "default"}
    assert await world.exists("/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical")
