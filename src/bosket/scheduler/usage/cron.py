"""Cron expressions of five fields: minute, hour, day of month, month, day of week. In UTC.

Each field is `*` (or `?`), a number, a name (jan, mon), a range, any of these with a step, or a list of them. Where
both days are given, either will do, as in every cron. `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly` stand
for the obvious. Used for windows of usage that begin anew at certain times.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

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
_END_OF_DAY: Final = (23, 59)


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


@dataclass(frozen=True, slots=True)
class Cron:
    """When something happens."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  #: Sunday is 0

    def last_firing(self, now: float) -> float:
        """The latest time that is not after `now` (both in epoch seconds)."""
        moment = datetime.fromtimestamp(now, UTC)
        day, until = moment.date(), (moment.hour, moment.minute)
        oldest = day.year - _RAREST_YEARS
        while day.year >= oldest:
            if day.month not in self.months:
                day, until = day.replace(day=1) - timedelta(days=1), _END_OF_DAY
                continue
            found = self._last_time(until) if self._fires_on(day) else None
            if found is not None:
                return datetime(day.year, day.month, day.day, *found, tzinfo=UTC).timestamp()
            day, until = day - timedelta(days=1), _END_OF_DAY
        raise InvalidCron("no day has this date")

    def _fires_on(self, day: date) -> bool:
        by_date, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        if len(self.days) < 31 and len(self.weekdays) < 7:
            return by_date or by_weekday
        return by_date and by_weekday

    def _last_time(self, until: tuple[int, int]) -> tuple[int, int] | None:
        """The latest (hour, minute) of a day up to this one."""
        for hour in sorted((hour for hour in self.hours if hour <= until[0]), reverse=True):
            minutes = [minute for minute in self.minutes if (hour, minute) <= until]
            if minutes:
                return hour, max(minutes)
        return None


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
