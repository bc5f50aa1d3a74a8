"""Cron expressions of five fields: minute, hour, day of month, month, day of week. In UTC, or in a time zone.

Each field is `*` (or `?`), a number, a name (jan, mon), a range, any of these with a step, or a list of them. Where
both days are given, either will do, as in every cron. `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly` stand
for the obvious. Used for windows of usage that begin anew at certain times, and for CronJobs, whose schedules may also
be `@every` so often. An hour that a time zone leaves out passes without firing; one that it has twice fires twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bosket.api.time import InvalidDuration, parse_duration

_MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_PART: Final = re.compile(r"(?P<all>[*?])|(?P<first>\w+)(?:-(?P<last>\w+))?", re.ASCII)
#: The rarest day, 29 February, comes after eight years at the latest (1896, 1904).
_RAREST_YEARS: Final = 8
_MINUTE: Final = 60.0
_QUARTER: Final = 900.0


class InvalidCron(ValueError):
    """A text that is no cron expression, or one that never fires; the message says which field is wrong."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _WEEKDAYS),  # 7 is Sunday once more
)


class Schedule(Protocol):
    """When something happens; all times are epoch seconds."""

    def next_firing(self, after: float, zone: tzinfo = UTC) -> float:
        """The first time after this one."""
        ...

    def last_firing_since(self, since: float, now: float, zone: tzinfo = UTC) -> float | None:
        """The latest time after `since` and not after `now`; None if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Every:
    """Again and again, so many seconds after the time before."""

    seconds: int

    def next_firing(self, after: float, zone: tzinfo = UTC) -> float:
        del zone
        return float(int(after)) + self.seconds

    def last_firing_since(self, since: float, now: float, zone: tzinfo = UTC) -> float | None:
        first = self.next_firing(since, zone)
        return first + (now - first) // self.seconds * self.seconds if first <= now else None


@dataclass(frozen=True, slots=True)
class Cron:
    """When something happens."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  #: Sunday is 0

    def last_firing(self, now: float, zone: tzinfo = UTC) -> float:
        """The latest time that is not after `now` (both in epoch seconds)."""
        return self._search(now // _MINUTE * _MINUTE, -1, zone)

    def next_firing(self, after: float, zone: tzinfo = UTC) -> float:
        """The first time after this one (both in epoch seconds)."""
        return self._search(after // _MINUTE * _MINUTE + _MINUTE, 1, zone)

    def last_firing_since(self, since: float, now: float, zone: tzinfo = UTC) -> float | None:
        """The latest time after `since` and not after `now`; None if there is none."""
        found = self.last_firing(now, zone)
        return found if found > since else None

    def _search(self, moment: float, direction: int, zone: tzinfo) -> float:
        """From a full minute on, forward (1) or backward (-1), the first that fits."""
        local = datetime.fromtimestamp(moment, zone)
        furthest = local.year + direction * _RAREST_YEARS
        while (local.year - furthest) * direction <= 0:
            if local.month not in self.months or not self._fires_on(local.date()):
                local = _next_day(local.date(), direction, zone, whole_month=local.month not in self.months)
            elif local.hour in self.hours and local.minute in self.minutes:
                return local.timestamp()
            else:
                # Through real time, not through the clock's: it may go back, or skip some. No zone is off by less than
                # a quarter of an hour.
                here = local.timestamp()
                step = _MINUTE if local.hour in self.hours else _to_quarter(here, direction)
                local = datetime.fromtimestamp(here + direction * step, zone)
        raise InvalidCron("no day has this date")

    def _fires_on(self, day: date) -> bool:
        by_date, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        if len(self.days) < 31 and len(self.weekdays) < 7:
            return by_date or by_weekday
        return by_date and by_weekday


def _next_day(day: date, direction: int, zone: tzinfo, *, whole_month: bool) -> datetime:
    """The first minute of the next day, or month; the last one of the day, or month, before."""
    if direction > 0:
        first = (day.replace(day=1) + timedelta(days=32)).replace(day=1) if whole_month else day + timedelta(days=1)
        made = datetime(first.year, first.month, first.day, tzinfo=zone)
    else:
        last = day.replace(day=1) - timedelta(days=1) if whole_month else day - timedelta(days=1)
        made = datetime(last.year, last.month, last.day, 23, 59, fold=1, tzinfo=zone)
    return datetime.fromtimestamp(made.timestamp(), zone)  # midnight may be an hour that this day doesn't have


def _to_quarter(moment: float, direction: int) -> float:
    """Seconds to the next quarter of an hour; backward, to the minute before the last one."""
    into = moment % _QUARTER
    return _QUARTER - into if direction > 0 else into + _MINUTE


def parse_schedule(text: str) -> Schedule:
    """Reads the schedule of a CronJob, which may be `@every` so often, too; raises `InvalidCron`."""
    word, _, rest = text.strip().partition(" ")
    if word.lower() != "@every":
        return parse_cron(text)
    try:
        seconds = int(parse_duration(rest.strip()))
    except InvalidDuration as error:
        raise InvalidCron(f"{text!r}: {error}") from error
    return Every(max(1, seconds))


def time_zone(name: str) -> tzinfo:
    """The time zone of this name; raises `InvalidCron`."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidCron(f"unknown time zone {name}") from error


def parse_cron(text: str) -> Cron:
    """Reads an expression; raises `InvalidCron`."""
    parts = _MACROS.get(text.strip().lower(), text).split()
    if len(parts) != len(_FIELDS):
        raise InvalidCron(f"{text!r} has {len(parts)} fields, it must have {len(_FIELDS)}, such as 0 0 * * mon")
    minutes, hours, days, months, weekdays = (
        frozenset(_values(field, part)) for field, part in zip(_FIELDS, parts, strict=True)
    )
    cron = Cron(minutes, hours, days, months, frozenset(day % 7 for day in weekdays))
    try:
        cron.last_firing(0.0)
    except InvalidCron as error:
        raise InvalidCron(f"{text!r} never fires: {error}") from error
    return cron


def _values(field: _Field, text: str) -> set[int]:
    values: set[int] = set()
    for part in text.split(","):
        spread, slash, step_text = part.partition("/")
        match = _PART.fullmatch(spread)
        if match is None or (slash and not (step_text.isascii() and step_text.isdecimal() and int(step_text))):
            raise InvalidCron(f"{part!r} can't be read as {field.name}")
        if match["all"]:
            first, last = field.least, field.most
        else:
            first = _number(field, match["first"])
            last = _number(field, match["last"]) if match["last"] else field.most if slash else first
        if first > last:
            raise InvalidCron(f"{part!r} as {field.name} goes backwards")
        values.update(range(first, last + 1, int(step_text) if slash else 1))
    return values


def _number(field: _Field, text: str) -> int:
    if text.lower() in field.names:
        return field.names.index(text.lower()) + field.least
    if not text.isdecimal() or not field.least <= int(text) <= field.most:
        raise InvalidCron(f"{text!r} is no {field.name}: expected {field.least} to {field.most}")
    return int(text)
