"""Remembered verdicts: what a pure function said of a pod class and the nodes' fixed properties.

A verdict holds until labels, taints or conditions of nodes change, or nodes come and go (`static_version`). It is an
optimisation only: forgetting everything changes no decision.

Snapshots of several versions may be decided on at the same time, in threads of their own. Each version therefore has a
table of its own: whatever the other thread does meanwhile, a verdict is found only under the version it was made for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

#: As many verdicts of one version are remembered; classes come and go, and nodes may stay what they are for weeks.
MOST = 2000
#: As many versions are remembered: the newest, and those that decisions under way may still be about.
VERSIONS = 4

_Table = dict[tuple[str, Hashable], Any]


class VerdictMemory:
    """Verdicts by static version of the nodes. Dictionaries are read and written one operation at a time, and tables
    are replaced rather than reused, so no lock is needed."""

    def __init__(self) -> None:
        self._tables: dict[int, _Table] = {}

    def __len__(self) -> int:
        return sum(map(len, self._tables.values()))

    def recall(self, static_version: int, question: str, of: Hashable, answer: Callable[[], T]) -> T:
        """The remembered answer, or a new one from `answer()`."""
        table = self._tables.get(static_version)
        if table is None or len(table) > MOST:
            table = self._new_table(static_version)
        key = (question, of)
        try:
            found: T = table[key]
        except KeyError:
            found = table[key] = answer()
        return found

    def _new_table(self, static_version: int) -> _Table:
        """Instead of the oldest one where there are too many. A decision that takes long and lost its table to newer
        versions gets another one, and asks again."""
        table: _Table = {}
        others = [each for each in self._tables.items() if each[0] != static_version]
        self._tables = {**dict(others[1 - VERSIONS :]), static_version: table}
        return table
