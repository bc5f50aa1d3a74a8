"""Kinds that are taught at run time."""

from __future__ import annotations

from typing import Any

import pytest

from bosket.api.crd import crd_manifests
from tests.apiserver.world import DEFINITIONS, JSON, MERGE, WIDGETS, Doc, World, definition, widget


async def teach(world: World, schema: Doc, **version: Any) -> None:
    await world.ok("POST", DEFINITIONS, definition(schema, **version))


def fields(**properties: Doc) -> Doc:
    return {"type": "object", "properties": properties}


async def test_a_definition_is_established_at_once_and_serves_its_kind(world: World) -> None:
    await world.refused(404, "GET", WIDGETS)
    created = await world.ok("POST", DEFINITIONS, definition())
    conditions = {each["type"]: each["status"] for each in created["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert created["status"]["storedVersions"] == ["v1"]
    assert created["status"]["acceptedNames"]["listKind"] == "WidgetList"
    await world.ok("POST", WIDGETS, widget("w", {"size": 1}))
    found = await world.ok("GET", WIDGETS)
    assert (found["kind"], found["items"][0]["spec"]) == ("WidgetList", {"size": 1})


async def test_our_own_definitions_are_accepted(world: World) -> None:
    for manifest in crd_manifests():
        created = await world.ok("POST", DEFINITIONS, manifest)
        assert all(each["status"] == "True" for each in created["status"]["conditions"])


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        (
            {"type": "integer", "minimum": 0},
            -5,
            "Invalid value: -5: spec.x in body should be greater than or equal to 0",
        ),
        ({"type": "integer", "maximum": 9}, 10, "should be less than or equal to 9"),
        ({"type": "integer"}, "ten", 'Invalid value: "string": spec.x in body must be of type integer: "string"'),
        ({"type": "string"}, 5, "must be of type string"),
        ({"type": "string", "enum": ["a", "b"]}, "c", 'Unsupported value: "c": supported values: "a", "b"'),
        ({"type": "string", "pattern": "^a+$"}, "b", "should match '^a+$'"),
        ({"type": "string", "minLength": 2}, "b", "should be at least 2 chars long"),
        ({"type": "string", "maxLength": 2}, "bbb", "Too long: may not be more than 2 bytes"),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 1}, [], "should have at least 1 items"),
        (
            {"type": "array", "items": {"type": "integer"}, "maxItems": 1},
            [1, 2],
            "Too many: 2: must have at most 1 item",
        ),
        ({"type": "integer", "format": "int32"}, 2**31, "should be less than or equal to 2147483647"),
        ({"type": "string", "format": "date-time"}, "yesterday", "must be of type date-time"),
        ({"x-kubernetes-int-or-string": True}, True, "must be of type integer,string"),
        ({"type": "number", "multipleOf": 0.5}, 0.3, "should be a multiple of 0.5"),
    ],
)
async def test_a_value_that_breaks_the_schema_is_refused_in_kubernetes_words(
    world: World, schema: Doc, value: Any, words: str
) -> None:
    await teach(world, fields(x=schema))
    status = await world.refused(422, "POST", WIDGETS, widget("w", {"x": value}))
    assert status["message"].startswith('Widget.example.com "w" is invalid: spec.x: ')
    (cause,) = status["details"]["causes"]
    assert cause["field"] == "spec.x"
    assert words in cause["message"]


async def test_all_violations_are_told_at_once(world: World) -> None:
    inner = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    await teach(world, fields(parts={"type": "array", "items": inner}, x={"type": "integer"}))
    status = await world.refused(422, "POST", WIDGETS, widget("w", {"parts": [{"name": "a"}, {}], "x": "y"}))
    causes = {cause["field"]: cause["reason"] for cause in status["details"]["causes"]}
    assert causes == {"spec.parts[1].name": "FieldValueRequired", "spec.x": "FieldValueTypeInvalid"}


async def test_int_or_string_takes_both(world: World) -> None:
    either = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    await teach(world, fields(x=either))
    for name, value in (("a", 5), ("b", "50%")):
        assert (await world.ok("POST", WIDGETS, widget(name, {"x": value})))["spec"]["x"] == value


async def test_unknown_fields_are_pruned_told_of_or_refused(world: World) -> None:
    keep = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await teach(world, fields(x={"type": "integer"}, free=keep))
    spec = {"x": 1, "y": 2, "free": {"any": {"thing": 1}}}
    assert (await world.ok("POST", WIDGETS, widget("a", spec)))["spec"] == {"x": 1, "free": {"any": {"thing": 1}}}
    warned = await world.call("POST", WIDGETS, widget("b", spec), fieldValidation="Warn")
    assert warned.headers["warning"] == '299 - "unknown field \\"spec.y\\""'
    status = await world.refused(400, "POST", WIDGETS, widget("c", spec), fieldValidation="Strict")
    assert 'strict decoding error: unknown field "spec.y"' in status["message"]


async def test_an_embedded_resource_keeps_what_makes_it_one(world: World) -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {"type": "object"}}}
    await teach(world, fields(of=embedded))
    inner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}, "more": 1}
    found = (await world.ok("POST", WIDGETS, widget("w", {"of": inner})))["spec"]["of"]
    assert found == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}


