"""CEL rules in the schemas of custom resources."""

from __future__ import annotations

from typing import Any

import pytest

from bosket.api.cel import CelError, Expression
from tests.apiserver.world import DEFINITIONS, MERGE, WIDGETS, Doc, World, definition, widget

NUMBERS = {name: {"type": "number"} for name in ("low", "high")}


async def teach(world: World, schema: Doc) -> None:
    await world.ok("POST", DEFINITIONS, definition(schema))


def ruled(*rules: Doc, **properties: Doc) -> Doc:
    return {"type": "object", "properties": properties, "x-kubernetes-validations": list(rules)}


async def test_a_broken_rule_is_answered_with_its_message_at_its_place(world: World) -> None:
    await teach(world, ruled({"rule": "self.low <= self.high", "message": "low must not exceed high"}, **NUMBERS))
    await world.ok("POST", WIDGETS, widget("fine", {"low": 1, "high": 1.5}))
    status = await world.refused(422, "POST", WIDGETS, widget("w", {"low": 2, "high": 1}))
    (cause,) = status["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("spec", "FieldValueInvalid")
    assert cause["message"] == "Invalid value: low must not exceed high"


async def test_a_rule_without_a_message_is_its_own(world: World) -> None:
    await teach(world, ruled({"rule": "self.low > 0.0"}, **NUMBERS))
    status = await world.refused(422, "POST", WIDGETS, widget("w", {"low": 0}))
    assert "failed rule: self.low > 0.0" in status["message"]


async def test_a_rule_may_say_where_and_why_and_compute_its_message(world: World) -> None:
    rule = {
        "rule": "self.low <= self.high",
        "messageExpression": "'low is ' + string(self.low)",
        "fieldPath": ".low",
        "reason": "FieldValueForbidden",
    }
    await teach(world, ruled(rule, **NUMBERS))
    status = await world.refused(422, "POST", WIDGETS, widget("w", {"low": 2, "high": 1}))
    (cause,) = status["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("spec.low", "FieldValueForbidden")
    assert cause["message"].startswith("Forbidden: low is 2")


async def test_a_transition_rule_holds_for_changes(world: World) -> None:
    size = {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "may only grow"}]}
    await teach(world, ruled(size=size))
    await world.ok("POST", WIDGETS, widget("w", {"size": 3}))
    await world.ok("PATCH", f"{WIDGETS}/w", {"spec": {"size": 4}}, MERGE)
    status = await world.refused(422, "PATCH", f"{WIDGETS}/w", {"spec": {"size": 2}}, MERGE)
    assert "spec.size: Invalid value: 2: may only grow" in status["message"]


async def test_a_transition_rule_finds_the_old_element_of_a_keyed_list(world: World) -> None:
    item = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.size == oldSelf.size", "message": "is fixed"}],
    }
    keyed = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    await teach(world, ruled(parts=keyed))
    await world.ok("POST", WIDGETS, widget("w", {"parts": [{"name": "a", "size": 1}, {"name": "b", "size": 2}]}))
    moved = [{"name": "c", "size": 9}, {"name": "b", "size": 2}, {"name": "a", "size": 1}]
    await world.ok("PATCH", f"{WIDGETS}/w", {"spec": {"parts": moved}}, MERGE)
    status = await world.refused(422, "PATCH", f"{WIDGETS}/w", {"spec": {"parts": [{"name": "a", "size": 2}]}}, MERGE)
    assert "spec.parts[0]" in status["message"]


async def test_an_optional_old_self_lets_a_rule_speak_of_creation(world: World) -> None:
    rule = {
        "rule": "oldSelf.hasValue() || !has(self.low)",
        "message": "low comes later",
        "optionalOldSelf": True,
    }
    await teach(world, ruled(rule, **NUMBERS))
    await world.refused(422, "POST", WIDGETS, widget("w", {"low": 1}))
    await world.ok("POST", WIDGETS, widget("w"))
    await world.ok("PATCH", f"{WIDGETS}/w", {"spec": {"low": 1}}, MERGE)


async def test_rules_wait_until_types_are_right(world: World) -> None:
    await teach(world, ruled({"rule": "self.low <= self.high"}, **NUMBERS))
    status = await world.refused(422, "POST", WIDGETS, widget("w", {"low": "x", "high": 1}))
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.low", "<nil>"]


async def test_a_rule_that_can_not_be_evaluated_refuses_and_says_why(world: World) -> None:
    await teach(world, ruled({"rule": "self.low <= self.high", "message": "m"}, **NUMBERS))
    status = await world.refused(422, "POST", WIDGETS, widget("w", {"low": 1}))
    assert "no such key: high" in status["message"]


async def test_a_rule_that_can_not_be_parsed_refuses_the_definition(world: World) -> None:
    status = await world.refused(422, "POST", DEFINITIONS, definition(ruled({"rule": "self.low <="}, **NUMBERS)))
    assert "compilation failed" in status["message"]


@pytest.mark.parametrize(
    ("source", "value", "expected"),
    [
        ("self.?a.orValue(3) == 3", {}, True),
        ("self.?a.?b.hasValue()", {"a": {"b": 1}}, True),
        ("self[?'a'].orValue(1) == 2", {"a": 2}, True),
        ("self.text == 'why.?not'", {"text": "why.?not"}, True),
        ("quantity(self.q).isGreaterThan(quantity('1Mi'))", {"q": "1Gi"}, True),
        ("isQuantity(self.q)", {"q": "many"}, False),
        ("self.name.lowerAscii().split('-').size() == 2", {"name": "A-B"}, True),
        ("self.name.find('[0-9]+') == '12'", {"name": "a12b"}, True),
        ("self.l.isSorted() && self.l.sum() == 6", {"l": [1, 2, 3]}, True),
        ("'%s has %d'.format([self.name, 2]) == 'x has 2'", {"name": "x"}, True),
        ("self.l.all(x, self.l.exists_one(y, y == x))", {"l": [1, 1]}, False),
    ],
)
def test_kubernetes_additions_to_the_language(source: str, value: Any, expected: bool) -> None:
    assert Expression(source).evaluate({"self": value}) is expected


def test_an_expression_of_the_wrong_types_is_an_error_of_ours() -> None:
    with pytest.raises(CelError):
        Expression("self.a + 'x' > 1").evaluate({"self": {"a": 1}})
