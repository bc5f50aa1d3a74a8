"""Cron expressions say when they last fired."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bosket.api.cron import Cron, InvalidCron, parse_cron

#: A Wednesday.
NOW = "2026-03-18T14:35:20"


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("expression", "last"),
    [
        ("* * * * *", "2026-03-18T14:35:00"),
        ("*/10 * * * *", "2026-03-18T14:30:00"),
        ("5/20 * * * *", "2026-03-18T14:25:00"),
        ("40 * * * *", "2026-03-18T13:40:00"),
        ("0 0 * * *", "2026-03-18T00:00:00"),
        ("0 15 * * *", "2026-03-17T15:00:00"),
        ("30 9-17/4 * * *", "2026-03-18T13:30:00"),
        ("0 8,20 * * *", "2026-03-18T08:00:00"),
        ("0 0 * * mon", "2026-03-16T00:00:00"),
        ("0 0 * * 0", "2026-03-15T00:00:00"),
        ("0 0 * * 7", "2026-03-15T00:00:00"),
        ("0 0 * * fri-7", "2026-03-15T00:00:00"),
        ("0 0 ? * MON-FRI", "2026-03-18T00:00:00"),
        ("0 0 1 * *", "2026-03-01T00:00:00"),
        ("0 0 31 * *", "2026-01-31T00:00:00"),
        ("0 0 1 JAN,jul *", "2026-01-01T00:00:00"),
        ("0 0 1 */6 *", "2026-01-01T00:00:00"),
        ("0 0 29 2 *", "2024-02-29T00:00:00"),
        ("0 0 19 3 *", "2025-03-19T00:00:00"),
        # Both days given: either will do.
        ("0 0 1 * tue", "2026-03-17T00:00:00"),
        ("0 0 18 * tue", "2026-03-18T00:00:00"),
        ("@hourly", "2026-03-18T14:00:00"),
        ("@daily", "2026-03-18T00:00:00"),
        ("@weekly", "2026-03-15T00:00:00"),
        ("@monthly", "2026-03-01T00:00:00"),
        ("@YEARLY", "2026-01-01T00:00:00"),
    ],
)
def test_the_last_firing_is_the_latest_that_is_not_after_now(expression: str, last: str) -> None:
    assert parse_cron(expression).last_firing(at(NOW)) == at(last)


def test_it_fires_at_the_very_minute() -> None:
    assert parse_cron("35 14 18 3 *").last_firing(at("2026-03-18T14:35:00")) == at("2026-03-18T14:35:00")
    assert parse_cron("36 14 18 3 *").last_firing(at("2026-03-18T14:35:59")) == at("2025-03-18T14:36:00")


def test_the_rarest_day_is_found_across_a_century_without_leap_year() -> None:
    assert parse_cron("0 0 29 feb *").last_firing(at("2104-02-28T00:00:00")) == at("2096-02-29T00:00:00")


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("", "'' has 0 fields, it must have 5"),
        ("0 0 * * * *", "'0 0 * * * *' has 6 fields, it must have 5"),
        ("60 * * * *", "'60' is no minute: expected 0 to 59"),
        ("* 24 * * *", "'24' is no hour: expected 0 to 23"),
        ("* * 0 * *", "'0' is no day of month: expected 1 to 31"),
        ("* * * 13 *", "'13' is no month: expected 1 to 12"),
        ("* * * * 8", "'8' is no day of week: expected 0 to 7"),
        ("* * * * monday", "'monday' is no day of week"),
        ("*/0 * * * *", "'*/0' can't be read as minute"),
        ("*/x * * * *", "'*/x' can't be read as minute"),
        ("1-2-3 * * * *", "'1-2-3' can't be read as minute"),
        (", * * * *", "'' can't be read as minute"),
        ("-5 * * * *", "'-5' can't be read as minute"),
        ("30-10 * * * *", "'30-10' as minute goes backwards"),
        ("0 0 30 2 *", "'0 0 30 2 *' never fires"),
        ("@reboot", "'@reboot' has 1 fields"),
    ],
)
def test_what_is_wrong_is_named(expression: str, complaint: str) -> None:
    with pytest.raises(InvalidCron) as error:
        parse_cron(expression)
    assert str(error.value).startswith(complaint)


FIELDS = st.tuples(
    st.sampled_from(["*", "0", "*/7", "3-17/5", "58,2"]),
    st.sampled_from(["*", "0", "*/5", "9-17", "23,1"]),
    st.sampled_from(["*", "1", "*/9", "28-31"]),
    st.sampled_from(["*", "2", "jan-mar", "*/5"]),
    st.sampled_from(["*", "0", "mon-fri", "6-7"]),
)


@given(FIELDS, st.integers(0, 4_000_000_000))
def test_a_firing_is_allowed_by_every_field_and_none_comes_between_it_and_now(
    fields: tuple[str, ...], now: int
) -> None:
    cron = parse_cron(" ".join(fields))
    last = cron.last_firing(now)
    assert last <= now
    assert fits(cron, last)
    minute = datetime.fromtimestamp(now, UTC).replace(second=0)
    for _ in range(200):
        if minute.timestamp() <= last:
            break
        assert not fits(cron, minute.timestamp())
        minute -= timedelta(minutes=1)


def fits(cron: Cron, time: float) -> bool:
    moment = datetime.fromtimestamp(time, UTC)
    by_date, by_weekday = moment.day in cron.days, moment.isoweekday() % 7 in cron.weekdays
    either = len(cron.days) < 31 and len(cron.weekdays) < 7
    return (
        moment.minute in cron.minutes
        and moment.hour in cron.hours
        and moment.month in cron.months
        and ((by_date or by_weekday) if either else (by_date and by_weekday))
    )
