"""Tables that snapshots keep while the live state goes on changing them.

A table is handed out as it is; the first change after that is made to a copy. What didn't change is the same object in
one snapshot and the next.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class Shared(Generic[K, V]):
    """A table that is copied before it changes, if somebody has been given it."""

    def __init__(self) -> None:
        self._table: dict[K, V] = {}
        self._given_out = False

    def __bool__(self) -> bool:
        return bool(self._table)

    def __contains__(self, key: K) -> bool:
        return key in self._table

    def get(self, key: K, default: D) -> V | D:
        return self._table.get(key, default)

    def put(self, key: K, value: V) -> None:
        self._own()[key] = value

    def drop(self, key: K) -> None:
        if key in self._table:
            del self._own()[key]

    def values(self) -> Collection[V]:
        """As of now: what is there, for those who don't keep it."""
        return self._table.values()

    def freeze(self) -> Mapping[K, V]:
        self._given_out = True
        return self._table

    def _own(self) -> dict[K, V]:
        if self._given_out:
            self._table = dict(self._table)
            self._given_out = False
        return self._table
