"""Points in time and durations, as they travel: RFC 3339 ("2026-01-02T03:04:05Z") and Go's ("1h2m3.5s").

In memory both are floats: seconds since 1970, and seconds. A float holds today's time to the microsecond, the finest
that Kubernetes writes (MicroTime).
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?P<fraction>\.\d+)?(?:Z|[+-]\d{2}:\d{2})", re.ASCII)
# Digits belong to one repetition only: where two could share them, a long number without a unit is tried in all ways.
_DURATION: Final = re.compile(r"[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+", re.ASCII)
_LONG_DURATION: Final = re.compile(r"(?=.)(?:(?P<weeks>\d{1,6})w)?(?:(?P<days>\d{1,6})d)?(?P<rest>.*)", re.ASCII)
_DURATION_PART: Final = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = 10**9
#: In nanoseconds. The two spellings of micro are the micro sign and the Greek letter.
_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
#: Go counts nanoseconds in 64 bits: some 292 years.
_MAX_DURATION: Final = 2**63 - 1


class InvalidTime(ValueError):
    """A text that is no RFC 3339 time, or a number that is none; the message names it."""

    def __init__(self, value: str | float) -> None:
        super().__init__(f"{value!r} is not a time: expected RFC 3339, such as 2026-01-02T03:04:05Z")


class InvalidDuration(ValueError):
    """A text that is no duration; the message names it."""

    def __init__(self, value: str | float) -> None:
        super().__init__(
            f"{value!r} is not a duration: expected numbers with units (ns us ms s m h), such as 1h30m or 1.5s"
        )


@lru_cache(maxsize=65536)
def parse_time(text: str) -> float:
    """Seconds since 1970 of an RFC 3339 time with any offset and any number of fractional digits."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise InvalidTime(text)
    fraction = match["fraction"] or ""
    # datetime keeps six digits and drops the rest; all of them belong to the number.
    whole = text[: match.start("fraction")] + text[match.end("fraction") :] if fraction else text
    try:
        seconds = (datetime.fromisoformat(whole) - _EPOCH).total_seconds()
    except ValueError:
        raise InvalidTime(text) from None
    return seconds + float(fraction) if fraction else seconds


def time_or_zero(text: str | None) -> float:
    """API servers write times that can be read; of other sources a bad one only costs the object its age."""
    try:
        return parse_time(text) if text else 0.0
    except InvalidTime:
        return 0.0


def format_time(seconds: float) -> str:
    """To the second, which has begun, in UTC: as metav1.Time is written."""
    return _utc(seconds, math.floor(seconds) * 10**6 if math.isfinite(seconds) else 0).isoformat()[:19] + "Z"


def format_micro_time(seconds: float) -> str:
    """To the microsecond, in UTC: as metav1.MicroTime is written."""
    micros = round(seconds * 10**6) if math.isfinite(seconds) else 0
    return _utc(seconds, micros).isoformat(timespec="microseconds")[:26] + "Z"


@lru_cache(maxsize=1024)
def parse_duration(text: str) -> float:
    """Seconds of a Go duration. Digits below a nanosecond are dropped."""
    if text in ("0", "+0", "-0"):
        return 0.0
    if not _DURATION.fullmatch(text):
        raise InvalidDuration(text)
    nanos = 0
    for whole, fraction, unit in _DURATION_PART.findall(text):
        nanos += int(whole or 0) * _UNITS[unit]
        if fraction:
            nanos += int(fraction) * _UNITS[unit] // 10 ** len(fraction)
    if nanos > _MAX_DURATION:
        raise InvalidDuration(text)
    return -nanos / _SECOND if text[0] == "-" else nanos / _SECOND


def parse_long_duration(text: str) -> float:
    """Seconds of a Go duration that may begin with weeks and days, such as 1w2d12h."""
    match = _LONG_DURATION.fullmatch(text)
    if match is None:
        raise InvalidDuration(text)
    days = 7 * int(match["weeks"] or 0) + int(match["days"] or 0)
    return days * 86400.0 + (parse_duration(match["rest"]) if match["rest"] else 0.0)


def format_duration(seconds: float) -> str:
    """As Go's Duration.String writes it: "1h0m0s", "1.5s", "300ms", "0s"; to the nanosecond."""
    if not math.isfinite(seconds) or abs(seconds) > _MAX_DURATION / _SECOND:
        raise InvalidDuration(seconds)
    nanos = min(round(abs(seconds) * _SECOND), _MAX_DURATION)
    if nanos == 0:
        return "0s"
    sign = "-" if seconds < 0 else ""
    if nanos < _SECOND:
        # Short ones have a single unit, the largest below them.
        unit = "ms" if nanos >= _UNITS["ms"] else "µs" if nanos >= _UNITS["µs"] else "ns"
        return f"{sign}{_decimal(nanos, _UNITS[unit])}{unit}"
    minutes, rest = divmod(nanos, _UNITS["m"])
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, _SECOND)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else f"{sign}{text}"


def _utc(seconds: float, micros: int) -> datetime:
    try:
        if not math.isfinite(seconds):
            raise InvalidTime(seconds)
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise InvalidTime(seconds) from None


def _decimal(value: int, unit: int) -> str:
    """`value` / `unit` with as many decimals as it has; `unit` is a power of ten."""
    whole, rest = divmod(value, unit)
    return f"{whole}.{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else str(whole)
