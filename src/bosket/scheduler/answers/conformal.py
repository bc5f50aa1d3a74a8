"""Intervals corrected by the errors of earlier ones: of the starts that were estimated, when did jobs really start?

Conformal quantile regression on the last estimates that have been resolved: both ends of an interval are moved by as
much, in parts of the wait that was expected, as would have been right for nine in ten of these. Whatever simulations
leave out, such as jobs that arrive later, is made up for so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import median
from typing import Final, NamedTuple

#: So many resolved estimates count, the latest.
MOST_RESOLVED: Final = 150
#: With fewer, nothing is corrected.
LEAST_RESOLVED: Final = 10
#: The part of waits that is to be below the upper end, and above the lower one.
_EACH_SIDE: Final = 0.9
#: Waits that are expected to be shorter are corrected as if they were that long.
_LEAST_SECONDS: Final = 600.0


class Interval(NamedTuple):
    """A wait in seconds: its 10th, 50th and 90th percentile."""

    low: float
    middle: float
    high: float

    def covers(self, seconds: float) -> bool:
        return self.low - 1.0 <= seconds <= self.high + 1.0


class Resolved(NamedTuple):
    """An estimate, and what became of it."""

    simulated: Interval
    stated: Interval  #: after the correction of that time
    waited: float


class Calibration:
    """The latest resolved estimates."""

    def __init__(self) -> None:
        self._resolved: deque[Resolved] = deque(maxlen=MOST_RESOLVED)

    def resolve(self, resolved: Resolved) -> None:
        """A job of which the start was estimated has started."""
        self._resolved.append(resolved)

    @property
    def coverage(self) -> float | None:
        """The part of the latest intervals that held; None where nothing is resolved."""
        if not self._resolved:
            return None
        return sum(each.stated.covers(each.waited) for each in self._resolved) / len(self._resolved)

    def corrected(self, simulated: Interval) -> Interval:
        """The interval to tell people."""
        known = self._resolved
        if len(known) < LEAST_RESOLVED:
            return simulated
        scale = max(simulated.middle, _LEAST_SECONDS)
        below = _quantile((each.simulated.low - each.waited) / _scale(each) for each in known)
        above = _quantile((each.waited - each.simulated.high) / _scale(each) for each in known)
        shift = median((each.waited - each.simulated.middle) / _scale(each) for each in known)
        low = max(0.0, simulated.low - below * scale)
        high = max(low, simulated.high + above * scale)
        return Interval(low, min(max(simulated.middle + shift * scale, low), high), high)


def _scale(resolved: Resolved) -> float:
    return max(resolved.simulated.middle, _LEAST_SECONDS)


def _quantile(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[min(int(_EACH_SIDE * (len(ordered) + 1)), len(ordered) - 1)]
