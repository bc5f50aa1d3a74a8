"""Quantities follow the rules of Kubernetes' resource.Quantity."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bosket.api.quantity import (
    Format,
    InvalidQuantity,
    Quantity,
    add,
    canonical,
    compare,
    from_int,
    from_milli,
    integer_or_none,
    parse,
    subtract,
    to_int,
    to_milli,
    total,
)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", Fraction(0)),
        ("1", Fraction(1)),
        ("+1", Fraction(1)),
        ("-1", Fraction(-1)),
        ("007", Fraction(7)),
        ("1.", Fraction(1)),
        (".5", Fraction(1, 2)),
        ("1.5", Fraction(3, 2)),
        ("1n", Fraction(1, 10**9)),
        ("1u", Fraction(1, 10**6)),
        ("1m", Fraction(1, 1000)),
        ("1k", Fraction(10**3)),
        ("1M", Fraction(10**6)),
        ("1G", Fraction(10**9)),
        ("1T", Fraction(10**12)),
        ("1P", Fraction(10**15)),
        ("1E", Fraction(10**18)),
        ("1Ki", Fraction(2**10)),
        ("1Mi", Fraction(2**20)),
        ("1Gi", Fraction(2**30)),
        ("1Ti", Fraction(2**40)),
        ("1Pi", Fraction(2**50)),
        ("1Ei", Fraction(2**60)),
        ("1e3", Fraction(1000)),
        ("1E3", Fraction(1000)),
        ("1e+3", Fraction(1000)),
        ("1e-3", Fraction(1, 1000)),
        ("1.5e3", Fraction(1500)),
        ("0.5Ki", Fraction(512)),
        ("-1.5Gi", Fraction(-3 * 2**29)),
        (" 1Gi ", Fraction(2**30)),
        (2, Fraction(2)),
        (0.5, Fraction(1, 2)),
        (1e-07, Fraction(1, 10**7)),
        (1e22, Fraction(10**22)),
    ],
)
def test_a_suffix_or_an_exponent_multiplies(text: Quantity, amount: Fraction) -> None:
    assert parse(text) == amount


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", ".", "+", "-", "k", "Ki", "e3", "-m", "1K", "1ki", "1KI", "1i", "1mi", "1B", "1GiB", "1e", "1E+"),
        *("1e3m", "1 Gi", "1,5", "1.2.3", "--1", "+-1", "0x10", "1_000", "1e1.5", "NaN", "inf", "١", "1٢", "1Gi\n2"),
        *("1e301", "1e999999999999", "9" * 401),
        *(float("nan"), float("inf")),
    ],
)
def test_what_is_no_quantity_is_refused_by_its_name(text: Quantity) -> None:
    with pytest.raises(InvalidQuantity) as refusal:
        parse(text)
    shown = text if isinstance(text, str) else repr(text)
    assert repr(shown.strip()[:50])[:-1] in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        # No fraction, and the largest suffix for which there is none.
        ("1.5", "1500m"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("1100", "1100"),
        ("1000000k", "1G"),
        ("+1", "1"),
        ("0010", "10"),
        ("-0", "0"),
        ("0Gi", "0"),
        ("0.000001", "1u"),
        ("1.500", "1500m"),
        # The suffix's family stays.
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("1000Ki", "1000Ki"),
        ("-2048Mi", "-2Gi"),
        ("1024Gi", "1Ti"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("100e4", "1e6"),
        ("1e2", "100"),
        ("12e-3", "12e-3"),
        ("1.5e-3", "1500e-6"),
        # Small and fractional binary amounts are written as decimal ones.
        ("0.5Ki", "512"),
        ("1Ki", "1Ki"),
        ("0.1Ki", "102400m"),
        ("1.1Ki", "1126400m"),
        ("-0.5Ki", "-512"),
        # What is finer than a nano is rounded up, away from zero.
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1.1n", "2n"),
        ("1e-10", "1e-9"),
        ("1e-999999999999", "1e-9"),
        ("0.0000000001Ki", "103n"),
        # A binary amount ends at 2⁶³-1; a decimal one doesn't.
        ("8Ei", "9223372036854775807"),
        ("-8Ei", "-9223372036854775807"),
        ("99999Ei", "9223372036854775807"),
        ("7Ei", "7Ei"),
        ("9223372036854775808", "9223372036854775808"),
        ("5000E", "5000E"),
        ("1e30", "1e30"),
        (3, "3"),
        (4000, "4k"),
        (0.25, "250m"),
    ],
)
def test_the_canonical_form(text: Quantity, written: str) -> None:
    assert canonical(text) == written


@pytest.mark.parametrize(
    ("text", "milli", "units"),
    [
        ("1", 1000, 1),
        ("100m", 100, 1),
        ("1500m", 1500, 2),
        ("1500u", 2, 1),
        ("1n", 1, 1),
        ("0", 0, 0),
        ("-1500m", -1500, -2),
        ("-1500u", -2, -1),
        ("1Ki", 1024000, 1024),
        ("0.1Ki", 102400, 103),
        (2, 2000, 2),
        (0.0001, 1, 1),
        ("1E", 10**21, 10**18),
    ],
)
def test_counting_in_thousandths_and_units_rounds_away_from_zero(text: Quantity, milli: int, units: int) -> None:
    assert (to_milli(text), to_int(text)) == (milli, units)


@pytest.mark.parametrize(
    ("a", "b", "order"),
    [
        ("1", "1000m", 0),
        ("1Gi", "1G", 1),
        ("1G", "1Gi", -1),
        ("1e3", "1k", 0),
        ("-1", "1n", -1),
        (1, "1", 0),
        (0.5, "500m", 0),
    ],
)
def test_comparison_looks_through_formats(a: Quantity, b: Quantity, order: int) -> None:
    assert compare(a, b) == order


@pytest.mark.parametrize(
    ("a", "b", "sum_", "difference"),
    [
        ("1Gi", "1Gi", "2Gi", "0"),
        ("1Gi", "1M", "1074741824", "1072741824"),
        ("1M", "1Ki", "1001024", "998976"),
        ("0", "1Gi", "1Gi", "-1Gi"),
        ("500m", "0.5", "1", "0"),
        ("1e3", "1", "1001", "999"),
        ("1Ki", "1m", "1024001m", "1023999m"),
        (1, "1500m", "2500m", "-500m"),
    ],
)
def test_a_sum_has_the_format_of_its_first_operand_that_is_not_zero(
    a: Quantity, b: Quantity, sum_: str, difference: str
) -> None:
    assert (add(a, b), subtract(a, b)) == (sum_, difference)


def test_a_total_of_many_and_of_none() -> None:
    assert total(["0", "1Gi", "512Mi", "512Mi"]) == "2Gi"
    assert total([]) == "0"


def test_numbers_are_written_in_the_format_asked_for() -> None:
    assert from_milli(1500) == "1500m"
    assert from_milli(2000) == "2"
    assert from_int(2**30, Format.BINARY) == "1Gi"
    assert from_int(2**30) == "1073741824"
    assert from_int(3_000_000) == "3M"
    assert from_int(2000, Format.EXPONENT) == "2e3"


texts = st.from_regex(
    r"\A[+-]?([0-9]{1,20}(\.[0-9]{0,12})?|\.[0-9]{1,12})([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?\Z"
)


@given(texts)
def test_the_canonical_form_is_the_same_amount_and_its_own_canonical_form(text: str) -> None:
    written = canonical(text)
    assert compare(written, text) == 0
    assert canonical(written) == written


@given(texts)
def test_rounding_never_comes_closer_to_zero_and_never_by_a_whole_step(text: str) -> None:
    amount = abs(parse(text))
    assert amount <= abs(to_int(text)) < amount + 1
    assert amount <= Fraction(abs(to_milli(text)), 1000) < amount + Fraction(1, 1000)


@given(texts, texts)
def test_addition_is_exact_and_commutes(a: str, b: str) -> None:
    # A binary sum is written decimally where it has to be, so only the cap on what is read could change it.
    if abs(parse(a)) + abs(parse(b)) < 2**63:
        assert parse(add(a, b)) == parse(a) + parse(b)
        assert compare(add(a, b), add(b, a)) == 0
        assert compare(subtract(add(a, b), b), a) == 0


@given(texts, texts)
def test_comparison_agrees_with_the_amounts(a: str, b: str) -> None:
    assert compare(a, b) == (parse(a) > parse(b)) - (parse(a) < parse(b))


@given(st.integers(-(10**15), 10**15))
def test_whole_numbers_survive_writing_and_reading(value: int) -> None:
    assert all(to_int(from_int(value, format)) == value for format in Format)
    assert to_milli(from_milli(value)) == value


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("-7", -7), ("+7", 7), ("007", 7), (str(2**63 - 1), 2**63 - 1), (str(-(2**63)), -(2**63)),
     (str(2**63), None), ("9" * 400, None), ("9" * 5000, None), ("0" * 5000, None), ("1_0", None), (" 1", None),
     ("٣", None), ("1.0", None), ("", None), (None, None)],
)  # fmt: skip
def test_whole_numbers_in_texts_are_those_that_go_reads(text: str | None, number: int | None) -> None:
    assert integer_or_none(text) == number
