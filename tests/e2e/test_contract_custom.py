"""What every API server promises of kinds that it was taught: rules, parts, versions, names, and the end of it all."""

from __future__ import annotations

import json
from typing import Any

from bosket.kube.errors import ApiError, NotFound
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import Manifest
from tests.e2e.taught import DEFINITIONS, MERGE, Taught, fields, teaching, version

INTEGER, NUMBER, TEXT = {"type": "integer"}, {"type": "number"}, {"type": "string", "maxLength": 20}
FREE: Manifest = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


def ruled(schema: Manifest, *rules: Manifest) -> Manifest:
    return {**schema, "x-kubernetes-validations": list(rules)}


async def conditions(taught: Taught) -> dict[str, tuple[str, str]]:
    found = await taught.ok("GET", f"{DEFINITIONS}/{taught.name}")
    return {each["type"]: (each["status"], each["reason"]) for each in found["status"]["conditions"]}


# ── rules ──


async def test_rules_see_the_object_and_say_what_is_wrong_where(cluster: Cluster) -> None:
    rules = (
        {"rule": "self.low <= self.high", "message": "low must not exceed high"},
        {
            "rule": "self.low < 100.0",
            "messageExpression": "'at most ' + '100'",
            "fieldPath": ".low",
            "reason": "FieldValueForbidden",
        },
    )
    small = {"rule": "self < 5"}
    escaped = {"rule": "self.my__dash__size > 0 && self.__namespace__ == 'a'", "message": "escaped"}
    async with teaching(cluster) as taught:
        await taught.teach(
            version(
                fields(
                    range=ruled(fields(low=NUMBER, high=NUMBER), *rules),
                    map={"type": "object", "maxProperties": 5, "additionalProperties": ruled(INTEGER, small)},
                    odd=ruled({"type": "object", "properties": {"my-size": INTEGER, "namespace": TEXT}}, escaped),
                )
            )
        )

        async def causes(spec: Manifest) -> set[tuple[str, str, str]]:
            return await taught.causes("POST", taught.path(), taught.widget("w", spec))

        assert await causes({"range": {"low": 2, "high": 1}}) == {
            ("spec.range", "FieldValueInvalid", "Invalid value: low must not exceed high")
        }
        assert await causes({"range": {"low": 200, "high": 300}}) == {
            ("spec.range.low", "FieldValueForbidden", "Forbidden: at most 100")
        }
        assert await causes({"map": {"a.b": 7}}) == {
            ("spec.map[a.b]", "FieldValueInvalid", "Invalid value: 7: failed rule: self < 5")
        }
        (absent,) = await causes({"range": {"low": 1}})
        assert absent[0] == "spec.range"
        assert "no such key: high" in absent[2]
        mistyped = await causes({"range": {"low": "x", "high": 1}})
        assert {field for field, _, _ in mistyped} == {"spec.range.low", "<nil>"}
        assert "some validation rules were not checked" in str(mistyped)
        assert {field for field, _, _ in await causes({"odd": {"my-size": 0, "namespace": "a"}})} == {"spec.odd"}
        created = await taught.create("fine", {"range": {"low": 1, "high": 2}, "odd": {"my-size": 1, "namespace": "a"}})
        assert created["metadata"]["generation"] == 1


