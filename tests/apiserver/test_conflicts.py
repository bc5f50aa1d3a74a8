"""Two who write the same object: who has seen the newest version wins."""

from __future__ import annotations

from tests.apiserver.world import CONFIG_MAPS, JSON_PATCH, MERGE, PODS, World, config_map

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


async def test_an_update_from_a_stale_version_is_refused(world: World) -> None:
    old = await world.create_pod()
    await world.ok("PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    old["metadata"]["labels"] = {"x": "mine"}
    status = await world.refused(409, "PUT", f"{PODS}/a", old)
    assert status["reason"] == "Conflict"
    assert status["message"] == f'Operation cannot be fulfilled on pods "a": {MODIFIED}'
    assert (await world.ok("GET", f"{PODS}/a"))["metadata"]["labels"] == {"x": "y"}


async def test_an_update_without_a_version_overwrites_a_built_in_kind(world: World) -> None:
    await world.ok("POST", CONFIG_MAPS, config_map("a", {"k": "1"}))
    await world.ok("PUT", f"{CONFIG_MAPS}/a", config_map("a", {"k": "2"}))
    assert (await world.ok("GET", f"{CONFIG_MAPS}/a"))["data"] == {"k": "2"}


async def test_a_patch_that_names_a_stale_version_is_refused(world: World) -> None:
    old = await world.ok("POST", CONFIG_MAPS, config_map("a"))
    await world.ok("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "1"}}, MERGE)
    stale = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "data": {"k": "2"}}
    await world.refused(409, "PATCH", f"{CONFIG_MAPS}/a", stale, MERGE)


async def test_a_patch_whose_test_fails_is_refused_and_says_what_it_found(world: World) -> None:
    await world.ok("POST", CONFIG_MAPS, config_map("a", {"k": "1"}))
    operations = [{"op": "test", "path": "/data/k", "value": "0"}, {"op": "replace", "path": "/data/k", "value": "2"}]
    status = await world.refused(422, "PATCH", f"{CONFIG_MAPS}/a", operations, JSON_PATCH)
    assert "/data/k" in status["message"]
    assert (await world.ok("GET", f"{CONFIG_MAPS}/a"))["data"] == {"k": "1"}


async def test_another_objects_uid_is_a_conflict(world: World) -> None:
    await world.ok("POST", CONFIG_MAPS, config_map("a"))
    status = await world.refused(409, "PUT", f"{CONFIG_MAPS}/a", config_map("a", uid="other"))
    assert "Precondition failed: UID in precondition: other" in status["message"]


async def test_a_write_that_changes_nothing_makes_no_version(world: World) -> None:
    before = await world.create_pod()
    after = await world.ok("PUT", f"{PODS}/a", before)
    patched = await world.ok("PATCH", f"{PODS}/a", {"metadata": {"labels": None}}, MERGE)
    assert after["metadata"] == before["metadata"] == patched["metadata"]


async def test_name_and_namespace_of_a_path_hold(world: World) -> None:
    await world.ok("POST", CONFIG_MAPS, config_map("a"))
    status = await world.refused(400, "PUT", f"{CONFIG_MAPS}/a", config_map("b"))
    assert status["message"] == "the name of the object (b) does not match the name on the URL (a)"
    status = await world.refused(400, "PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"name": "b"}}, MERGE)
    assert status["message"] == "the name of the object (b) does not match the name on the URL (a)"


async def test_generation_counts_changes_of_the_spec_only(world: World) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    created = await world.ok("POST", path, {"metadata": {"name": "d"}, "spec": spec})
    assert created["metadata"]["generation"] == 1
    labelled = await world.ok("PATCH", f"{path}/d", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    assert labelled["metadata"]["generation"] == 1
    scaled = await world.ok("PATCH", f"{path}/d", {"spec": {"replicas": 3}}, MERGE)
    assert scaled["metadata"]["generation"] == 2
    observed = await world.ok("PATCH", f"{path}/d/status", {"status": {"replicas": 3}}, MERGE)
    assert observed["metadata"]["generation"] == 2


async def test_status_and_spec_are_written_apart(world: World) -> None:
    await world.create_pod()
    by_main = await world.ok("PATCH", f"{PODS}/a", {"status": {"phase": "Running"}}, MERGE)
    assert by_main["status"]["phase"] == "Pending"
    patch = {"status": {"phase": "Running"}, "spec": {"nodeName": "n"}}
    by_status = await world.ok("PATCH", f"{PODS}/a/status", patch, MERGE)
    assert by_status["status"]["phase"] == "Running"
    assert "nodeName" not in by_status["spec"]


async def test_a_lease_is_created_by_an_update_of_a_free_name(world: World) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    answer = await world.call("PUT", path, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}})
    assert answer.status == 201
    await world.refused(404, "PUT", f"{PODS}/a", {"metadata": {"name": "a"}, "spec": {"containers": []}})
