"""The inside of a quantity as Go prints it: how it was written decides what it is made of.

Numbers that fit are an integer and a power of ten; with a binary suffix, the integer they stand for. Others are a
decimal of any size, in nanos. A quantity that is written in its canonical form also keeps the text.
"""

from __future__ import annotations

import re
from typing import Final

_WRITTEN: Final = re.compile(r"(?P<sign>[+-]?)0*(?P<whole>\d*)(?:\.(?P<fraction>\d*))?(?P<suffix>.*)", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT: Final = re.compile(r"[eE](?P<power>[+-]?\d+)", re.ASCII)
_DIGITS: Final = 18
_NANO: Final = -9
_LARGEST: Final = 2**63 - 1
_WORD: Final = 2**64


def dumped_quantity(text: str) -> str:
    """The text for a quantity; an unset one is empty."""
    if not text:
        return _shown(0, 0, "", "", "")
    if text == "0":
        return _shown(0, 0, "", "0", "DecimalSI")
    match = _WRITTEN.fullmatch(text.strip())
    assert match is not None, f"{text!r} is no quantity"
    whole, fraction = match["whole"] or "0", match["fraction"] or ""
    exponent, style = _interpreted(match["suffix"])
    is_negative = match["sign"] == "-"
    fits, scale, factor = _as_integer(whole, fraction, exponent, style)
    digits = whole + fraction
    amount = int(digits) * factor
    if fits and scale >= _NANO and amount <= _LARGEST:
        is_canonical = (
            exponent % 10 == 0 and int(digits) & 7 != 0
            if style == "BinarySI"
            else scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
        )
        return _shown(-amount if is_negative else amount, scale, "", text if is_canonical else "", style)
    return _decimal(digits, len(fraction), exponent, style, is_negative=is_negative)


def _interpreted(suffix: str) -> tuple[int, str]:
    """The exponent, of ten or of two, and what Go calls the way of writing."""
    if suffix in _BINARY:
        return _BINARY[suffix], "BinarySI"
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], "DecimalSI"
    match = _EXPONENT.fullmatch(suffix)
    assert match is not None, f"{suffix!r} is no suffix of a quantity"
    return int(match["power"]), "DecimalExponent"


def _as_integer(whole: str, fraction: str, exponent: int, style: str) -> tuple[bool, int, int]:
    """Whether the number is small enough for an integer, its power of ten, and what it is multiplied by."""
    if style != "BinarySI":
        return _DIGITS - len(whole) - len(fraction) >= 0, exponent - len(fraction), 1
    if fraction:
        return False, 0, 1
    return 15 - len(whole) - int(exponent * 3 / 10) - 1 >= 0, 0, 1 << exponent


def _decimal(digits: str, places: int, exponent: int, style: str, *, is_negative: bool) -> str:
    """A number beyond integers: a decimal, rounded up to nanos."""
    unscaled, scale = int(digits), places
    if style == "BinarySI":
        unscaled <<= exponent
    else:
        scale -= exponent
    if unscaled:
        shift = 9 - scale
        unscaled = unscaled * 10**shift if shift >= 0 else -(-unscaled // 10**-shift)
        scale = 9
    if style == "BinarySI":
        if unscaled > _LARGEST * 10**9:
            unscaled, scale = _LARGEST, 0
        elif 0 < unscaled < 10**9:
            style = "DecimalSI"
    words = []
    rest = unscaled
    while rest:
        rest, word = divmod(rest, _WORD)
        words.append(str(word))
    sign = "true" if is_negative and unscaled else "false"
    listed = f"[{' '.join(words)}]" if words else "<nil>"
    inside = f"{{unscaled:(big.Int){{neg:(bool){sign} abs:(big.nat){listed}}} scale:(inf.Scale){scale}}}"
    return _shown(0, 0, inside, "", style)


def _shown(value: int, scale: int, decimal: str, text: str, style: str) -> str:
    return (
        f"{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} "
        f"d:(resource.infDecAmount){{Dec:(*inf.Dec){decimal or '<nil>'}}} s:(string){text} "
        f"Format:(resource.Format){style}}}"
    )