async def test_defaults_are_put_in_at_every_depth_and_are_never_shared(world: World) -> None:
    inner = {
        "type": "object",
        "default": {},
        "properties": {"list": {"type": "array", "default": [1], "items": {"type": "integer"}}},
    }
    await teach(world, fields(inner=inner, colour={"type": "string", "default": "red"}))
    first = await world.ok("POST", WIDGETS, widget("a"))
    assert first["spec"] == {"inner": {"list": [1]}, "colour": "red"}
    await world.ok("PATCH", f"{WIDGETS}/a", {"spec": {"inner": {"list": [1, 2]}}}, MERGE)
    assert (await world.ok("POST", WIDGETS, widget("b")))["spec"]["inner"] == {"list": [1]}


async def test_null_is_a_value_only_where_the_schema_says_so(world: World) -> None:
    await teach(
        world,
        fields(a={"type": "string", "default": "x"}, b={"type": "string"}, c={"type": "string", "nullable": True}),
    )
    assert (await world.ok("POST", WIDGETS, widget("w", {"a": None, "b": None, "c": None})))["spec"] == {
        "a": "x",
        "c": None,
    }


async def test_keys_of_a_keyed_list_and_elements_of_a_set_differ(world: World) -> None:
    item = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    keyed = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    plain = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    await teach(world, fields(keyed=keyed, plain=plain))
    spec = {"keyed": [{"name": "a"}, {"name": "a"}], "plain": ["x", "x"]}
    status = await world.refused(422, "POST", WIDGETS, widget("w", spec))
    causes = [(cause["field"], cause["reason"]) for cause in status["details"]["causes"]]
    assert causes == [("spec.keyed[1]", "FieldValueDuplicate"), ("spec.plain[1]", "FieldValueDuplicate")]


async def test_an_old_violation_does_not_stand_in_the_way_of_other_changes(world: World) -> None:
    await teach(world, fields(x={"type": "integer"}, y={"type": "integer"}))
    await world.ok("POST", WIDGETS, widget("w", {"x": -1, "y": 1}))
    stricter = definition(fields(x={"type": "integer", "minimum": 0}, y={"type": "integer"}))
    await world.ok("PATCH", f"{DEFINITIONS}/widgets.example.com", {"spec": stricter["spec"]}, MERGE)
    assert (await world.ok("PATCH", f"{WIDGETS}/w", {"spec": {"y": 2}}, MERGE))["spec"] == {"x": -1, "y": 2}
    await world.refused(422, "PATCH", f"{WIDGETS}/w", {"spec": {"x": -2}}, MERGE)


async def test_an_update_needs_a_version(world: World) -> None:
    await teach(world, fields())
    await world.ok("POST", WIDGETS, widget())
    status = await world.refused(422, "PUT", f"{WIDGETS}/w", widget())
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in status["message"]


async def test_status_is_a_part_of_its_own_only_if_the_definition_says_so(world: World) -> None:
    await teach(world, fields(x={"type": "integer"}), subresources={"status": {}})
    created = await world.ok("POST", WIDGETS, widget("w", {"x": 1}) | {"status": {"seen": 1}})
    assert "status" not in created
    patch = {"status": {"seen": 2}, "spec": {"x": 9}, "metadata": {"labels": {"a": "b"}}}
    found = await world.ok("PATCH", f"{WIDGETS}/w/status", patch, MERGE)
    assert (found["status"], found["spec"], found["metadata"].get("labels")) == ({"seen": 2}, {"x": 1}, None)
    assert found["metadata"]["generation"] == 1
    by_main = await world.ok("PATCH", f"{WIDGETS}/w", {"status": {"seen": 3}, "spec": {"x": 2}}, MERGE)
    assert (by_main["status"], by_main["metadata"]["generation"]) == ({"seen": 2}, 2)


async def test_without_the_subresource_status_is_like_any_field(world: World) -> None:
    await teach(world, fields())
    created = await world.ok("POST", WIDGETS, widget() | {"status": {"seen": 1}})
    assert created["status"] == {"seen": 1}
    await world.refused(404, "GET", f"{WIDGETS}/w/status")


async def test_several_versions_show_the_same_object(world: World) -> None:
    manifest = definition(fields(x={"type": "integer"}))
    (first,) = manifest["spec"]["versions"]
    manifest["spec"]["versions"].append({**first, "name": "v2", "storage": False})
    await world.ok("POST", DEFINITIONS, manifest)
    await world.ok("POST", WIDGETS, widget("w", {"x": 1}))
    newer = WIDGETS.replace("/v1/", "/v2/")
    found = await world.ok("GET", f"{newer}/w")
    assert (found["apiVersion"], found["spec"]) == ("example.com/v2", {"x": 1})
    events = await world.watch(newer)
    assert (await events.next())["object"]["apiVersion"] == "example.com/v2"
    await world.ok("PATCH", f"{newer}/w", {"spec": {"x": 2}}, MERGE)
    back = await world.ok("GET", f"{WIDGETS}/w")
    assert (back["apiVersion"], back["spec"]) == ("example.com/v1", {"x": 2})


