"""Store: an informer's objects by key, indexes over them, and own writes that the watch has not shown yet.

The informer feeds the store (`begin_listing`, `replace`, `observe`), controllers read it, and a component that wrote an
object puts the answer in (`put`, `discard`), so that its next decision already sees it. Watches deliver changes in the
order of resourceVersions. An own write of version N is therefore shown until the watch has reached N; from then on the
observed state is shown, whatever it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from prometheus_client import Counter

from bosket.api.object import ObjectKey
from bosket.kube.codec import identify

T = TypeVar("T")
IndexFunction = Callable[[T], Iterable[str]]

log = logging.getLogger(__name__)

#: Objects of a list, and handler calls, between two yields to the event loop: milliseconds.
_OBJECTS_AT_ONCE: Final = 5_000
_CHANGES_AT_ONCE: Final = 50

#: Not registered here: the exporter of metrics registers it.
HANDLER_ERRORS = Counter(
    "bosket_informer_handler_errors",
    "Handlers, index functions and transformations that raised",
    ["kind"],
    registry=None,
)


class Change(NamedTuple, Generic[T]):
    """A change of an object. `old` None: created; `new` None: deleted."""

    old: T | None
    new: T | None


Handler = Callable[[Change[T]], None]


@dataclass(slots=True)
class _OwnWrite(Generic[T]):
    """An own write on top of the observed state."""

    #: the version that the watch shows meanwhile; becomes visible when the watch has reached the write
    observed: T | None
    #: the version that the watch must reach; for a deletion without a version, that of the deleted object
    version: int
    is_deletion: bool
    #: the number of the listing under way at the write; a later list surely contains it
    listing: int


class Store(Generic[T]):
    """Objects of one kind. Reading never waits and is always consistent: changes happen between awaits."""

    def __init__(
        self,
        name: str,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        transform: Callable[[T], T] | None = None,
    ) -> None:
        """`name`: the kind, for logs and metrics; `transform`: reduces an object to what is kept."""
        self._name = name
        self._transform = transform
        self._objects: dict[ObjectKey, T] = {}
        self._functions: dict[str, IndexFunction[T]] = {}
        self._indexes: dict[str, dict[str, dict[ObjectKey, T]]] = {}
        self._own: dict[ObjectKey, _OwnWrite[T]] = {}
        self._handlers: list[Handler[T]] = []
        #: changes for which handlers were not called yet: by key, the object as handlers know it
        self._pending: dict[ObjectKey, T | None] = {}
        self._version = 0
        self._listing = 0
        for index, function in (indexes or {}).items():
            self.add_index(index, function)

    # --- reading

    def get(self, key: ObjectKey) -> T | None:
        return self._objects.get(key)

    def values(self) -> list[T]:
        return list(self._objects.values())

    def by_index(self, index: str, value: str) -> list[T]:
        """The objects with this value of the index function, in no particular order."""
        return list(self._indexes[index].get(value, {}).values())

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self.values())

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    # --- indexes and handlers

    def add_index(self, index: str, function: IndexFunction[T]) -> None:
        """Adds an index over all present and future objects. Adding the same index twice is allowed."""
        known = self._functions.get(index)
        if known is function:
            return
        if known is not None:
            raise ValueError(f"index {index!r} of {self._name} exists already, with another function")
        self._functions[index] = function
        entries = self._indexes[index] = {}
        for key, obj in self._objects.items():
            self._add_to_index(entries, function, key, obj)

    def subscribe(self, handler: Handler[T]) -> None:
        """Calls `handler` for every existing object and for every later change."""
        self._handlers.append(handler)
        for obj in self.values():
            self._call(handler, Change(None, obj))

    def unsubscribe(self, handler: Handler[T]) -> None:
        """Stops calling `handler`. An unknown handler is allowed."""
        if handler in self._handlers:
            self._handlers.remove(handler)

    # --- own writes

    def put(self, obj: T) -> None:
        """Puts the answer to an own write on top of the observed state, unless the watch has shown it already.

        Without this a controller would decide on the old object until the watch catches up: create a child twice, or
        bind a pod twice.
        """
        identity = identify(obj)
        version = _as_int(identity.resource_version)
        present = self._objects.get(identity.key)
        # The watch has reached this version already, or an earlier own write is newer: the answer is old news.
        if version is None or version <= self._version or version <= (_version_of(present) or 0):
            return
        self._lay_over(identity.key, _OwnWrite(present, version, False, self._listing))
        self._notify(identity.key, self._set(identity.key, self.kept(obj)))

    def discard(self, key: ObjectKey, uid: str | None = None) -> None:
        """Hides an object that this process deleted, until the watch shows something newer.

        With `uid`, a successor of the same name stays visible.
        """
        present = self._objects.get(key)
        if present is None or (uid is not None and _uid_of(present) != uid):
            return
        self._lay_over(key, _OwnWrite(present, _version_of(present) or 0, True, self._listing))
        self._notify(key, self._set(key, None))

    def _lay_over(self, key: ObjectKey, write: _OwnWrite[T]) -> None:
        earlier = self._own.get(key)
        if earlier is not None:
            # Several own writes may lie on one observed state; only the newest is shown, and the observed one comes
            # back after it.
            write.observed = earlier.observed
        self._own[key] = write

    # --- what the informer feeds

    def begin_listing(self) -> None:
        """Called before a list request: own writes from now on may be newer than the list."""
        self._listing += 1

    def replace(self, objects: Iterable[T], resource_version: str, keep: Iterable[ObjectKey] = ()) -> None:
        """Replaces the observed state by a list; objects that are missing in the list are deleted, except the keys
        `keep`."""
        for _ in self.replacing(list(map(self.kept, objects)), resource_version, keep):
            pass

    def replacing(self, objects: Iterable[T], resource_version: str, keep: Iterable[ObjectKey] = ()) -> Generator[None]:
        """The same in slices: the caller lets other tasks run between the steps. `objects` are already transformed.

        A reader meanwhile sees the state before the list or all of it. Handlers are called afterwards, object by
        object. Changes before an object's turn are combined into one.
        """
        listed: dict[ObjectKey, T] = {}
        for number, obj in enumerate(objects, 1):
            listed[_key_of(obj)] = obj
            if number % _OBJECTS_AT_ONCE == 0:
                yield
        self._take_list(listed, resource_version, keep)
        pending = self._pending
        for number, key in enumerate(list(pending), 1):
            if key in pending:
                old, new = pending.pop(key), self._objects.get(key)
                if old is not new:
                    self._tell(Change(old, new))
            if number % _CHANGES_AT_ONCE == 0:
                yield

    def _take_list(self, listed: dict[ObjectKey, T], resource_version: str, keep: Iterable[ObjectKey]) -> None:
        for key in keep:
            if key in self._objects:
                listed.setdefault(key, self._objects[key])
        self._version = _as_int(resource_version) or 0
        for key, write in list(self._own.items()):
            if not self._survives_list(write, listed.get(key)):
                del self._own[key]
                continue
            # The list is older than this write: keep showing the write, and remember what the list had.
            write.observed = listed.pop(key, None)
            if key in self._objects:
                listed[key] = self._objects[key]
        pending = self._pending
        if not self._objects and not self._functions:  # the first list may be very long
            self._objects.update(listed)
            pending.update(dict.fromkeys(listed.keys() - pending.keys()) if pending else dict.fromkeys(listed))
            return
        for key in [key for key in self._objects if key not in listed]:
            # `setdefault`: a change that is still pending keeps the object that handlers know, so that they see one
            # change from there to now.
            pending.setdefault(key, self._set(key, None).old)
        for key, obj in listed.items():
            old, new = self._set(key, obj)
            if new is not None:
                pending.setdefault(key, old)

    def _survives_list(self, write: _OwnWrite[T], listed: T | None) -> bool:
        """Whether an own write is newer than the list: only if it was made while the list was under way."""
        if write.listing != self._listing:
            return False
        if write.is_deletion:
            return _version_of(listed) == write.version
        return write.version > self._version

    def observe(self, key: ObjectKey, obj: T | None, resource_version: str) -> None:
        """Takes one event of the watch: the object's new version, or None for a deletion."""
        version = _as_int(resource_version)
        obj = None if obj is None else self.kept(obj)
        write = self._own.get(key)
        if write is None:
            self._notify(key, self._set(key, obj))
        else:
            write.observed = obj
            # Only an event newer than the deleted version can be the deletion itself or a successor; older events
            # describe what we deleted.
            if write.is_deletion and (version is None or version > write.version):
                del self._own[key]
                self._notify(key, self._set(key, obj))
        self.reached(resource_version)

    def reached(self, resource_version: str) -> None:
        """The watch has reached this version: own writes up to it are dropped, and the observed state is shown."""
        version = _as_int(resource_version)
        if version is None:
            return
        self._version = max(self._version, version)
        for key, write in list(self._own.items()):
            # Deletions wait for their own event (`observe`), because a bookmark doesn't show whether the object is
            # gone.
            if not write.is_deletion and write.version <= version:
                del self._own[key]
                self._notify(key, self._set(key, write.observed))

    # --- keeping it

    def kept(self, obj: T) -> T:
        """The object reduced to what is kept."""
        if self._transform is None:
            return obj
        try:
            return self._transform(obj)
        except Exception:
            log.exception("the transformation of %s %s failed; it stays whole", self._name, identify(obj).key)
            HANDLER_ERRORS.labels(self._name).inc()
            return obj

    def _set(self, key: ObjectKey, obj: T | None) -> Change[T]:
        old = self._objects.get(key)
        if old is obj:
            return Change(None, None)
        if obj is None:
            del self._objects[key]
        else:
            # The same version keeps the old object: callers compare by identity, and handlers must not be called twice.
            if old is not None and _same_version(old, obj):
                return Change(None, None)
            self._objects[key] = obj
        for index, function in self._functions.items():
            entries = self._indexes[index]
            if old is not None:
                self._remove_from_index(entries, function, key, old)
            if obj is not None:
                self._add_to_index(entries, function, key, obj)
        return Change(old, obj)

    def _add_to_index(
        self, entries: dict[str, dict[ObjectKey, T]], function: IndexFunction[T], key: ObjectKey, obj: T
    ) -> None:
        for value in self._index_values(function, key, obj):
            entries.setdefault(value, {})[key] = obj

    def _remove_from_index(
        self, entries: dict[str, dict[ObjectKey, T]], function: IndexFunction[T], key: ObjectKey, obj: T
    ) -> None:
        for value in self._index_values(function, key, obj):
            bucket = entries.get(value)
            if bucket is not None:
                bucket.pop(key, None)
                if not bucket:
                    del entries[value]

    def _index_values(self, function: IndexFunction[T], key: ObjectKey, obj: T) -> list[str]:
        try:
            return list(function(obj))
        except Exception:
            log.exception("an index function failed for %s %s", self._name, key)
            HANDLER_ERRORS.labels(self._name).inc()
            return []

    def _notify(self, key: ObjectKey, change: Change[T]) -> None:
        if change.old is None and change.new is None:
            return
        if not self._pending or key not in self._pending:  # otherwise its handlers run when it is its turn
            self._tell(change)

    def _tell(self, change: Change[T]) -> None:
        for handler in tuple(self._handlers):
            self._call(handler, change)

    def _call(self, handler: Handler[T], change: Change[T]) -> None:
        try:
            handler(change)
        except Exception:
            key = identify(change.new if change.new is not None else change.old).key
            log.exception("a handler failed for %s %s", self._name, key)
            HANDLER_ERRORS.labels(self._name).inc()


def _key_of(obj: Any) -> ObjectKey:
    return identify(obj).key if isinstance(obj, dict) else cast(ObjectKey, obj.key)


def _as_int(version: str) -> int | None:
    return int(version) if version.isdecimal() else None


def _version_of(obj: Any) -> int | None:
    return None if obj is None else _as_int(identify(obj).resource_version)


def _uid_of(obj: Any) -> str:
    return str((obj.get("metadata") or {}).get("uid", "")) if isinstance(obj, dict) else str(obj.metadata.uid)


def _same_version(old: Any, new: Any) -> bool:
    # The uid as well: a server that lost its data starts its versions again from the beginning.
    if not isinstance(new, dict):  # as below, without objects in between: a list has very many
        then, now = old.metadata, new.metadata
        return bool(now.resourceVersion) and then.resourceVersion == now.resourceVersion and then.uid == now.uid
    version = identify(new).resource_version
    return bool(version) and identify(old).resource_version == version and _uid_of(old) == _uid_of(new)
