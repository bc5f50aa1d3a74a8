"""Amounts of resources ("500m", "1.5Gi", 2), exactly, by the rules of Kubernetes' `resource.Quantity`.

Every quantity is a whole number of nanos: what is finer is rounded up (away from zero) when it is read, so integers
hold all of them exactly. Beside its amount a quantity has a format, the family of its suffix, which its canonical
form and the first operand of a sum keep:

- decimal (`n u m k M G T P E`, or none), binary (`Ki` to `Ei`) and exponent (`1e3`);
- the canonical form has no fraction and the largest suffix for which that is possible;
- a binary quantity below 1024 in magnitude, or with a fraction, is written as a decimal one; its amount is capped at
  2⁶³−1 in magnitude.

Where Go's 64 bits overflow, or its rounding of negative fractions goes astray, the results here stay exact; and a text
without a digit ("k", "."), which Go reads as zero, is refused.

Everything that computes with wire values calls this module, the scheduler some hundred thousand times with the same few
strings: results are cached.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

#: As JSON has it: mostly a string, but a plain number is welcome.
_WHOLE: Final = re.compile(r"[+-]?0{0,99}[0-9]{1,19}")

Quantity: TypeAlias = str | int | float

_NANO: Final = 10**9
_MAX_BINARY_NANOS: Final = (2**63 - 1) * _NANO
#: More digits than any amount needs; what is longer would only keep the machine busy.
_MAX_LENGTH: Final = 400
_MAX_EXPONENT: Final = 300

_DECIMAL_EXPONENTS: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENTS.items()}
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BINARY_FACTORS: Final = {suffix: 1024**power for power, suffix in enumerate(_BINARY_SUFFIXES) if suffix}
#: Nanos in one unit of a suffix.
_DECIMAL_NANOS: Final = {suffix: 10 ** (9 + exponent) for suffix, exponent in _DECIMAL_EXPONENTS.items()}

_PATTERN: Final = re.compile(
    r"""
    (?P<sign>[+-]?)
    (?: (?P<whole>[0-9]+) (?: \. (?P<fraction>[0-9]*) )? | \. (?P<only_fraction>[0-9]+) )
    (?: (?P<suffix>[KMGTPE]i | [numkMGTPE]) | [eE] (?P<exponent>[+-]?[0-9]+) )?
    """,
    re.VERBOSE,
)


class InvalidQuantity(ValueError):
    """A text that is no quantity; the message names it."""

    def __init__(self, text: str) -> None:
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        super().__init__(
            f"{shown!r} is not a quantity: expected a number with an optional suffix "
            "(n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent), such as 500m, 2 or 1.5Gi"
        )


class Format(Enum):
    """The family of a quantity's suffix."""

    DECIMAL = "decimal"
    BINARY = "binary"
    EXPONENT = "exponent"


class _Amount(NamedTuple):
    nanos: int
    format: Format


def parse(quantity: Quantity) -> Fraction:
    """The exact amount."""
    return Fraction(_amount(quantity).nanos, _NANO)


@lru_cache(maxsize=16384)
def to_milli(quantity: Quantity) -> int:
    """Thousandths, rounded away from zero: what a CPU is counted in."""
    return _divide_away_from_zero(_amount(quantity).nanos, 10**6)


@lru_cache(maxsize=16384)
def to_int(quantity: Quantity) -> int:
    """Units, rounded away from zero: bytes, devices, pods."""
    return _divide_away_from_zero(_amount(quantity).nanos, _NANO)


@lru_cache(maxsize=4096)
def canonical(quantity: Quantity) -> str:
    """The one way to write this amount in this format; equal quantities of a format are equal texts."""
    return _write(_amount(quantity))


def from_milli(milli: int, format: Format = Format.DECIMAL) -> str:
    """Write thousandths: `from_milli(1500)` is "1500m", `from_milli(2000)` "2"."""
    return _write(_Amount(milli * 10**6, format))


def from_int(value: int, format: Format = Format.DECIMAL) -> str:
    """Write units: `from_int(2**30, Format.BINARY)` is "1Gi"."""
    return _write(_Amount(value * _NANO, format))


def compare(a: Quantity, b: Quantity) -> int:
    """-1, 0 or 1 as the amount of `a` is smaller than, equal to or larger than that of `b`, whatever their formats."""
    difference = _amount(a).nanos - _amount(b).nanos
    return (difference > 0) - (difference < 0)


def add(a: Quantity, b: Quantity) -> str:
    """The sum, in the format of `a`; in that of `b` where `a` is zero."""
    first, second = _amount(a), _amount(b)
    return _write(_Amount(first.nanos + second.nanos, first.format if first.nanos else second.format))


def subtract(a: Quantity, b: Quantity) -> str:
    """The difference, in the format of `a`; in that of `b` where `a` is zero."""
    first, second = _amount(a), _amount(b)
    return _write(_Amount(first.nanos - second.nanos, first.format if first.nanos else second.format))


