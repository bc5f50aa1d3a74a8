"""One version of one object, and one write, as the store keeps them and watchers hear of them.

An object is its JSON, encoded once and shared by every list and every watcher; readers that need its fields decode a
private copy. So a write never copies for its readers, fifty thousand pods are fifty thousand byte strings instead of
ten million dicts, and Python's garbage collector has nothing to walk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from bosket.apiserver.store.resource_store import ResourceStore

EventType = Literal["ADDED", "MODIFIED", "DELETED"]

#: An object as JSON has it.
Doc = dict[str, Any]
#: What a kind lets clients select by, beyond the metadata: field name → value.
Fields = dict[str, str]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One version of one object. What is looked at often stands beside the JSON."""

    namespace: str
    name: str
    uid: str
    version: int
    encoded: bytes
    labels: dict[str, str]
    fields: Fields
    #: UIDs of the object's owners
    owners: tuple[str, ...] = ()
    finalizers: tuple[str, ...] = ()
    #: has a deletion timestamp
    deleting: bool = False
    #: who created it, as managedFields would name them
    creator: str = ""

    def decode(self) -> Doc:
        """A private copy, free to be changed."""
        doc: Doc = _decode(self.encoded)
        return doc


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
        """The event on the wire, for watchers to whom it is one of type `kind`; made once for all of them."""
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


def watch_line(kind: str, encoded: bytes) -> bytes:
    """One event of a watch stream."""
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), encoded)


def at_version(entry: Entry, version: int) -> Entry:
    """The same state under another resourceVersion."""
    doc = entry.decode()
    doc["metadata"]["resourceVersion"] = str(version)
    return msgspec.structs.replace(entry, version=version, encoded=_encode(doc))


def sort_key(key: tuple[str, str]) -> tuple[str, str]:
    """By which lists are in order: that of the keys `namespace/name` in etcd."""
    return key[0] + "/", key[1]
