"""Shared: tables that snapshots keep while the live state goes on changing.

A table that was handed out is never changed again. The next change goes to a copy where the table is small; where it is
large, changes are kept in a small table over it, and only that one is copied per snapshot. Many changes are merged into
a new base. So a change costs about the same in a table of forty and of forty thousand entries, and unchanged values are
the same objects in consecutive snapshots.
"""

from __future__ import annotations

from collections.abc import Collection, ItemsView, Iterator, Mapping, ValuesView
from typing import Any, Final, Generic, TypeVar, cast, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

#: Tables of up to so many entries are copied as a whole: that takes microseconds, and a plain dict is faster to read.
SMALL: Final = 256
#: The number of changes that are kept over a base before they are merged.
MOST_CHANGES: Final = 1024


class _Gone:
    """Marks a deleted entry among the changes."""


_GONE: Final = _Gone()
_MISSING: Final = _Gone()


class Layers(Mapping[K, V]):
    """A base table and changes to it. Neither may change once it is here."""

    __slots__ = ("_base", "_changes", "_len")

    def __init__(self, base: dict[K, V], changes: dict[K, V | _Gone]) -> None:
        self._base, self._changes = base, changes
        self._len = -1

    def __getitem__(self, key: K) -> V:
        found = self._changes.get(key, _MISSING)
        if found is _MISSING:
            return self._base[key]
        if found is _GONE:
            raise KeyError(key)
        return cast(V, found)

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, /, default: Any = None) -> Any:
        found = self._changes.get(key, _MISSING)
        if found is _MISSING:
            return self._base.get(key, default)
        return default if found is _GONE else found

    def __contains__(self, key: object) -> bool:
        found = self._changes.get(cast(K, key), _MISSING)
        return key in self._base if found is _MISSING else found is not _GONE

    def __iter__(self) -> Iterator[K]:
        changes = self._changes
        for key in self._base:
            if key not in changes:
                yield key
        for key, value in changes.items():
            if value is not _GONE:
                yield key

    def __len__(self) -> int:
        if self._len < 0:
            base = self._base
            come = sum(value is not _GONE for value in self._changes.values())
            self._len = len(base) + come - sum(key in base for key in self._changes)
        return self._len

    def items(self) -> ItemsView[K, V]:
        return _Items(self)

    def values(self) -> ValuesView[V]:
        return _Values(self)

    def entries(self) -> Iterator[tuple[K, V]]:
        """All of them: those that are as in the table first, then those that changed."""
        changes = self._changes
        for entry in self._base.items():
            if entry[0] not in changes:
                yield entry
        for key, value in changes.items():
            if value is not _GONE:
                yield key, cast(V, value)


class _Items(ItemsView[K, V]):
    _mapping: Layers[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self._mapping.entries()


class _Values(ValuesView[V]):
    _mapping: Layers[Any, V]

    def __iter__(self) -> Iterator[V]:
        return (value for _, value in self._mapping.entries())


class Shared(Generic[K, V]):
    """A table that changes, and can be handed out at any time."""

    def __init__(self) -> None:
        self._base: dict[K, V] = {}
        self._changes: dict[K, V | _Gone] = {}  # made since the base was handed out
        self._is_own = True  # whether nobody was given the base
        self._frozen: Mapping[K, V] | None = None  # what was handed out last, if nothing changed since

    def __bool__(self) -> bool:
        return bool(len(self))

    def __len__(self) -> int:
        return len(Layers(self._base, self._changes)) if self._changes else len(self._base)

    def __contains__(self, key: K) -> bool:
        return self.get(key, _MISSING) is not _MISSING

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, /, default: Any = None) -> Any:
        if self._changes:
            found = self._changes.get(key, _MISSING)
            if found is not _MISSING:
                return default if found is _GONE else cast(V, found)
        return self._base.get(key, default)

    def put(self, key: K, value: V) -> None:
        if self._is_own:
            self._base[key] = value
        else:
            self._own()[key] = value

    def drop(self, key: K) -> None:
        if key in self:
            own = self._own()
            if own is self._base:
                del own[key]
            else:
                own[key] = _GONE

    def values(self) -> Collection[V]:
        """As of now: what is there, for those who don't keep it."""
        return Layers(self._base, self._changes).values() if self._changes else self._base.values()

    def freeze(self) -> Mapping[K, V]:
        """The table as of now; the very same object while nothing changes."""
        if self._frozen is None:
            self._frozen = Layers(self._base, self._changes) if self._changes else self._base
            self._is_own = False
        return self._frozen

    def _own(self) -> dict[Any, Any]:
        """The dict in which a change can be made, because it was never handed out."""
        if self._is_own:
            return self._base
        if len(self._base) <= SMALL or len(self._changes) >= MOST_CHANGES:
            self._base, self._changes, self._is_own = self._merged(), {}, True
        elif self._frozen is not None:
            self._changes = dict(self._changes)
        self._frozen = None
        return self._base if self._is_own else self._changes

    def _merged(self) -> dict[K, V]:
        merged = dict(self._base)
        for key, value in self._changes.items():
            if value is _GONE:
                merged.pop(key, None)
            else:
                merged[key] = cast(V, value)
        return merged