async def test_who_uses_a_deprecated_version_is_told(world: World) -> None:
    await teach(world, fields(), deprecated=True)
    answer = await world.call("POST", WIDGETS, widget("w", {"unknown": 1}), fieldValidation="Warn")
    assert answer.headers["warning"] == (
        '299 - "unknown field \\"spec.unknown\\"", 299 - "example.com/v1 Widget is deprecated"'
    )


async def test_a_deleted_definition_takes_its_objects_and_its_watches_along(world: World) -> None:
    await teach(world, fields())
    await world.ok("POST", WIDGETS, widget("free"))
    await world.ok("POST", WIDGETS, widget("held", finalizers=["x.io/f"]))
    async with world.running():
        events = await world.watch(WIDGETS)
        assert [await events.brief(), await events.brief()] == [("ADDED", "free"), ("ADDED", "held")]
        await world.ok("DELETE", f"{DEFINITIONS}/widgets.example.com")
        assert await events.brief() == ("DELETED", "free")
        assert (await events.next())["type"] == "MODIFIED"
        await world.refused(403, "POST", WIDGETS, widget("late"))
        await world.ok("PATCH", f"{WIDGETS}/held", {"metadata": {"finalizers": None}}, MERGE)
        await world.until_gone(f"{DEFINITIONS}/widgets.example.com")
        assert await events.brief() == ("DELETED", "held")
        last = await events.next()
        assert (last["type"], last["object"]["code"]) == ("ERROR", 410)
        await world.refused(404, "GET", WIDGETS)
        await world.ok("POST", DEFINITIONS, definition())
        assert (await world.ok("GET", WIDGETS))["items"] == []


async def test_selectable_fields_can_be_selected_by(world: World) -> None:
    await teach(world, fields(colour={"type": "string"}), selectableFields=[{"jsonPath": ".spec.colour"}])
    for name, colour in (("a", "red"), ("b", "blue")):
        await world.ok("POST", WIDGETS, widget(name, {"colour": colour}))
    found = await world.ok("GET", WIDGETS, fieldSelector="spec.colour=blue")
    assert [each["metadata"]["name"] for each in found["items"]] == ["b"]
    await world.refused(400, "GET", WIDGETS, fieldSelector="spec.size=1")


async def test_printer_columns_are_cells(world: World) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Parts", "type": "string", "jsonPath": ".spec.parts[*].name", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    keep = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await teach(world, keep, additionalPrinterColumns=columns)
    status = {"conditions": [{"type": "Other", "status": "X"}, {"type": "Ready", "status": "True"}]}
    await world.ok("POST", WIDGETS, widget("w", {"size": 3, "parts": [{"name": "p"}]}) | {"status": status})
    await world.ok("POST", WIDGETS, widget("x"))
    table = (await world.call("GET", WIDGETS, accept=f"{JSON};as=Table;v=v1;g=meta.k8s.io")).body
    heads = [(each["name"], each["priority"]) for each in table["columnDefinitions"]]
    assert heads == [("Name", 0), ("Size", 0), ("Ready", 0), ("Parts", 1), ("Age", 0)]
    assert [row["cells"] for row in table["rows"]] == [["w", 3, "True", "p", "0s"], ["x", None, None, None, "0s"]]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"scope": "Everywhere"}, "spec.scope"),
        ({"group": "other.com"}, "metadata.name"),
        ({"versions": []}, "spec.versions"),
        ({"versions": [{"name": "v1", "served": True, "storage": True}]}, "spec.versions[0].schema.openAPIV3Schema"),
        (
            {"versions": [definition({"type": "no such type"})["spec"]["versions"][0]]},
            "spec.versions[0].schema.openAPIV3Schema.properties[spec].type",
        ),
        (
            {"versions": [definition(fields(x={"type": "string", "pattern": "("}))["spec"]["versions"][0]]},
            "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[x].pattern",
        ),
        ({"conversion": {"strategy": "Webhook"}}, "spec.conversion.strategy"),
    ],
)
async def test_a_definition_that_makes_no_sense_is_refused(world: World, change: Doc, field: str) -> None:
    manifest = definition()
    manifest["spec"] |= change
    status = await world.refused(422, "POST", DEFINITIONS, manifest)
    assert field in [cause["field"] for cause in status["details"]["causes"]]
    await world.refused(404, "GET", WIDGETS)


async def test_two_kinds_of_one_group_can_not_share_a_name(world: World) -> None:
    await world.ok("POST", DEFINITIONS, definition())
    rival = definition()
    rival["metadata"]["name"] = "gadgets.example.com"
    rival["spec"]["names"]["plural"] = "gadgets"
    created = await world.ok("POST", DEFINITIONS, rival)
    conditions = {each["type"]: each for each in created["status"]["conditions"]}
    assert conditions["NamesAccepted"]["status"] == "False"
    assert conditions["NamesAccepted"]["message"] == '"WidgetList" is already in use'
    await world.refused(404, "GET", WIDGETS.replace("widgets", "gadgets"))
