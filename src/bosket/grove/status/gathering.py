"""Debounce of changes: of parts before a reconciliation, and of counts before a status write.

A reconciliation of a set, a scaling group or a PodClique reads all of its parts. If each part's change triggered one,
the work would grow with the square of the number of parts. So the debounce grows with the number of parts, and
reconciliations take the same small share of the time at any size.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

#: What a part adds to the time that a look takes, roughly.
POD_SECONDS: Final = 20e-6
CLIQUE_SECONDS: Final = 100e-6

#: How long a status that differs in numbers alone waits for more, and one that differs in the words about them.
NUMBERS_SECONDS: Final = 1.0
WORDS_SECONDS: Final = 5.0

_LEAST_SECONDS: Final = 0.1  # pods that are made together come within moments of each other
_MOST_SECONDS: Final = 5.0
_SHARE: Final = 0.1


def gather_seconds(parts: int, seconds_each: float) -> float:
    """The debounce after the first change of one of so many parts."""
    return min(_MOST_SECONDS, _LEAST_SECONDS + parts * seconds_each / _SHARE)


def differ_only_in(before: msgspec.Struct, after: msgspec.Struct, *fields: str) -> bool:
    """Whether two statuses differ in these fields only."""
    return replace(after, **{field: getattr(before, field) for field in fields}) == before


def sooner(*seconds: float | None) -> float | None:
    """The smallest of several delays; None if all are None."""
    return min((each for each in seconds if each is not None), default=None)
