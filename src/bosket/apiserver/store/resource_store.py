"""All objects of one resource (`pods`, `queues.scheduling.run.ai`), in whatever API version is stored.

A write costs the same however many objects there are: dict operations, one append to the bounded history, and a look at
the watchers it concerns. Everything is synchronous: between two `await`s nobody sees a half-done write.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Protocol

import msgspec

from bosket.apiserver.status import StatusError
from bosket.apiserver.store.entry import Doc, Entry, EventType, Fields, at_version, watch_line

_NO_FIELDS: Fields = {}
_NO_LABELS: dict[str, str] = {}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Event:
    """One write, as watchers hear of it. `entry` is the new state, or the last one of a deleted object."""

    __slots__ = ("_lines", "entry", "previous", "resource_store", "type", "version")

    def __init__(
        self, resource_store: ResourceStore, kind: EventType, version: int, entry: Entry, previous: Entry | None
    ) -> None:
        self.resource_store = resource_store
        self.type: EventType = kind
        self.version = version
        self.entry = entry
        self.previous = previous
        self._lines: dict[EventType, bytes] = {}

    def line(self, kind: EventType) -> bytes:
        """The event on the wire, for watchers that see it as type `kind`; encoded once for all of them."""
        line = self._lines.get(kind)
        if line is None:
            line = watch_line(kind, self.shown(kind).encoded)
            self._lines[kind] = line
        return line

    def shown(self, kind: EventType) -> Entry:
        """The state that goes with `kind`: who sees an object leave a selection sees it as it last belonged."""
        if kind == "DELETED" and self.type != "DELETED":
            assert self.previous is not None
            return at_version(self.previous, self.version)
        return self.entry


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


class WholeStore(Protocol):
    """The `Store` as one of its resources sees it: they share its counter of versions and its journal, and report each
    write. Whoever has a resource's store reaches the others' objects by UID."""

    history: int  #: how many events each resource remembers
    version: int  #: of the last write to any resource
    journal: Journal | None

    def next_version(self) -> int:
        """The version of the write that is under way."""
        ...

    @property
    def settled(self) -> bool:
        """Whether all that readers see is kept, so that watchers may get it."""
        ...

    async def settle(self) -> None:
        """Returns when what readers see now is kept; raises if it can't be."""
        ...

    def find(self, uid: str) -> tuple[ResourceStore, Entry] | None: ...

    def added(self, resource_store: ResourceStore, entry: Entry) -> None: ...

    def removed(self, entry: Entry) -> None: ...

    def owners_changed(self, resource_store: ResourceStore, previous: Entry, entry: Entry) -> None: ...

    def publish(self, event: Event) -> None:
        """Calls those who listen to the writes of all resources."""
        ...