async def test_transition_rules_compare_with_the_old_state(cluster: Cluster) -> None:
    grows = {"rule": "self >= oldSelf", "message": "may only grow"}
    fixed = {"rule": "self.size == oldSelf.size", "message": "is fixed"}
    later = {"rule": "oldSelf.hasValue() || self == ''", "message": "comes later", "optionalOldSelf": True}
    part = {**ruled(fields(name=TEXT, size=INTEGER), fixed), "required": ["name"]}
    keyed = {
        "type": "array",
        "items": part,
        "maxItems": 5,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    async with teaching(cluster) as taught:
        await taught.teach(version(fields(size=ruled(INTEGER, grows), parts=keyed, note=ruled(TEXT, later))))
        refusal = await taught.causes("POST", taught.path(), taught.widget("w", {"note": "early"}))
        assert {(field, message) for field, _, message in refusal} == {
            ("spec.note", 'Invalid value: "early": comes later')
        }
        parts = [{"name": "a", "size": 1}, {"name": "b", "size": 2}]
        await taught.create("w", {"size": 3, "parts": parts, "note": ""})
        moved = [{"name": "c", "size": 9}, *reversed(parts)]
        changed = await taught.change("w", {"spec": {"size": 4, "parts": moved, "note": "now"}})
        assert (changed["spec"]["size"], changed["spec"]["note"]) == (4, "now")
        smaller = await taught.causes("PATCH", taught.path("w"), {"spec": {"size": 2}}, MERGE)
        assert {(field, message) for field, _, message in smaller} == {("spec.size", "Invalid value: 2: may only grow")}
        other = await taught.causes("PATCH", taught.path("w"), {"spec": {"parts": [{"name": "a", "size": 5}]}}, MERGE)
        assert {field for field, _, _ in other} == {"spec.parts[0]"}


# ── parts of objects ──


async def test_status_is_a_part_of_its_own_where_the_definition_says_so(cluster: Cluster) -> None:
    async with teaching(cluster) as taught:
        await taught.teach(version(fields(x=INTEGER), subresources={"status": {}}))
        created = await taught.create("w", {"x": 1}, status={"seen": 1})
        assert "status" not in created
        mixed = {"status": {"seen": 2}, "spec": {"x": 9}, "metadata": {"labels": {"a": "b"}}}
        written = await taught.change("w", mixed, part="status")
        assert (written["status"], written["spec"], written["metadata"].get("labels")) == ({"seen": 2}, {"x": 1}, None)
        assert written["metadata"]["generation"] == 1
        by_main = await taught.change("w", {"status": {"seen": 3}, "spec": {"x": 2}})
        assert (by_main["status"], by_main["spec"]["x"], by_main["metadata"]["generation"]) == ({"seen": 2}, 2, 2)
        labelled = await taught.change("w", {"metadata": {"labels": {"a": "b"}}})
        assert labelled["metadata"]["generation"] == 2


async def test_without_the_subresource_status_is_a_field_like_others(cluster: Cluster) -> None:
    async with teaching(cluster) as taught:
        await taught.teach(version(fields(x=INTEGER)))
        assert (await taught.create("w", {}, status={"seen": 1}))["status"] == {"seen": 1}
        assert (await taught.refused("GET", taught.path("w", part="status"))).code == 404
        changed = await taught.change("w", {"status": {"seen": 2}})
        assert changed["metadata"]["generation"] == 2


async def test_scale_shows_and_sets_the_number_of_replicas(cluster: Cluster) -> None:
    paths = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    async with teaching(cluster) as taught:
        await taught.teach(version(fields(replicas=INTEGER), subresources={"status": {}, "scale": paths}))
        await taught.create("w", {"replicas": 2})
        await taught.change("w", {"status": {"replicas": 1, "selector": "a=b"}}, part="status")
        scale = await taught.ok("GET", taught.path("w", part="scale"))
        assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
        assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "a=b"})
        scaled = await taught.ok("PATCH", taught.path("w", part="scale"), {"spec": {"replicas": 5}}, MERGE)
        assert scaled["spec"] == {"replicas": 5}
        found = await taught.get("w")
        assert (found["spec"], found["metadata"]["generation"]) == ({"replicas": 5}, 2)
        await cluster.kubectl("scale", f"widgets.{taught.group}/w", "--replicas=3")
        assert (await taught.get("w"))["spec"] == {"replicas": 3}
        refusal = await taught.refused("PATCH", taught.path("w", part="scale"), {"spec": {"replicas": -1}}, MERGE)
        assert refusal.code == 422


# ── versions ──


