"""Protection for a time: jobs that may not be evicted yet, and whether that is what a search failed for.

Plugins ask it whether their protection holds; an action may lift it to find out what would be possible without.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager


class Protection:
    """What one search met with. Unless it is lifted, protection holds."""

    def __init__(self) -> None:
        self.first_end = math.inf  #: when the first of those that were protected is no longer
        self._lifted = False

    def holds(self, ends: float) -> bool:
        """Whether somebody who is protected until then is left alone."""
        if not self._lifted:
            self.first_end = min(self.first_end, ends)
        return not self._lifted

    def forget(self) -> None:
        """A search begins."""
        self.first_end = math.inf

    @contextmanager
    def lifted(self) -> Iterator[None]:
        self._lifted = True
        try:
            yield
        finally:
            self._lifted = False
