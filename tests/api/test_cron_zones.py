"""Cron expressions in time zones, forwards and backwards."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.cron import Every, InvalidCron, parse_cron, parse_schedule, time_zone

BERLIN = "Europe/Berlin"
EXPRESSIONS = ("* * * * *", "*/7 3-5 * * *", "30 2 * * *", "0 0 1 */3 mon", "15 22 29 2 *", "59 23 31 * 6")
ZONES = ("UTC", BERLIN, "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo")


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def shown(moment: float, zone: str = "UTC") -> str:
    return datetime.fromtimestamp(moment, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("30 2 * * *", "2025-03-29T12:00Z", "2025-03-31 02:30"),  # on the 30th there is no half past two
        ("30 3 * * *", "2025-03-29T12:00Z", "2025-03-30 03:30"),
        ("0 0 1 1 *", "2025-01-01T00:00Z", "2026-01-01 00:00"),
    ],
)
def test_an_hour_that_a_zone_leaves_out_does_not_fire(expression: str, after: str, expected: str) -> None:
    assert shown(parse_cron(expression).next_firing(at(after), time_zone(BERLIN)), BERLIN) == expected


def test_an_hour_that_a_zone_has_twice_fires_twice() -> None:
    cron, zone = parse_cron("30 2 * * *"), time_zone(BERLIN)
    first = cron.next_firing(at("2025-10-25T12:00Z"), zone)
    assert cron.next_firing(first, zone) - first == 3600


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES), st.integers(0, 2**31))
def test_forwards_and_backwards_agree(expression: str, zone_name: str, moment: int) -> None:
    cron, zone = parse_cron(expression), time_zone(zone_name)
    following = cron.next_firing(moment, zone)
    assert following > moment
    assert cron.last_firing(following, zone) == following
    before = cron.last_firing(following - 1, zone)
    assert before <= moment
    assert cron.next_firing(before, zone) == following
    local = datetime.fromtimestamp(following, zone)
    assert local.minute in cron.minutes
    assert local.hour in cron.hours


def test_every_so_often_goes_on_from_the_time_before() -> None:
    schedule = parse_schedule("@every 1h30m")
    assert schedule == Every(5400)
    assert schedule.last_firing_since(0, 5399, UTC) is None
    assert schedule.last_firing_since(0, 5400 * 3 + 1, UTC) == 5400 * 3
    assert schedule.next_firing(5400, UTC) == 10800


@pytest.mark.parametrize("text", ["@every", "@every soon", "@sometimes"])
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(InvalidCron):
        parse_schedule(text)


@pytest.mark.parametrize("name", ["Mars/Olympus", "../etc/passwd", "/etc/passwd", ""])
def test_what_is_no_time_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidCron, match="unknown time zone"):
        time_zone(name)
