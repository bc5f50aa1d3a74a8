"""One version of one object, as the store keeps it and watchers get it.

An object is its JSON, encoded once and shared by every list and every watcher; readers that need its fields decode a
private copy. So a write never copies for its readers, fifty thousand pods are fifty thousand byte strings instead of
ten million dicts, and Python's garbage collector has nothing to walk.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

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