async def test_versions_show_the_same_object_less_what_they_lack(cluster: Cluster) -> None:
    first, second = fields(x=INTEGER, old=INTEGER), fields(x=INTEGER, new={**INTEGER, "default": 7})
    async with teaching(cluster) as taught:
        await taught.teach(version(first), version(second, "v2", storage=False))
        await taught.create("w", {"x": 1, "old": 2})
        seen = await taught.get("w", "v2")
        assert (seen["apiVersion"], seen["spec"]) == (f"{taught.group}/v2", {"x": 1})
        await taught.create("v", {"x": 5, "new": 6}, version="v2")
        back = await taught.get("v")
        assert (back["apiVersion"], back["spec"]) == (f"{taught.group}/v1", {"x": 5})
        listed = await taught.ok("GET", taught.path(version="v2"))
        assert {each["apiVersion"] for each in listed["items"]} == {f"{taught.group}/v2"}
        group = await taught.ok("GET", f"/apis/{taught.group}")
        assert [each["version"] for each in group["versions"]] == ["v2", "v1"]


async def test_another_version_can_be_stored_and_an_old_one_switched_off(cluster: Cluster) -> None:
    schema = fields(x=INTEGER)
    async with teaching(cluster) as taught:
        await taught.teach(version(schema), version(schema, "v2", storage=False))
        await taught.create("w", {"x": 1})
        await taught.change_versions(version(schema, storage=False, served=False), version(schema, "v2"))

        async def switched_off() -> bool:
            return (await taught.refused("GET", taught.path("w"))).code == 404

        await cluster.eventually(switched_off)
        found = await taught.get("w", "v2")
        assert (found["apiVersion"], found["spec"]) == (f"{taught.group}/v2", {"x": 1})
        status = (await taught.ok("GET", f"{DEFINITIONS}/{taught.name}"))["status"]
        assert sorted(status["storedVersions"]) == ["v1", "v2"]
        gone = {"spec": {"versions": [version(schema, "v2")]}}
        causes = await taught.causes("PATCH", f"{DEFINITIONS}/{taught.name}", gone, MERGE)
        assert [
            each for each in causes if each[0] == "status.storedVersions[0]" and "missing from spec.versions" in each[2]
        ]


async def test_who_uses_a_deprecated_version_is_told(cluster: Cluster) -> None:
    async with teaching(cluster) as taught:
        await taught.teach(version(fields(x=INTEGER), deprecated=True))
        answer = await taught.call("GET", taught.path())
        warning = {key.lower(): value for key, value in answer.headers.items()}["warning"]
        assert warning == f'299 - "{taught.group}/v1 Widget is deprecated"'


# ── reading ──


async def test_selectable_fields_can_be_selected_by(cluster: Cluster) -> None:
    schema = fields(colour=TEXT, size=INTEGER)
    async with teaching(cluster) as taught:
        await taught.teach(version(schema, selectableFields=[{"jsonPath": ".spec.colour"}]))
        await taught.create("a", {"colour": "red", "size": 1})
        await taught.create("b", {"colour": "blue", "size": 2})

        async def names(selector: str) -> list[str]:
            found = await taught.ok("GET", taught.path(), fieldSelector=selector)
            return [each["metadata"]["name"] for each in found["items"]]

        assert await names("spec.colour=blue") == ["b"]
        assert await names("spec.colour!=blue,metadata.name!=c") == ["a"]
        refusal = await taught.refused("GET", taught.path(), fieldSelector="spec.size=1")
        assert (refusal.code, "field label not supported" in refusal.message) == (400, True)
        await taught.change_versions(version(schema, selectableFields=[{"jsonPath": ".spec.size"}]))

        async def by_size() -> bool:
            try:
                return await names("spec.size=2") == ["b"]
            except ApiError:
                return False

        await cluster.eventually(by_size)


