"""Amounts, durations and lists as the everyday commands print them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

#: A bound that there isn't.
UNBOUNDED: Final = "∞"
UNKNOWN: Final = "?"


def amount(value: float) -> str:
    """A number as people write it: no more than two decimals, and none where it is whole."""
    if math.isinf(value):
        return UNBOUNDED
    text = f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def bound(value: float | None) -> str:
    """A quota or limit; None is unbounded."""
    return UNBOUNDED if value is None else amount(value)


def duration(seconds: float) -> str:
    """How long ago, as kubectl writes it: 45s, 12m, 3h20m, 5d4h."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 60:
        return f"{minutes}m"
    if hours < 10 and minutes % 60:
        return f"{hours}h{minutes % 60}m"
    if hours < 48:
        return f"{hours}h"
    return f"{days}d{hours % 24}h" if days < 10 and hours % 24 else f"{days}d"


def shortened(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are."""
    if len(names) <= most:
        return ",".join(names)
    return f"{','.join(names[:most])},+{len(names) - most}"
