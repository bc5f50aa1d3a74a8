"""The versioned store: every object of every kind, in memory, under one counter of versions.

Objects of one resource are on a `Shelf`, each as an `Entry`; the store knows all shelves, and who owns whom. With a
journal (`storage`) every write is also kept on disk, a moment later; whoever tells others of the store's state waits
until it has settled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from bosket.apiserver.store.entry import Doc, Entry, Event, Fields
from bosket.apiserver.store.shelf import Shelf


class Journal(Protocol):
    """Keeps writes beyond the life of the process."""

    @property
    def settled(self) -> bool:
        """Whether everything that was recorded is kept."""
        ...

    def record(self, event: Event) -> None: ...

    async def settle(self) -> None:
        """Until what has been recorded so far is kept; raises if it can't be."""
        ...


class Store:
    """All shelves, the counter of versions, and who owns whom."""

    def __init__(self, *, history: int) -> None:
        self.history = history
        self.version = 1
        #: told of every write; None where nothing outlives the process
        self.journal: Journal | None = None
        self.shelves: dict[tuple[str, str], Shelf] = {}
        self._by_uid: dict[str, tuple[Shelf, str, str]] = {}
        self._dependents: dict[str, dict[str, tuple[Shelf, str, str]]] = {}
        self.listeners: list[Callable[[Event], None]] = []

    def shelf(
        self,
        group: str,
        plural: str,
        *,
        namespaced: bool = True,
        selectable: Callable[[Doc], Fields] | None = None,
        index: str | None = None,
    ) -> Shelf:
        """The shelf of a resource, made when first asked for."""
        shelf = self.shelves.get((group, plural))
        if shelf is None:
            shelf = Shelf(self, group, plural, namespaced=namespaced, selectable=selectable, index=index)
            self.shelves[group, plural] = shelf
        return shelf

    def next_version(self) -> int:
        self.version += 1
        return self.version

    def begin_at(self, version: int) -> None:
        """Nothing is known of what happened up to this version, of no resource."""
        self.version = max(self.version, version)
        for shelf in self.shelves.values():
            shelf.begin_at(self.version)

    @property
    def settled(self) -> bool:
        """Whether all that readers see is kept, so that others may be told."""
        return self.journal is None or self.journal.settled

    async def settle(self) -> None:
        """Until what readers see now is kept; raises if it can't be."""
        if self.journal is not None:
            await self.journal.settle()

    def find(self, uid: str) -> tuple[Shelf, Entry] | None:
        """The object with this UID, of whatever kind."""
        place = self._by_uid.get(uid)
        if place is None:
            return None
        shelf, namespace, name = place
        entry = shelf.get(namespace, name)
        return None if entry is None else (shelf, entry)

    def dependents(self, uid: str) -> list[tuple[Shelf, Entry]]:
        """The objects that name `uid` among their owners."""
        found = []
        for shelf, namespace, name in self._dependents.get(uid, {}).values():
            entry = shelf.get(namespace, name)
            if entry is not None:
                found.append((shelf, entry))
        return found

    # told by the shelves

    def publish(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)

    def added(self, shelf: Shelf, entry: Entry) -> None:
        self._by_uid[entry.uid] = (shelf, entry.namespace, entry.name)
        for owner in entry.owners:
            self._dependents.setdefault(owner, {})[entry.uid] = (shelf, entry.namespace, entry.name)

    def removed(self, entry: Entry) -> None:
        del self._by_uid[entry.uid]
        self._forget_owners(entry)

    def owners_changed(self, shelf: Shelf, previous: Entry, entry: Entry) -> None:
        self._forget_owners(previous)
        for owner in entry.owners:
            self._dependents.setdefault(owner, {})[entry.uid] = (shelf, entry.namespace, entry.name)

    def _forget_owners(self, entry: Entry) -> None:
        for owner in entry.owners:
            dependents = self._dependents.get(owner)
            if dependents is not None:
                dependents.pop(entry.uid, None)
                if not dependents:
                    del self._dependents[owner]
