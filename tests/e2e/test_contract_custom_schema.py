"""What every API server makes of schemas: which ones it takes, and what it does to objects by them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.manifest import Manifest
from tests.e2e.taught import DEFINITIONS, MERGE, Cause, fields, teaching, version

INTEGER, NUMBER, TEXT = {"type": "integer"}, {"type": "number"}, {"type": "string"}
FREE: Manifest = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
EITHER: Manifest = {"x-kubernetes-int-or-string": True}
INVALID, WRONG_TYPE = "FieldValueInvalid", "FieldValueTypeInvalid"


def listed(items: Manifest, **more: Any) -> Manifest:
    return {"type": "array", "items": items, **more}


def keyed(**properties: Manifest) -> Manifest:
    """A list of objects with their name as key."""
    items = {**fields(name=TEXT, **properties), "required": ["name"]}
    return listed(items, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]})


#: By field: its schema, a value that it may not have, and what is said about that.
REFUSED: dict[str, tuple[Manifest, Any, Cause]] = {
    "low": ({**INTEGER, "minimum": 0}, -5, ("spec.low", INVALID, "should be greater than or equal to 0")),
    "high": ({**INTEGER, "maximum": 9}, 10, ("spec.high", INVALID, "should be less than or equal to 9")),
    "above": (
        {**INTEGER, "minimum": 0, "exclusiveMinimum": True},
        0,
        ("spec.above", INVALID, "Invalid value: 0: spec.above in body should be greater than 0"),
    ),
    "below": (
        {**INTEGER, "maximum": 9, "exclusiveMaximum": True},
        9,
        ("spec.below", INVALID, "spec.below in body should be less than 9"),
    ),
    "step": ({**NUMBER, "multipleOf": 0.5}, 0.3, ("spec.step", INVALID, "should be a multiple of 0.5")),
    "number": (INTEGER, "ten", ("spec.number", WRONG_TYPE, 'spec.number in body must be of type integer: "string"')),
    "fraction": (INTEGER, 1.5, ("spec.fraction", WRONG_TYPE, 'must be of type integer: "number"')),
    "text": (TEXT, 5, ("spec.text", WRONG_TYPE, 'Invalid value: "integer": spec.text in body must be of type string')),
    "flag": ({"type": "boolean"}, "yes", ("spec.flag", WRONG_TYPE, 'must be of type boolean: "string"')),
    "list": (listed(TEXT), {}, ("spec.list", WRONG_TYPE, 'must be of type array: "object"')),
    "either": (EITHER, True, ("spec.either", WRONG_TYPE, 'must be of type integer,string: "boolean"')),
    "choice": (
        {**TEXT, "enum": ["a", "b"]},
        "c",
        ("spec.choice", "FieldValueNotSupported", 'Unsupported value: "c": supported values: "a", "b"'),
    ),
    "pattern": ({**TEXT, "pattern": "^a+$"}, "b", ("spec.pattern", INVALID, "should match '^a+$'")),
    "posix": ({**TEXT, "pattern": "(?i)^[[:alpha:]]+$"}, "1", ("spec.posix", INVALID, "should match")),
    "short": ({**TEXT, "minLength": 2}, "b", ("spec.short", INVALID, "should be at least 2 chars long")),
    "long": ({**TEXT, "maxLength": 2}, "bbb", ("spec.long", "FieldValueTooLong", "Too long: may not be more than 2")),
    "few": (listed(TEXT, minItems=1), [], ("spec.few", INVALID, "should have at least 1 items")),
    "many": (
        listed(TEXT, maxItems=1),
        ["a", "b"],
        ("spec.many", "FieldValueTooMany", "Too many: 2: must have at most 1 item"),
    ),
    "map": (
        {"type": "object", "additionalProperties": TEXT, "maxProperties": 1},
        {"a": "1", "b": "2"},
        ("spec.map", "FieldValueTooMany", "Too many: 2: must have at most 1 item"),
    ),
    "values": (
        {"type": "object", "additionalProperties": TEXT},
        {"a.b/c": 1},
        ("spec.values.a.b/c", WRONG_TYPE, 'must be of type string: "integer"'),
    ),
    "needs": (
        {**fields(a=TEXT), "required": ["a"]},
        {},
        ("spec.needs.a", "FieldValueRequired", "Required value"),
    ),
    "set": (
        listed(TEXT, **{"x-kubernetes-list-type": "set"}),
        ["a", "a"],
        ("spec.set[1]", "FieldValueDuplicate", 'Duplicate value: "a"'),
    ),
    "keyed": (
        keyed(),
        [{"name": "a"}, {"name": "a"}],
        ("spec.keyed[1]", "FieldValueDuplicate", 'Duplicate value: {"name":"a"}'),
    ),
    "any": (
        {**fields(a=TEXT, b=TEXT), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {},
        ("<nil>", INVALID, '"spec.any" must validate at least one schema (anyOf)'),
    ),
    "one": (
        {**fields(a=TEXT, b=TEXT), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {},
        ("<nil>", INVALID, '"spec.one" must validate one and only one schema (oneOf). Found none valid'),
    ),
    "all": (
        {**fields(a=TEXT), "allOf": [{"properties": {"a": {"minLength": 3}}}]},
        {"a": "b"},
        ("spec.all.a", INVALID, "spec.all.a in body should be at least 3 chars long"),
    ),
    "never": (
        {**fields(a=TEXT), "not": {"required": ["a"]}},
        {"a": "b"},
        ("<nil>", INVALID, '"spec.never" must not validate the schema (not)'),
    ),
}


async def test_a_value_that_breaks_the_schema_is_refused_by_field(cluster: Cluster) -> None:
    async with teaching(cluster) as taught:
        await taught.teach(version(fields(**{name: schema for name, (schema, _, _) in REFUSED.items()})))
        for name, (_, value, (field, reason, words)) in REFUSED.items():
            causes = await taught.causes("POST", taught.path(), taught.widget(name, {name: value}))
            assert [each for each in causes if each[:2] == (field, reason) and words in each[2]], (name, causes)


FORMATS = {
    "date-time": ("2020-01-01T00:00:00Z", "yesterday"),
    "date": ("2020-01-31", "2020-13-01"),
    "duration": ("1h30m", "1x"),
    "email": ("a@example.com", "a"),
    "hostname": ("node-1.example.com", "a_b"),
    "ipv4": ("10.0.0.1", "10.0.0"),
    "ipv6": ("fe80::1", "10.0.0.1"),
    "cidr": ("10.0.0.0/8", "10.0.0.0/33"),
    "mac": ("00:11:22:33:44:55", "00:11"),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000", "123"),
    "byte": ("aGk=", "a$"),
    "uri": ("https://example.com/x", "a b"),
    "k8s-short-name": ("a-b", "A"),
}


async def test_formats_of_strings_are_checked(cluster: Cluster) -> None:
    async with teaching(cluster) as taught:
        properties = {name.replace("-", "_"): {**TEXT, "format": name} for name in FORMATS}
        await taught.teach(version(fields(**properties, other={**TEXT, "format": "nobody-knows"})))
        right = {name.replace("-", "_"): good for name, (good, _) in FORMATS.items()}
        await taught.create("right", {**right, "other": "anything"})
        wrong = {name.replace("-", "_"): bad for name, (_, bad) in FORMATS.items()}
        causes = await taught.causes("POST", taught.path(), taught.widget("wrong", wrong))
        assert {field for field, _, _ in causes} == {f"spec.{name}" for name in wrong}


#: A schema of the spec, and what is wrong with it: where below the schema's root, and words.
NOT_STRUCTURAL = [
    ({}, ".properties[spec].type", "must not be empty for specified object fields"),
    ({"type": "array"}, ".properties[spec].items", "must be specified"),
    (fields(x={"type": "list"}), ".properties[spec].properties[x].type", 'Unsupported value: "list"'),
    ({**fields(x=TEXT), "additionalProperties": TEXT}, ".properties[spec].additionalProperties", "mutual exclusive"),
    (fields(x={**TEXT, "uniqueItems": True}), ".properties[spec].properties[x].uniqueItems", "quadratic"),
    (
        fields(x={**TEXT, "pattern": "("}),
        ".properties[spec].properties[x].pattern",
        "must be a valid regular expression",
    ),
    (fields(x={**TEXT, "id": "a"}), ".properties[spec].properties[x].id", "id is not supported"),
    (
        {**fields(x=TEXT), "anyOf": [{"type": "object"}]},
        ".properties[spec].anyOf[0].type",
        "must be empty to be structural",
    ),
    (
        {**fields(x=TEXT), "not": {"default": {}}},
        ".properties[spec].not.default",
        "must be undefined to be structural",
    ),
    (
        fields(x={**TEXT, "x-kubernetes-embedded-resource": True}),
        ".properties[spec].properties[x].type",
        "must be object if x-kubernetes-embedded-resource is true",
    ),
    (
        fields(x=listed(TEXT, **{"x-kubernetes-list-type": "bag"})),
        ".properties[spec].properties[x].x-kubernetes-list-type",
        'supported values: "atomic", "set", "map"',
    ),
    (
        fields(x=listed(fields(a=TEXT), **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]})),
        ".properties[spec].properties[x].items.properties[a].default",
        "must have a default or be a required property",
    ),
    (fields(x={**INTEGER, "default": "a"}), ".properties[spec].properties[x].default", "must be of type integer"),
    (
        fields(x={**fields(a=INTEGER), "default": {"b": 1}}),
        ".properties[spec].properties[x].default",
        "must not have unknown fields",
    ),
    (
        {**fields(a=INTEGER), "x-kubernetes-validations": [{"rule": "self.b > 1"}]},
        ".properties[spec].x-kubernetes-validations[0].rule",
        "undefined field 'b'",
    ),
    (
        {**fields(a=INTEGER), "x-kubernetes-validations": [{"rule": "other > 1"}]},
        ".properties[spec].x-kubernetes-validations[0].rule",
        "undeclared reference to 'other'",
    ),
    (
        {**fields(a=INTEGER), "x-kubernetes-validations": [{"rule": "self.a > 1", "reason": "Because"}]},
        ".properties[spec].x-kubernetes-validations[0].reason",
        "FieldValueDuplicate",
    ),
    (
        fields(x=listed({**INTEGER, "x-kubernetes-validations": [{"rule": "self > oldSelf"}]}, maxItems=5)),
        ".properties[spec].properties[x].items.x-kubernetes-validations[0].rule",
        "oldSelf cannot be used on the uncorrelatable portion of the schema",
    ),
]


async def test_a_schema_that_is_not_structural_is_refused_by_field(cluster: Cluster) -> None:
    async with teaching(cluster) as taught:
        for schema, place, words in NOT_STRUCTURAL:
            definition = taught.definition(version(schema))
            causes = await taught.causes("POST", DEFINITIONS, definition)
            below = {(field.partition("openAPIV3Schema")[2], message) for field, _, message in causes}
            assert [each for each in below if each[0] == place and words in each[1]], (schema, below)


async def test_fields_that_the_schema_lacks_are_pruned_told_of_or_refused(cluster: Cluster) -> None:
    async with teaching(cluster) as taught:
        embedded = {**fields(spec=FREE), "x-kubernetes-embedded-resource": True}
        await taught.teach(version(fields(x=INTEGER, free=FREE, inner=embedded)))
        inner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "colour": "red"}, "more": 1}
        spec = {"x": 1, "y": 2, "free": {"any": {"thing": 1}}, "inner": inner}
        kept = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
        created = await taught.create("ignored", spec)
        assert created["spec"] == {"x": 1, "free": {"any": {"thing": 1}}, "inner": kept}
        answer = await taught.call("POST", taught.path(), taught.widget("b", {"y": 2}), fieldValidation="Warn")
        assert 'unknown field \\"spec.y\\"' in {key.lower(): value for key, value in answer.headers.items()}["warning"]
        error = await taught.refused("POST", taught.path(), taught.widget("c", {"y": 2}), fieldValidation="Strict")
        assert error.code == 400
        assert 'unknown field "spec.y"' in error.message
        empty = await taught.causes("POST", taught.path(), taught.widget("d", {"inner": {}}))
        assert {field for field, _, _ in empty} >= {"spec.inner.apiVersion", "spec.inner.kind"}
        error = await taught.refused(
            "POST", taught.path(), taught.widget("e", {"inner": {"apiVersion": 5, "kind": "a"}})
        )
        assert (error.code, "spec.inner.apiVersion" in error.message) == (400, True)


async def test_defaults_nulls_and_whole_numbers(cluster: Cluster) -> None:
    async with teaching(cluster) as taught:
        inner = {**fields(list=listed(INTEGER, default=[1])), "default": {}}
        await taught.teach(
            version(
                fields(
                    colour={**TEXT, "default": "red"},
                    inner=inner,
                    maybe={**TEXT, "nullable": True},
                    either={**EITHER, "default": 5},
                    count=INTEGER,
                )
            )
        )
        complete = {"colour": "red", "inner": {"list": [1]}, "either": 5}
        assert (await taught.create("empty", {}))["spec"] == complete
        nulls = {"colour": None, "inner": {"list": None}, "maybe": None, "either": None, "count": None}
        assert (await taught.create("nulls", nulls))["spec"] == {**complete, "maybe": None}
        assert (await taught.create("whole", {"count": 2.0, "either": "50%"}))["spec"]["count"] == 2
        assert (await taught.change("nulls", {"spec": {"colour": None}}))["spec"]["colour"] == "red"


async def test_a_new_schema_holds_at_once_also_for_what_is_there(cluster: Cluster) -> None:
    """Objects that were stored before get the new defaults when they are read, and lose what is no longer known."""
    async with teaching(cluster) as taught:
        await taught.teach(version(fields(x=INTEGER, y=INTEGER)))
        await taught.create("old", {"x": 1, "y": 2})
        await taught.change_versions(version(fields(x=INTEGER, colour={**TEXT, "default": "red"})))

        async def renewed() -> bool:
            return (await taught.get("old"))["spec"] == {"x": 1, "colour": "red"}  # type: ignore[no-any-return]

        await cluster.eventually(renewed)
        assert (await taught.ok("GET", taught.path()))["items"][0]["spec"] == {"x": 1, "colour": "red"}
        changed = await taught.change("old", {"spec": {"x": 2}})
        assert (changed["spec"], changed["metadata"]["generation"]) == ({"x": 2, "colour": "red"}, 2)


async def test_what_was_allowed_before_stays_until_it_is_changed(cluster: Cluster) -> None:
    """Ratcheting: a stricter schema doesn't stand in the way of changes to other fields."""

    def schema(**bound: Any) -> Manifest:
        rules = [{"rule": "self.startsWith('a')", "message": "begins with a"}] if bound else []
        text: Manifest = {**TEXT, "maxLength": 9, **({"x-kubernetes-validations": rules} if rules else {})}
        number = {**INTEGER, **bound}
        return version(
            fields(x=number, y=INTEGER, text=text, parts=keyed(size=number), plain=listed(number), map=fields(x=number))
        )

    async with teaching(cluster) as taught:
        await taught.teach(schema())
        parts = [{"name": "a", "size": -1}, {"name": "b", "size": -1}]
        spec = {"x": -1, "y": 1, "text": "bee", "parts": parts, "plain": [-1, 2], "map": {"x": -1}}
        await taught.create("w", spec)
        await taught.change_versions(schema(minimum=0))

        async def stricter() -> bool:
            error = await taught.refused("POST", taught.path(), taught.widget("new", {"x": -1}), dryRun="All")
            return error.code == 422

        await cluster.eventually(stricter)
        assert (await taught.change("w", {"spec": {"y": 2}}))["spec"]["y"] == 2
        swapped = list(reversed(parts))
        assert (await taught.change("w", {"spec": {"parts": swapped}}))["spec"]["parts"] == swapped
        assert (await taught.change("w", {"metadata": {"labels": {"a": "b"}}}))["metadata"]["labels"] == {"a": "b"}

        async def fields_of(patch: Manifest) -> set[str]:
            return {field for field, _, _ in await taught.causes("PATCH", taught.path("w"), {"spec": patch}, MERGE)}

        assert await fields_of({"x": -2}) == {"spec.x"}
        assert await fields_of({"map": {"x": -2}}) == {"spec.map.x"}
        assert await fields_of({"parts": [{"name": "b", "size": -1}, {"name": "a", "size": -2}]}) == {
            "spec.parts[1].size"
        }
        # Elements of a list without keys have no identity: with the list, all of them are new.
        assert await fields_of({"plain": [-1, 3]}) == {"spec.plain[0]"}
        assert await fields_of({"text": "cow"}) == {"spec.text"}


@pytest.mark.parametrize("change", ["group", "scope", "kind", "plural"])
async def test_what_a_kind_is_can_not_change(cluster: Cluster, change: str) -> None:
    async with teaching(cluster) as taught:
        found = await taught.teach(version(fields(x=INTEGER)))
        spec = found["spec"]
        if change in ("group", "scope"):
            spec[change] = {"group": "other.example.com", "scope": "Cluster"}[change]
        else:
            spec["names"][change] = {"kind": "Gadget", "plural": "gadgets"}[change]
        field = f"spec.{change}" if change in ("group", "scope") else f"spec.names.{change}"
        causes = await taught.causes("PUT", f"{DEFINITIONS}/{taught.name}", found)
        assert [each for each in causes if each[0] == field and "field is immutable" in each[2]], causes
