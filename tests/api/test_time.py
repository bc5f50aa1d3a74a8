"""Times and durations as Kubernetes and Go write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bosket.api.time import (
    InvalidDuration,
    InvalidTime,
    format_duration,
    format_micro_time,
    format_time,
    parse_duration,
    parse_time,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-02T03:04:05Z", 1767323045),
        ("2026-01-02T03:04:05+00:00", 1767323045),
        ("2026-01-02T05:34:05+02:30", 1767323045),
        ("2026-01-01T22:04:05-05:00", 1767323045),
        ("2026-01-02T03:04:05.5Z", 1767323045.5),
        ("2026-01-02T03:04:05.000001Z", 1767323045.000001),
        ("2026-01-02T03:04:05.123456789Z", 1767323045.123456789),
        ("2024-02-29T00:00:00Z", 1709164800),
        ("0001-01-01T00:00:00Z", -62135596800),
    ],
)
def test_a_time_is_read_with_its_fraction_and_offset(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2026-01-02", "2026-01-02T03:04:05", "2026-01-02 03:04:05Z", "2026-01-02t03:04:05z"),
        *("20260102T030405Z", "2026-W01-1T00:00:00Z", "2026-13-01T00:00:00Z", "2025-02-29T00:00:00Z"),
        *(
            "2026-01-02T25:00:00Z",
            "2026-01-02T03:04:60Z",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05+0200",
            "٢026-01-02T03:04:05Z",
        ),
    ],
)
def test_what_is_no_time_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(InvalidTime, match="is not a time") as refusal:
        parse_time(text)
    assert repr(text) in str(refusal.value)


def test_a_time_is_written_to_the_second_that_has_begun() -> None:
    assert format_time(1767323045) == "2026-01-02T03:04:05Z"
    assert format_time(1767323045.999) == "2026-01-02T03:04:05Z"
    assert format_time(-0.5) == "1969-12-31T23:59:59Z"
    assert format_time(-62135596800) == "0001-01-01T00:00:00Z"


def test_a_micro_time_has_six_digits() -> None:
    assert format_micro_time(1767323045) == "2026-01-02T03:04:05.000000Z"
    assert format_micro_time(1767323045.123456) == "2026-01-02T03:04:05.123456Z"


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e18])
def test_a_number_that_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidTime):
        format_time(seconds)
    with pytest.raises(InvalidTime):
        format_micro_time(seconds)


@given(st.integers(0, 4_000_000_000_000_000))
def test_a_time_survives_writing_and_reading_to_the_microsecond(micros: int) -> None:
    seconds = micros / 10**6
    assert abs(parse_time(format_micro_time(seconds)) - seconds) < 1e-6
    assert parse_time(format_time(seconds)) == micros // 10**6


@pytest.mark.parametrize(
    ("text", "seconds", "written"),
    [
        ("0", 0, "0s"),
        ("0s", 0, "0s"),
        ("-0", 0, "0s"),
        ("1ns", 1e-9, "1ns"),
        ("1.5us", 1.5e-6, "1.5µs"),
        ("2µs", 2e-6, "2µs"),
        ("2μs", 2e-6, "2µs"),
        ("300ms", 0.3, "300ms"),
        ("1.000001ms", 0.001000001, "1.000001ms"),
        (".5s", 0.5, "500ms"),
        ("1.s", 1, "1s"),
        ("1.5s", 1.5, "1.5s"),
        ("+5s", 5, "5s"),
        ("-1m", -60, "-1m0s"),
        ("90s", 90, "1m30s"),
        ("1m0.25s", 60.25, "1m0.25s"),
        ("1.5h", 5400, "1h30m0s"),
        ("1h2m3.5s", 3723.5, "1h2m3.5s"),
        ("3s2m1h", 3723, "1h2m3s"),
        ("1h", 3600, "1h0m0s"),
        ("100h", 360000, "100h0m0s"),
        ("0.1234567899s", 0.123456789, "123.456789ms"),
        ("2562047h47m16s", 9223372036, "2562047h47m16s"),
    ],
)
def test_a_duration_is_read_and_written_as_go_does(text: str, seconds: float, written: str) -> None:
    assert parse_duration(text) == pytest.approx(seconds, rel=1e-15)
    assert format_duration(parse_duration(text)) == written


@pytest.mark.parametrize(
    "text", ["", "1", "-", "+", ".", "s", ".s", "1x", "1 s", "1d", "1s2", "--1s", "1h-1m", "1e3s", "3000000h", "١s"]
)
def test_what_is_no_duration_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(InvalidDuration, match="is not a duration") as refusal:
        parse_duration(text)
    assert repr(text) in str(refusal.value)


@pytest.mark.parametrize("seconds", [float("nan"), float("-inf"), 1e10])
def test_a_number_that_is_no_duration_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidDuration):
        format_duration(seconds)


@given(st.integers(-(10**15), 10**15))
def test_a_duration_survives_writing_and_reading(nanos: int) -> None:
    assert parse_duration(format_duration(nanos / 10**9)) == nanos / 10**9


@pytest.mark.parametrize("text", ["1" * 100_000, "1." + "1" * 100_000, "1s" * 20_000 + "1", "-" + "1" * 100_000 + "x"])
def test_a_duration_of_many_digits_is_refused_at_once(text: str) -> None:
    """Were digits tried in all ways of dividing them, this would take a minute for each."""
    with pytest.raises(InvalidDuration):
        parse_duration(text)