class Bucket:
    """Entries of one namespace (or one index value), listed in order of their names."""

    __slots__ = ("_sorted", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self._sorted: list[str] | None = None

    def put(self, key: str, entry: Entry) -> None:
        if key not in self.entries:
            self._sorted = None
        self.entries[key] = entry

    def discard(self, key: str) -> None:
        if self.entries.pop(key, None) is not None:
            self._sorted = None

    def __iter__(self) -> Iterator[Entry]:
        return map(self.entries.__getitem__, self._in_order())

    def after(self, key: str) -> Iterator[Entry]:
        """Those that come after a key."""
        order = self._in_order()
        return map(self.entries.__getitem__, islice(order, bisect_right(order, key), None))

    def _in_order(self) -> list[str]:
        if self._sorted is None:
            self._sorted = sorted(self.entries)
        return self._sorted


class ResourceStore:
    """All objects of one resource, with their history and their watchers."""

    def __init__(
        self,
        store: WholeStore,
        group: str,
        plural: str,
        *,
        namespaced: bool = True,
        selectable: Callable[[Doc], Fields] | None = None,
        index: str | None = None,
    ) -> None:
        self.store = store
        self.group = group
        self.plural = plural
        self.namespaced = namespaced
        self.selectable = selectable
        #: the selectable field by which lists and watches are served without looking at all objects
        self.index = index
        self._namespaces: dict[str, Bucket] = {}
        self._by_index: dict[str, Bucket] = {}
        self._count = 0
        self._history: deque[Event] = deque(maxlen=store.history)
        #: no event up to this version is in the history any more
        self._forgotten = store.version
        self.listeners: set[Callable[[Event], None]] = set()
        self.on_abandon: set[Callable[[StatusError | None], None]] = set()
        self._indexed_listeners: dict[str, set[Callable[[Event], None]]] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def resource(self) -> str:
        """`pods`, `queues.scheduling.run.ai`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    # reading

    def get(self, namespace: str, name: str) -> Entry | None:
        bucket = self._namespaces.get(namespace)
        return None if bucket is None else bucket.entries.get(name)

    def entries(
        self, namespace: str = "", *, indexed: str | None = None, after: tuple[str, str] | None = None
    ) -> Iterator[Entry]:
        """In order of the keys `namespace/name`; of all namespaces unless one is given. Don't write while iterating.

        With `after`, only those that come after that namespace and name.
        """
        if indexed is not None:
            bucket = self._by_index.get(indexed)
            if bucket is not None:
                found = iter(bucket) if after is None else bucket.after("/".join(after))
                yield from (entry for entry in found if not namespace or entry.namespace == namespace)
            return
        names = [namespace] if namespace else sorted(self._namespaces, key=lambda name: name + "/")
        for name in names:
            bucket = self._namespaces.get(name)
            if bucket is None or (after is not None and name + "/" < after[0] + "/"):
                continue
            yield from bucket.after(after[1]) if after is not None and name == after[0] else bucket

    def since(self, version: int) -> list[Event] | None:
        """What happened after `version`, oldest first; None if that is no longer known."""
        if version < self._forgotten or version > self.store.version:
            return None
        missed: list[Event] = []
        for event in reversed(self._history):
            if event.version <= version:
                break
            missed.append(event)
        missed.reverse()
        return missed

    @property
    def oldest_known(self) -> int:
        return self._forgotten

    def begin_at(self, version: int) -> None:
        """Nothing is known of what happened up to this version."""
        self._forgotten = version

    def select_by(self, selectable: Callable[[Doc], Fields] | None) -> None:
        """Let these fields be selected by from now on, also of the objects that are there."""
        if self.selectable is not None or selectable is not None:
            self.selectable = selectable
            for bucket in self._namespaces.values():
                for key, entry in bucket.entries.items():
                    fields = _NO_FIELDS if selectable is None else selectable(entry.decode())
                    bucket.entries[key] = msgspec.structs.replace(entry, fields=fields)

    # listening

    def listen(self, listener: Callable[[Event], None], *, indexed: str | None = None) -> None:
        """Call `listener` on every write from now on; with `indexed`, on those that concern this index value."""
        (self.listeners if indexed is None else self._indexed_listeners.setdefault(indexed, set())).add(listener)

    def unlisten(self, listener: Callable[[Event], None], *, indexed: str | None = None) -> None:
        if indexed is None:
            self.listeners.discard(listener)
            return
        listeners = self._indexed_listeners.get(indexed)
        if listeners is not None:
            listeners.discard(listener)
            if not listeners:
                del self._indexed_listeners[indexed]

    def abandon(self, reason: StatusError | None) -> None:
        """The resource is no longer served, or not as before: end the watches, with an error if there is one."""
        for ended in tuple(self.on_abandon):
            ended(reason)

    # writing; the caller has made sure that names are free and versions match

    def restore(self, encoded: bytes, version: int, *, creator: str, deleted: bool, past: bool) -> None:
        """Take over a write from an earlier life of the store, quietly; `past`: older than the history reaches."""
        entry = self._entry(_decode(encoded), version, creator, encoded)
        previous = self.get(entry.namespace, entry.name)
        if previous is not None:
            self._displace(previous, None if deleted else entry)
            self.store.removed(previous)
            self._count -= 1
        if not deleted:
            self._place(entry)
            self.store.added(self, entry)
            self._count += 1
        if not past:
            kind: EventType = "DELETED" if deleted else "ADDED" if previous is None else "MODIFIED"
            self._remember(Event(self, kind, version, entry, previous))

    def insert(self, doc: Doc, *, creator: str = "") -> Entry:
        version = self.store.next_version()
        entry = self._entry(doc, version, creator)
        self._place(entry)
        self._count += 1
        self.store.added(self, entry)
        self._publish(Event(self, "ADDED", version, entry, None))
        return entry

    def replace(self, previous: Entry, doc: Doc) -> Entry:
        version = self.store.next_version()
        entry = self._entry(doc, version, previous.creator)
        self._displace(previous, entry)
        self._place(entry)
        if previous.owners != entry.owners:
            self.store.owners_changed(self, previous, entry)
        self._publish(Event(self, "MODIFIED", version, entry, previous))
        return entry

    def remove(self, previous: Entry, doc: Doc | None = None) -> Entry:
        """Take an object away; `doc` is its final state where that differs from the stored one."""
        version = self.store.next_version()
        entry = self._entry(previous.decode() if doc is None else doc, version)
        self._displace(previous, None)
        self._count -= 1
        self.store.removed(previous)
        self._publish(Event(self, "DELETED", version, entry, previous))
        return entry

    def preview(self, doc: Doc) -> Entry:
        """What would be stored; for dry runs."""
        return self._entry(doc, None)

    def _entry(self, doc: Doc, version: int | None, creator: str = "", encoded: bytes = b"") -> Entry:
        metadata = doc["metadata"]
        if version is not None:
            metadata["resourceVersion"] = str(version)
        owners = metadata.get("ownerReferences")
        return Entry(
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            uid=metadata["uid"],
            version=version or 0,
            encoded=encoded or _encode(doc),
            labels=metadata.get("labels") or _NO_LABELS,
            fields=_NO_FIELDS if self.selectable is None else self.selectable(doc),
            owners=tuple(owner["uid"] for owner in owners) if owners else (),
            finalizers=tuple(metadata.get("finalizers", ())),
            deleting="deletionTimestamp" in metadata,
            creator=creator,
        )

    def _place(self, entry: Entry) -> None:
        bucket = self._namespaces.get(entry.namespace)
        if bucket is None:
            bucket = self._namespaces[entry.namespace] = Bucket()
        bucket.put(entry.name, entry)
        if self.index is not None:
            value = entry.fields[self.index]
            bucket = self._by_index.get(value)
            if bucket is None:
                bucket = self._by_index[value] = Bucket()
            bucket.put(f"{entry.namespace}/{entry.name}", entry)

    def _displace(self, previous: Entry, successor: Entry | None) -> None:
        if successor is None:
            bucket = self._namespaces[previous.namespace]
            bucket.discard(previous.name)
            if not bucket.entries:
                del self._namespaces[previous.namespace]
        if self.index is not None:
            value = previous.fields[self.index]
            if successor is None or successor.fields[self.index] != value:
                bucket = self._by_index[value]
                bucket.discard(f"{previous.namespace}/{previous.name}")
                if not bucket.entries:
                    del self._by_index[value]

    def _publish(self, event: Event) -> None:
        if self.store.journal is not None:
            self.store.journal.record(event)
        self._remember(event)
        self.announce(event)

    def _remember(self, event: Event) -> None:
        history = self._history
        if len(history) == history.maxlen:
            self._forgotten = history[0].version
        history.append(event)

    def announce(self, event: Event) -> None:
        """Tell all who listen."""
        for listener in tuple(self.listeners):
            listener(event)
        if self._indexed_listeners and self.index is not None:
            values = {event.entry.fields[self.index]}
            if event.previous is not None:
                values.add(event.previous.fields[self.index])
            for value in values:
                for listener in tuple(self._indexed_listeners.get(value, ())):
                    listener(event)
        self.store.publish(event)
