"""Server-side apply: who says what owns it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.world import (
    APPLY,
    CONFIG_MAPS,
    DEFINITIONS,
    JSON,
    MERGE,
    PODS,
    WIDGETS,
    Answer,
    Doc,
    World,
    config_map,
    definition,
    pod,
    widget,
)


async def apply(world: World, path: str, body: Doc, manager: str = "one", **query: Any) -> Answer:
    return await world.call("PATCH", path, body, APPLY, fieldManager=manager, **query)


async def test_applying_what_is_not_there_creates_it(world: World) -> None:
    answer = await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"k": "1"}))
    assert answer.status == 201
    (entry,) = answer.body["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["fieldsType"]) == ("one", "Apply", "FieldsV1")
    assert entry["fieldsV1"] == {"f:data": {"f:k": {}}}


async def test_what_is_no_longer_said_goes(world: World) -> None:
    await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"k": "1", "l": "2"}, labels={"x": "y"}))
    found = (await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"k": "1"}))).body
    assert found["data"] == {"k": "1"}
    assert "labels" not in found["metadata"]


async def test_what_others_said_stays(world: World) -> None:
    await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"k": "1"}), "one")
    await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"l": "2"}), "two")
    found = (await apply(world, f"{CONFIG_MAPS}/a", config_map("a"), "one")).body
    assert found["data"] == {"l": "2"}


async def test_what_belongs_to_another_is_a_conflict_unless_forced(world: World) -> None:
    await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"k": "1"}), "one")
    answer = await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"k": "2"}), "two")
    assert answer.status == 409
    assert answer.message == 'Apply failed with 1 conflict: conflict with "one": .data.k'
    (cause,) = answer.body["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", ".data.k")
    forced = await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"k": "2"}), "two", force="true")
    assert forced.body["data"] == {"k": "2"}
    # the first manager lost it, and so doesn't take it along
    assert (await apply(world, f"{CONFIG_MAPS}/a", config_map("a"), "one")).body["data"] == {"k": "2"}


async def test_two_may_own_what_they_agree_on(world: World) -> None:
    await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"k": "1"}), "one")
    assert (await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"k": "1"}), "two")).status == 200
    assert (await apply(world, f"{CONFIG_MAPS}/a", config_map("a"), "one")).body["data"] == {"k": "1"}
    assert "data" not in (await apply(world, f"{CONFIG_MAPS}/a", config_map("a"), "two")).body


async def test_applying_the_same_again_makes_no_version(world: World) -> None:
    first = await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"k": "1"}))
    again = await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"k": "1"}))
    assert again.body == first.body


async def test_what_a_plain_write_changes_is_the_writers(world: World) -> None:
    await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"k": "1", "l": "1"}), "one")
    patched = await world.ok("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "2"}}, MERGE, fieldManager="patcher")
    owners = {each["manager"]: each["fieldsV1"] for each in patched["metadata"]["managedFields"]}
    assert owners == {"one": {"f:data": {"f:l": {}}}, "patcher": {"f:data": {"f:k": {}}}}
    answer = await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"k": "1", "l": "1"}), "one")
    assert 'conflict with "patcher"' in answer.message


async def test_before_the_first_apply_everything_belongs_to_the_creator(world: World) -> None:
    await world.ok("POST", CONFIG_MAPS, config_map("a", {"k": "1"}), fieldManager="creator")
    assert 'conflict with "creator"' in (await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"k": "2"}))).message
    assert (await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"l": "2"}))).body["data"] == {"k": "1", "l": "2"}


async def test_who_changes_from_clientside_to_serverside_apply_of_kubectl_keeps_what_is_theirs(world: World) -> None:
    await world.ok("POST", CONFIG_MAPS, config_map("a", {"k": "1"}), fieldManager="kubectl-client-side-apply")
    answer = await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"k": "2"}), "kubectl")
    assert answer.body["data"] == {"k": "2"}


async def test_containers_are_owned_one_by_one(world: World) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments/d"

    def deployment(*containers: Doc) -> Doc:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": list(containers)}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}

    one, two = {"name": "one", "image": "i"}, {"name": "two", "image": "j"}
    ports = {"name": "one", "ports": [{"containerPort": 80}]}
    await apply(world, path, deployment(one), "first")
    await apply(world, path, deployment(two), "second")
    found = (await apply(world, path, deployment(ports), "third")).body["spec"]["template"]["spec"]["containers"]
    assert sorted((each["name"], each["image"]) for each in found) == [("one", "i"), ("two", "j")]
    gone = (await apply(world, path, deployment(one), "second")).body["spec"]["template"]["spec"]["containers"]
    assert [each["name"] for each in gone] == ["one"]
    assert gone[0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


async def test_lists_of_custom_resources_are_owned_as_their_schema_says(world: World) -> None:
    item = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
    }
    keyed = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    properties = {"keyed": keyed, "whole": {"type": "array", "items": {"type": "integer"}}}
    await world.ok("POST", DEFINITIONS, definition({"type": "object", "properties": properties}))
    await apply(world, f"{WIDGETS}/w", widget("w", {"keyed": [{"name": "a", "size": 1}], "whole": [1]}), "one")
    answer = await apply(world, f"{WIDGETS}/w", widget("w", {"keyed": [{"name": "b", "size": 2}]}), "two")
    assert [each["name"] for each in answer.body["spec"]["keyed"]] == ["a", "b"]
    conflict = await apply(world, f"{WIDGETS}/w", widget("w", {"whole": [1, 2]}), "two")
    assert ".spec.whole" in conflict.message


async def test_status_is_applied_apart(world: World) -> None:
    await world.ok("POST", PODS, pod("a"))
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "status": {"message": "hello"}}
    found = (await apply(world, f"{PODS}/a/status", body, "kubelet")).body
    assert found["status"]["message"] == "hello"
    assert "status" in [each.get("subresource") for each in found["metadata"]["managedFields"]]


async def test_an_apply_must_say_who_applies_and_carries_no_managed_fields(world: World) -> None:
    status = await world.refused(422, "PATCH", f"{CONFIG_MAPS}/a", config_map("a"), APPLY)
    assert "fieldManager: Required value: is required for apply patch" in status["message"]
    answer = await apply(world, f"{CONFIG_MAPS}/a", config_map("a", managedFields=[{"manager": "x"}]))
    assert answer.status == 400


async def test_managed_fields_are_reset_by_an_empty_list(world: World) -> None:
    await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"k": "1"}))
    operations = [{"op": "replace", "path": "/metadata/managedFields", "value": []}]
    found = await world.ok("PATCH", f"{CONFIG_MAPS}/a", operations, "application/json-patch+json")
    assert "managedFields" not in found["metadata"]


@pytest.mark.parametrize("key", ["time", "apiVersion", "subresource", "manager", "operation", "fieldsV1"])
async def test_managed_fields_that_make_no_sense_leave_those_that_were_there(world: World, key: str) -> None:
    """Of a custom resource: the types of others are looked at before."""
    await world.ok("POST", DEFINITIONS, definition())
    for manager in ("one", "two"):
        assert (await apply(world, f"{WIDGETS}/w", widget(spec={"k": "1"}), manager)).status < 300
    values: tuple[Any, ...] = ([{}], None, 5, ["x"])
    for value in values:
        operations = [
            {"op": "add", "path": f"/metadata/managedFields/1/{key}", "value": value},
            {"op": "add", "path": "/spec/other", "value": str(value)},
        ]
        found = await world.ok("PATCH", f"{WIDGETS}/w", operations, "application/json-patch+json")
        assert {"one", "two"} <= {each["manager"] for each in found["metadata"]["managedFields"]}


async def test_who_claims_to_own_what_makes_an_object_does_not_remove_it(world: World) -> None:
    await world.ok("POST", DEFINITIONS, definition())
    assert (await apply(world, f"{WIDGETS}/w", widget(spec={"k": "1"}))).status == 201
    claims: dict[str, Any] = {
        "f:metadata": {".": {}, "f:name": {}, "f:uid": {}},
        "f:kind": {},
        "f:apiVersion": {},
        "f:spec": {"f:k": {}},
    }
    operations = [{"op": "replace", "path": "/metadata/managedFields/0/fieldsV1", "value": claims}]
    await world.ok("PATCH", f"{WIDGETS}/w", operations, "application/json-patch+json")
    answer = await apply(world, f"{WIDGETS}/w", widget(spec={"other": "1"}))
    assert (answer.status, answer.body["spec"], answer.body["metadata"]["name"]) == (200, {"other": "1"}, "w")


async def test_an_apply_in_yaml_and_as_a_dry_run(world: World) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: '1'}\n"
    answer = await world.call("PATCH", f"{CONFIG_MAPS}/a", body, APPLY, fieldManager="one", dryRun="All")
    assert answer.body["data"] == {"k": "1"}
    assert not await world.exists(f"{CONFIG_MAPS}/a")
    assert JSON in answer.headers["content-type"]


async def test_who_applied_by_itself_before_goes_on_with_what_it_applied_last(world: World) -> None:
    """kubectl apply, then kubectl apply --server-side: what the second no longer names goes, others' fields stay."""
    last = {"kubectl.kubernetes.io/last-applied-configuration": '{"data": {"kept": "1", "old": "1"}}'}
    body = config_map("a", {"kept": "1", "old": "1", "theirs": "1"}, annotations=last)
    await world.call("POST", CONFIG_MAPS, body, fieldManager="kubectl-client-side-apply")
    answer = await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"kept": "2"}), "kubectl")
    assert (answer.status, answer.body["data"]) == (200, {"kept": "2", "theirs": "1"})


async def test_a_note_of_what_was_applied_last_that_makes_no_sense_is_passed_over(world: World) -> None:
    last = {"kubectl.kubernetes.io/last-applied-configuration": "nonsense"}
    body = config_map("a", {"old": "1"}, annotations=last)
    await world.call("POST", CONFIG_MAPS, body, fieldManager="kubectl-client-side-apply")
    answer = await apply(world, f"{CONFIG_MAPS}/a", config_map("a", {"kept": "2"}), "kubectl")
    assert (answer.status, answer.body["data"]) == (200, {"kept": "2", "old": "1"})
