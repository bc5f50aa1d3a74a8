"""An expression that would take too long isn't evaluated."""

from __future__ import annotations

import pytest

from bosket.api.cel import CelError, Expression

LONG = list(range(2000))


def test_loops_in_loops_over_long_lists_are_refused() -> None:
    nested = Expression("self.all(x, self.all(y, x + y >= 0))")
    assert nested.evaluate({"self": LONG[:100]}) is True
    with pytest.raises(CelError, match="cost limit exceeded"):
        nested.evaluate({"self": LONG})


def test_one_loop_after_the_other_is_not_one_in_the_other() -> None:
    assert Expression("self.all(x, x >= 0) && self.exists(x, x == 1)").evaluate({"self": LONG}) is True


def test_what_is_in_quotes_is_no_loop() -> None:
    assert Expression("self.all(x, string(x) != '.all(y, .all(z, ')").evaluate({"self": LONG}) is True


def test_lists_that_double_are_refused() -> None:
    doubled = "self"
    for step in range(40):
        doubled = f"cel.bind(v{step}, {doubled}, v{step} + v{step})"
    with pytest.raises(CelError, match="cost limit exceeded"):
        Expression(f"size({doubled}) > 0").evaluate({"self": LONG})


def test_texts_count_where_they_are_taken_apart() -> None:
    loops = "self.split('').all(x, self.split('').all(y, x == y))"
    with pytest.raises(CelError, match="cost limit exceeded"):
        Expression(loops).evaluate({"self": "a" * 2000})


def test_variables_of_loops_need_not_be_given() -> None:
    expression = Expression("object.items.exists(x, cel.bind(y, x.name, y == other))")
    assert expression.unbound == {"object", "other"}