async def test_printer_columns_are_what_kubectl_shows(cluster: Cluster) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Notes", "type": "string", "jsonPath": ".spec.notes", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    async with teaching(cluster) as taught:
        await taught.teach(version(FREE, additionalPrinterColumns=columns), shortNames=["wdgt"], categories=["toys"])
        status = {"conditions": [{"type": "Other", "status": "X"}, {"type": "Ready", "status": "True"}]}
        await taught.create("w", {"size": 3, "notes": "n"}, status=status)
        await taught.create("x", {})
        table = json.loads((await taught.call("GET", taught.path(), None, TABLE)).body)
        heads = [(each["name"], each["type"], each["priority"]) for each in table["columnDefinitions"]]
        assert heads == [
            ("Name", "string", 0),
            ("Size", "integer", 0),
            ("Ready", "string", 0),
            ("Notes", "string", 1),
            ("Age", "date", 0),
        ]
        first, second = (row["cells"] for row in table["rows"])
        assert first[:4] == ["w", 3, "True", "n"]
        assert second[:4] == ["x", None, None, None]
        assert "NOTES" not in await cluster.kubectl("get", f"widgets.{taught.group}")
        assert "NOTES" in await cluster.kubectl("get", f"widgets.{taught.group}", "-o", "wide")
        assert "SIZE" in await cluster.kubectl("get", "wdgt")
        assert f"widget.{taught.group}/w" in await cluster.kubectl("get", "toys", "-o", "name")


# ── names, and the end ──


async def test_a_name_has_one_owner_and_the_next_when_it_goes(cluster: Cluster) -> None:
    async with teaching(cluster) as taught:
        found = await taught.teach(version(fields(x=INTEGER)), shortNames=["wd"])
        assert await conditions(taught) == {
            "NamesAccepted": ("True", "NoConflicts"),
            "Established": ("True", "InitialNamesAccepted"),
        }
        assert found["status"]["storedVersions"] == ["v1"]
        assert found["status"]["acceptedNames"] == {
            "plural": "widgets",
            "singular": "widget",
            "kind": "Widget",
            "listKind": "WidgetList",
            "shortNames": ["wd"],
        }
        rival = taught.definition(version(fields(x=INTEGER)), shortNames=["wd"])
        rival["metadata"]["name"] = f"gadgets.{taught.group}"
        rival["spec"]["names"] |= {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"}
        await taught.ok("POST", DEFINITIONS, rival)
        path = f"{DEFINITIONS}/gadgets.{taught.group}"

        async def status() -> Any:
            found = (await taught.ok("GET", path))["status"]
            assert found.get("conditions")
            return {each["type"]: (each["status"], each["reason"], each["message"]) for each in found["conditions"]}

        refused = await cluster.eventually(status)
        assert refused["NamesAccepted"] == ("False", "ShortNamesConflict", '"wd" is already in use')
        assert refused["Established"] == ("False", "NotAccepted", "not all names are accepted")
        gadgets = taught.path().replace("widgets", "gadgets")
        assert (await taught.refused("GET", gadgets)).code == 404
        await taught.call("DELETE", f"{DEFINITIONS}/{taught.name}")

        async def accepted() -> bool:
            return (await status())["Established"][0] == "True"  # type: ignore[no-any-return]

        await cluster.eventually(accepted)
        await cluster.eventually(lambda: taught.ok("GET", gadgets))
        await taught.call("DELETE", path)


async def test_a_deleted_definition_takes_its_objects_along(cluster: Cluster) -> None:
    async with teaching(cluster) as taught:
        await taught.teach(version(fields(x=INTEGER)))
        await taught.create("free", {})
        await taught.create("held", {}, metadata={"finalizers": ["example.com/held"]})
        await taught.call("DELETE", f"{DEFINITIONS}/{taught.name}")

        async def held() -> bool:
            found = await taught.ok("GET", taught.path())
            return [each["metadata"]["name"] for each in found["items"]] == ["held"]

        await cluster.eventually(held)

        async def terminating() -> bool:
            found = (await conditions(taught)).get("Terminating")
            return found == ("True", "InstanceDeletionInProgress")

        await cluster.eventually(terminating)
        late = await taught.refused("POST", taught.path(), taught.widget("late", {}))
        assert late.code == 403
        assert "create not allowed while custom resource definition is terminating" in late.message
        await taught.change("held", {"metadata": {"finalizers": None}})

        async def gone() -> bool:
            try:
                await taught.ok("GET", f"{DEFINITIONS}/{taught.name}")
            except NotFound:
                return True
            return False

        await cluster.eventually(gone)

        async def not_served() -> bool:
            return (await taught.refused("GET", taught.path())).code == 404

        await cluster.eventually(not_served)
