"""How long changes of parts are gathered before the whole is looked at, and before its status tells of them.

A look at a set, a scaling group or a PodClique goes through all of its parts. Where each part's change brought a look
of its own, the work would grow with the square of their number; so the more parts there are, the longer they wait for
each other, and looks take the same small share of the time, however large the whole is.
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
    """How long to wait after the first change of one of so many parts."""
    return min(_MOST_SECONDS, _LEAST_SECONDS + parts * seconds_each / _SHARE)


def differ_only_in(before: msgspec.Struct, after: msgspec.Struct, *fields: str) -> bool:
    """Whether nothing but these fields tells one status from the other."""
    return replace(after, **{field: getattr(before, field) for field in fields}) == before


def sooner(*seconds: float | None) -> float | None:
    """The shortest of several times after which to look again; None where there is no reason to."""
    return min((each for each in seconds if each is not None), default=None)
