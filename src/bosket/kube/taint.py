"""Whether a toleration covers a taint: the one rule for those who place pods and those who drive them away."""

from __future__ import annotations

import re
from typing import Final

from bosket.api.core import Taint, Toleration

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_INT64: Final = range(-(2**63), 2**63)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """As Kubernetes means it: no effect means every effect; no key, which only `Exists` may have, every taint.

    `Lt` and `Gt` ask whether the taint's value is below or above the toleration's; they hold for nothing but integers.
    """
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    if not toleration.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Lt" | "Gt":
            bound, value = _integer(toleration.value), _integer(taint.value)
            if bound is None or value is None:
                return False
            return value < bound if toleration.operator == "Lt" else value > bound
        case _:
            return False


def _integer(text: str) -> int | None:
    """An int64 in its only decimal form: neither a plus sign nor leading zeros."""
    if len(text) > len(str(_INT64.start)) or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None
