"""Schema errors name the path in the object."""

from __future__ import annotations

import pytest

from bosket.apiserver.custom.check import Checker

NUMBERS_BY_KEY = {"type": "object", "additionalProperties": {"type": "integer"}}
SCHEMA = {
    "type": "object",
    "properties": {"amounts": NUMBERS_BY_KEY, "rows": {"type": "array", "items": NUMBERS_BY_KEY}},
}


@pytest.mark.parametrize("key", ["0", "007", "+5", "-1", "a", "1.5", "99999999999999999999"])
@pytest.mark.parametrize("old", [None, {}, {"amounts": {}, "rows": []}])
def test_keys_of_maps_may_look_like_numbers(key: str, old: object) -> None:
    checker = Checker(SCHEMA)
    assert [each.field for each in checker.check({"amounts": {key: "x"}}, old)] == [f"amounts.{key}"]
    assert [each.field for each in checker.check({"rows": [{}, {key: "x"}]}, old)] == [f"rows[1].{key}"]


def test_what_was_wrong_before_below_such_a_key_is_no_error() -> None:
    assert not Checker(SCHEMA).check({"amounts": {"0": "x", "1": 2}}, {"amounts": {"0": "x"}})