class Sum:
    """A running sum, in the format of the first quantity that isn't zero; "0" of none. Written out once, at its end."""

    __slots__ = ("_format", "_nanos")

    def __init__(self) -> None:
        self._nanos, self._format = 0, Format.DECIMAL

    def add(self, quantity: Quantity) -> None:
        nanos, format = _amount(quantity)
        if not self._nanos:
            self._format = format
        self._nanos += nanos

    def __str__(self) -> str:
        return _write(_Amount(self._nanos, self._format))


def total(quantities: Iterable[Quantity]) -> str:
    """The sum of all, as `Sum` has it."""
    result = Sum()
    for quantity in quantities:
        result.add(quantity)
    return str(result)


@lru_cache(maxsize=16384)
def _amount(quantity: Quantity) -> _Amount:
    if isinstance(quantity, int):
        return _Amount(quantity * _NANO, Format.DECIMAL)
    text = quantity.strip() if isinstance(quantity, str) else repr(quantity)
    # Nearly everything in a cluster is digits with a suffix, or digits alone.
    if len(text) < 20:
        if text[-2:] in _BINARY_FACTORS and _is_digits(text[:-2]):
            return _binary(int(text[:-2]) * _BINARY_FACTORS[text[-2:]] * _NANO)
        if text[-1:] in _DECIMAL_NANOS and _is_digits(text[:-1]):
            return _Amount(int(text[:-1]) * _DECIMAL_NANOS[text[-1:]], Format.DECIMAL)
        if _is_digits(text):
            return _Amount(int(text) * _NANO, Format.DECIMAL)
    return _parse_any(text)


def _parse_any(text: str) -> _Amount:
    match = _PATTERN.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise InvalidQuantity(text)
    fraction = match["fraction"] or match["only_fraction"] or ""
    digits = int((match["whole"] or "") + fraction)
    sign = -1 if match["sign"] == "-" else 1
    suffix, exponent = match["suffix"] or "", match["exponent"]
    if suffix in _BINARY_FACTORS:
        nanos = _round_up(digits * _BINARY_FACTORS[suffix], 9 - len(fraction))
        amount = _binary(nanos)
        return amount._replace(nanos=sign * amount.nanos)
    if exponent is None:
        return _Amount(sign * _round_up(digits, 9 + _DECIMAL_EXPONENTS[suffix] - len(fraction)), Format.DECIMAL)
    if int(exponent) > _MAX_EXPONENT:
        raise InvalidQuantity(text)
    # Below the smallest exponent everything but zero rounds up to one nano anyway.
    power = max(9 + int(exponent) - len(fraction), -2 * _MAX_LENGTH)
    return _Amount(sign * _round_up(digits, power), Format.EXPONENT)


def _binary(nanos: int) -> _Amount:
    """A binary amount within its bounds; below one it counts as decimal."""
    if 0 < nanos < _NANO:
        return _Amount(nanos, Format.DECIMAL)
    return _Amount(min(nanos, _MAX_BINARY_NANOS), Format.BINARY)


def _round_up(digits: int, power: int) -> int:
    """`digits` × 10^`power`, rounded up to a whole number."""
    scale: int = 10 ** abs(power)
    return digits * scale if power >= 0 else -(-digits // scale)


def _divide_away_from_zero(value: int, divisor: int) -> int:
    return -(-value // divisor) if value >= 0 else value // divisor


def integer_or_none(text: str | None) -> int | None:
    """The whole number that a label or an annotation holds, by Go's rules: ASCII digits, in 64 bits; None for others.

    Python's own `int` raises for thousands of digits, and takes what Kubernetes doesn't: "1_0", digits of any script.
    """
    if text is None or not _WHOLE.fullmatch(text):
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def _is_digits(text: str) -> bool:
    return text.isdigit() and text.isascii()


@lru_cache(maxsize=16384)
def _write(amount: _Amount) -> str:
    nanos = amount.nanos
    if nanos == 0:
        return "0"
    if amount.format is Format.BINARY and nanos % _NANO == 0 and abs(nanos) >= 1024 * _NANO:
        mantissa, power = nanos // _NANO, 0
        while mantissa % 1024 == 0 and power < len(_BINARY_SUFFIXES) - 1:
            mantissa //= 1024
            power += 1
        return f"{mantissa}{_BINARY_SUFFIXES[power]}"
    mantissa, exponent = nanos, -9
    # A decimal amount ends at the largest suffix; an exponent may grow with the number.
    while mantissa % 1000 == 0 and (exponent < 18 or amount.format is Format.EXPONENT):
        mantissa //= 1000
        exponent += 3
    if amount.format is Format.EXPONENT:
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{_DECIMAL_SUFFIXES[exponent]}"
