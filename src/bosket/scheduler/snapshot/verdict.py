"""Remembered verdicts: what a pure function said of a pod class and the nodes' fixed properties.

A verdict holds until labels, taints or conditions of nodes change, or nodes come and go (`static_version`). It is an
optimisation only: forgetting everything changes no decision.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

#: As many verdicts are remembered; classes come and go, and nodes may stay what they are for weeks.
MOST = 2000


class VerdictMemory:
    """A table of verdicts for one static version of the nodes."""

    def __init__(self) -> None:
        self._version = -1
        self._verdicts: dict[tuple[str, Hashable], Any] = {}

    def recall(self, static_version: int, question: str, of: Hashable, answer: Callable[[], T]) -> T:
        """The remembered answer, or a new one from `answer()`."""
        if static_version != self._version or len(self._verdicts) > MOST:
            self._verdicts.clear()
            self._version = static_version
        key = (question, of)
        try:
            found: T = self._verdicts[key]
        except KeyError:
            found = self._verdicts[key] = answer()
        return found
