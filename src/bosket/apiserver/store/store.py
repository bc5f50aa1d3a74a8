"""The versioned store: every object of every kind, in memory, under one counter of versions.

A `ResourceStore` holds the objects of one resource, each as an `Entry`. `Store` knows all of them, finds objects by UID
and knows the dependents of each owner. With a journal (`persistence`) every write is also appended to a file by another
thread; the server sends responses and watch events only when the writes that they show are on disk (`settle`).
"""

from __future__ import annotations

from collections.abc import Callable

from bosket.apiserver.store.entry import Doc, Entry, Fields
from bosket.apiserver.store.resource_store import Event, Journal, ResourceStore


class Store:
    """The objects of all resources, the counter of versions, and the dependents of each owner."""

    def __init__(self, *, history: int) -> None:
        self.history = history
        self.version = 1
        #: receives every write; None where nothing outlives the process
        self.journal: Journal | None = None
        self.resources: dict[tuple[str, str], ResourceStore] = {}
        self._by_uid: dict[str, tuple[ResourceStore, str, str]] = {}
        self._dependents: dict[str, dict[str, tuple[ResourceStore, str, str]]] = {}
        self.listeners: list[Callable[[Event], None]] = []

    def resource(
        self,
        group: str,
        plural: str,
        *,
        namespaced: bool = True,
        selectable: Callable[[Doc], Fields] | None = None,
        index: str | None = None,
    ) -> ResourceStore:
        """The objects of a resource; made on the first call."""
        resource_store = self.resources.get((group, plural))
        if resource_store is None:
            resource_store = ResourceStore(
                self, group, plural, namespaced=namespaced, selectable=selectable, index=index
            )
            self.resources[group, plural] = resource_store
        return resource_store

    def next_version(self) -> int:
        self.version += 1
        return self.version

    def begin_at(self, version: int) -> None:
        """Nothing is known of what happened up to this version, of no resource."""
        self.version = max(self.version, version)
        for resource_store in self.resources.values():
            resource_store.begin_at(self.version)

    @property
    def settled(self) -> bool:
        """Whether everything that readers see is on disk, so that watch events may leave."""
        return self.journal is None or self.journal.settled

    async def settle(self) -> None:
        """Until what readers see now is kept; raises if it can't be."""
        if self.journal is not None:
            await self.journal.settle()

    def find(self, uid: str) -> tuple[ResourceStore, Entry] | None:
        """The object with this UID, of whatever kind."""
        place = self._by_uid.get(uid)
        if place is None:
            return None
        resource_store, namespace, name = place
        entry = resource_store.get(namespace, name)
        return None if entry is None else (resource_store, entry)

    def dependents(self, uid: str) -> list[tuple[ResourceStore, Entry]]:
        """The objects that name `uid` among their owners."""
        found = []
        for resource_store, namespace, name in self._dependents.get(uid, {}).values():
            entry = resource_store.get(namespace, name)
            if entry is not None:
                found.append((resource_store, entry))
        return found

    # for the resource stores: `WholeStore`

    def publish(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)

    def added(self, resource_store: ResourceStore, entry: Entry) -> None:
        self._by_uid[entry.uid] = (resource_store, entry.namespace, entry.name)
        for owner in entry.owners:
            self._dependents.setdefault(owner, {})[entry.uid] = (resource_store, entry.namespace, entry.name)

    def removed(self, entry: Entry) -> None:
        del self._by_uid[entry.uid]
        self._forget_owners(entry)

    def owners_changed(self, resource_store: ResourceStore, previous: Entry, entry: Entry) -> None:
        self._forget_owners(previous)
        for owner in entry.owners:
            self._dependents.setdefault(owner, {})[entry.uid] = (resource_store, entry.namespace, entry.name)

    def _forget_owners(self, entry: Entry) -> None:
        for owner in entry.owners:
            dependents = self._dependents.get(owner)
            if dependents is not None:
                dependents.pop(entry.uid, None)
                if not dependents:
                    del self._dependents[owner]
