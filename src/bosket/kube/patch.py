"""Differences between JSON documents and their application: JSON Patch (RFC 6902) and Merge Patch (RFC 7386).

The client computes patches with these functions, and the embedded server applies them. Documents are the result of a
JSON parser; compared values may have tuples for lists, as Structs do. Arguments are never changed; results share
unchanged parts.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import msgspec

Json = Any
Operation = dict[str, Any]

#: The maximum size of all copies of one patch, as in kube-apiserver.
MAX_COPIED_BYTES = 3 * 1024 * 1024
#: The maximum number of list elements that insertions and removals of one patch may shift: a second of work.
MAX_SHIFTED = 1_000_000_000
_MAX_DIGITS = 20
_LISTS = (list, tuple)
_SCALARS = (str, int)
#: Fields that identify list elements in Kubernetes, the most specific first.
_IDENTITIES = ("uid", "name", "type", "key", "containerPort", "mountPath", "devicePath", "ip", "topologyKey")


class PatchError(ValueError):
    """A patch that is malformed or does not fit the document; says which operation and path."""


class PatchTooLarge(PatchError):
    """The copies of a small patch would make a huge document."""


class PatchTestError(PatchError):
    """A `test` operation found another value."""


def equal(left: Json, right: Json) -> bool:
    """JSON equality: unlike in Python, `true` is not 1."""
    if left is right:
        return True
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and left.keys() == right.keys()
            and all(equal(value, right[key]) for key, value in left.items())
        )
    if isinstance(left, _LISTS):
        return (
            isinstance(right, _LISTS)
            and len(left) == len(right)
            and all(equal(a, b) for a, b in zip(left, right, strict=True))
        )
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def hash_key(value: Json) -> Hashable:
    """A hashable key for a JSON value: equal values have equal keys."""
    return _encode_sorted(value) if isinstance(value, dict | list) else value


# --- JSON Patch: making one


def json_patch(before: Json, after: Json) -> list[Operation]:
    """The operations that turn `before` into `after`.

    Descends into maps, and into lists whose elements have an identity (a name, a type…), so that fields of the server's
    document that neither argument shows survive.
    """
    operations: list[Operation] = []
    _diff("", before, after, operations)
    return operations


def escape(key: str) -> str:
    """A map key as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _diff(path: str, before: Json, after: Json, operations: list[Operation]) -> None:
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before:
            if key not in after:
                operations.append({"op": "remove", "path": f"{path}/{escape(key)}"})
        for key, value in after.items():
            if key in before:
                _diff(f"{path}/{escape(key)}", before[key], value, operations)
            else:
                operations.append({"op": "add", "path": f"{path}/{escape(key)}", "value": value})
    elif isinstance(before, _LISTS) and isinstance(after, _LISTS):
        _diff_lists(path, before, after, operations)
    elif not equal(before, after):
        operations.append({"op": "replace", "path": path, "value": after})


def _diff_lists(path: str, before: Sequence[Json], after: Sequence[Json], operations: list[Operation]) -> None:
    shorter = min(len(before), len(after))
    start = 0
    while start < shorter and equal(before[start], after[start]):
        start += 1
    end = 0
    while end < shorter - start and equal(before[-1 - end], after[-1 - end]):
        end += 1
    old, new = list(before[start : len(before) - end]), list(after[start : len(after) - end])
    identity = _identity(old, new)
    if identity is None:
        _diff_by_position(path, start, old, new, operations)
    else:
        _diff_by_identity(path, start, old, new, field=identity, operations=operations)


def _identity(old: list[Json], new: list[Json]) -> str | None:
    """The field that tells all elements of both lists apart, if there is one."""
    elements = [*old, *new]
    if not elements or not all(isinstance(element, dict) for element in elements):
        return None
    for field in _IDENTITIES:
        if field in elements[0] and _all_different(old, field) and _all_different(new, field):
            return field
    return None


def _all_different(elements: list[Json], field: str) -> bool:
    values = [element.get(field) for element in elements]
    return all(isinstance(value, _SCALARS) for value in values) and len(set(values)) == len(values)


def _diff_by_position(path: str, start: int, old: list[Json], new: list[Json], operations: list[Operation]) -> None:
    shared = min(len(old), len(new))
    for index in range(shared):
        _diff(f"{path}/{start + index}", old[index], new[index], operations)
    for index in range(len(old) - 1, shared - 1, -1):
        operations.append({"op": "remove", "path": f"{path}/{start + index}"})
    for index in range(shared, len(new)):
        operations.append({"op": "add", "path": f"{path}/{start + index}", "value": new[index]})


def _diff_by_identity(
    path: str, start: int, old: list[Json], new: list[Json], *, field: str, operations: list[Operation]
) -> None:
    wanted = {element[field] for element in new}
    for index in range(len(old) - 1, -1, -1):
        if old[index][field] not in wanted:
            operations.append({"op": "remove", "path": f"{path}/{start + index}"})
    # The list becomes `new` from the front. Behind the place that has been reached, the old elements that still have to
    # find theirs stand in their old order: so where one of them is now is how many of them stand before it.
    waiting = _Waiting([element for element in old if element[field] in wanted], field)
    for index, element in enumerate(new):
        here = f"{path}/{start + index}"
        found = waiting.take(element[field])
        if found is None:
            operations.append({"op": "add", "path": here, "value": element})
            continue
        ahead, before = found
        if ahead:
            operations.append({"op": "move", "from": f"{path}/{start + index + ahead}", "path": here})
        _diff(here, before, element, operations)


class _Waiting:
    """Old elements that aren't at their new index yet: a Fenwick tree of counts over their old order."""

    def __init__(self, elements: list[Json], field: str) -> None:
        self._elements = elements
        self._places = {element[field]: place for place, element in enumerate(elements)}
        self._counts = [place & -place for place in range(len(elements) + 1)]  # all of them are there

    def take(self, name: Json) -> tuple[int, Json] | None:
        """How many others stand before the element with that name, and the element, which is then gone."""
        place = self._places.get(name)
        if place is None:
            return None
        ahead, at = 0, place
        while at > 0:
            ahead += self._counts[at]
            at -= at & -at
        at = place + 1
        while at < len(self._counts):
            self._counts[at] -= 1
            at += at & -at
        return ahead, self._elements[place]


# --- JSON Patch: applying one


def apply_json_patch(document: Json, operations: Json) -> Json:
    """`document` after all operations; raises `PatchError` when one can't be applied, then nothing counts."""
    if not isinstance(operations, list):
        raise PatchError(f"a JSON patch is a list of operations, not {type(operations).__name__}")
    patching = _Patching(document)
    for number, operation in enumerate(operations):
        try:
            patching.apply(operation)
        except PatchError as error:
            raise type(error)(f"operation {number}: {error}") from None
        except RecursionError:
            raise PatchError(f"operation {number}: the document is nested too deeply") from None
    return patching.document


def resolve(document: Json, pointer: str) -> Json:
    """The value at a JSON pointer; raises `PatchError` where there is none."""
    return _lookup(document, _split_pointer({"op": "resolve", "path": pointer}, "path"))


class _Patching:
    """A document while a patch is applied. Maps and lists are copied before their first change and then owned: ten
    thousand operations on one list copy it once."""

    def __init__(self, document: Json) -> None:
        self.document = document
        #: the maps and lists that were copied, by their identity; holding them keeps it theirs
        self._own: dict[int, Json] = {}
        self._copied_bytes = 0
        self._shifted = 0

    def apply(self, operation: Mapping[str, Any]) -> None:
        if not isinstance(operation, Mapping):
            raise PatchError(f"an operation is an object with op and path, not {operation!r}")
        name = operation.get("op")
        path = _split_pointer(operation, "path")
        match name:
            case "add":
                self._insert(path, _value(operation))
            case "remove":
                self._remove(path)
            case "replace":
                self._replace(path, _value(operation))
            case "move":
                source = _split_pointer(operation, "from")
                if path[: len(source)] == source and len(path) > len(source):
                    raise PatchError(f"can't move {_pointer(source)} into its own child {_pointer(path)}")
                value = _lookup(self.document, source)
                if path:
                    self._remove(source)
                self._insert(path, value)
            case "copy":
                self._insert(path, self._copy(_lookup(self.document, _split_pointer(operation, "from"))))
            case "test":
                found = _lookup_or_none(self.document, path)
                if not equal(found, _value(operation)):
                    shown = f"it is {found!r}, not {operation['value']!r}"
                    raise PatchTestError(f"test of {_pointer(path)} failed: {shown}")
            case _:
                raise PatchError(f"unknown op {name!r}")

    def _copy(self, value: Json) -> Json:
        """A copy that shares nothing: what is later changed in one place is not in the other."""
        encoded = msgspec.json.encode(value)
        self._copied_bytes += len(encoded)
        if self._copied_bytes > MAX_COPIED_BYTES:
            raise PatchTooLarge(f"copies of more than {MAX_COPIED_BYTES} bytes")
        return msgspec.json.decode(encoded)

    def _owned(self, value: Json) -> Json:
        """The map or list itself if it is the patch's own, else a copy that is."""
        if id(value) in self._own:
            return value
        copy: Json = dict(value) if isinstance(value, dict) else list(value)
        self._own[id(copy)] = copy
        return copy

    def _parent(self, path: Sequence[str]) -> Json:
        """The map or list that the last step of a path is about, free to be changed."""
        if not isinstance(self.document, dict | list):
            raise PatchError(f"{_pointer(())} is neither map nor list")
        parent = self.document = self._owned(self.document)
        for depth, part in enumerate(path[:-1], 1):
            child = _child(parent, path, depth)
            if not isinstance(child, dict | list):
                raise PatchError(f"{_pointer(path[:depth])} is neither map nor list")
            if child is not (owned := self._owned(child)):
                parent[part if isinstance(parent, dict) else _index(parent, path, depth, limit=len(parent))] = owned
            parent = owned
        return parent

    def _insert(self, path: Sequence[str], value: Json) -> None:
        if not path:
            self.document = value
            return
        parent, part = self._parent(path), path[-1]
        if isinstance(parent, dict):
            parent[part] = value
        elif part == "-":
            parent.append(value)
        else:
            at = _index(parent, path, len(path), limit=len(parent) + 1)
            self._shift(len(parent) - at)
            parent.insert(at, value)

    def _replace(self, path: Sequence[str], value: Json) -> None:
        if not path:
            self.document = value
            return
        parent, part = self._parent(path), path[-1]
        # What isn't in a map yet is put there: API servers don't insist on it.
        parent[part if isinstance(parent, dict) else _index(parent, path, len(path), limit=len(parent))] = value

    def _remove(self, path: Sequence[str]) -> None:
        if not path:
            raise PatchError("can't remove the whole document")
        parent, part = self._parent(path), path[-1]
        if isinstance(parent, dict):
            if part not in parent:
                raise PatchError(f"{_pointer(path)} does not exist")
            del parent[part]
        else:
            at = _index(parent, path, len(path), limit=len(parent))
            self._shift(len(parent) - at)
            del parent[at]

    def _shift(self, count: int) -> None:
        """What is put into a list, or taken from it, moves all that stand behind it."""
        self._shifted += count
        if self._shifted > MAX_SHIFTED:
            raise PatchTooLarge(f"insertions and removals that move list elements more than {MAX_SHIFTED} times")


def _value(operation: Mapping[str, Any]) -> Json:
    if "value" not in operation:
        raise PatchError(f"{operation['op']} of {operation['path']!r} has no value")
    return operation["value"]


def _split_pointer(operation: Mapping[str, Any], field: str) -> list[str]:
    pointer = operation.get(field)
    if not isinstance(pointer, str):
        raise PatchError(f"{operation.get('op')!r} has no {field}")
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise PatchError(f"{field} {pointer!r} must begin with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]


def _pointer(parts: Sequence[str]) -> str:
    return "".join(f"/{escape(part)}" for part in parts) or "the whole document"


def _index(container: list[Json], path: Sequence[str], depth: int, *, limit: int) -> int:
    """The index that step `depth` of a path names, counted from 1. Messages show the path as far as that step, which is
    cut off only for them: a patch may have thousands of paths with thousands of steps."""
    part = path[depth - 1]
    # RFC 6901 allows no sign, no leading zero and nothing but ASCII digits; API servers count from the end, too.
    if len(part) > _MAX_DIGITS:
        raise PatchError(f"{_pointer(path[:depth])}: the index of a list has at most {_MAX_DIGITS} digits")
    if part[:1] == "-" and part[1:].isdecimal() and part.isascii() and 0 < int(part[1:]) <= len(container):
        return len(container) - int(part[1:])
    if not (part.isascii() and part.isdigit()) or (part[0] == "0" and part != "0"):
        raise PatchError(f"{_pointer(path[:depth])}: {part!r} is not an index of a list")
    if int(part) >= limit:
        raise PatchError(f"{_pointer(path[:depth])}: index {part} is beyond the list's {len(container)} elements")
    return int(part)


def _lookup(document: Json, path: Sequence[str]) -> Json:
    """The value at a path."""
    for depth in range(1, len(path) + 1):
        document = _child(document, path, depth)
    return document


def _child(container: Json, path: Sequence[str], depth: int) -> Json:
    """The value to which step `depth` of a path leads, counted from 1, from what all steps before it lead to."""
    if isinstance(container, dict):
        part = path[depth - 1]
        if part not in container:
            raise PatchError(f"{_pointer(path[:depth])} does not exist")
        return container[part]
    if isinstance(container, list):
        return container[_index(container, path, depth, limit=len(container))]
    raise PatchError(f"{_pointer(path[:depth])} does not exist: its parent is neither map nor list")


def _lookup_or_none(document: Json, path: Sequence[str]) -> Json:
    """As API servers see it, what isn't in a map is null there."""
    parent = _lookup(document, path[:-1])
    return parent.get(path[-1]) if path and isinstance(parent, dict) else _lookup(document, path)


# --- Merge Patch


def merge_patch(target: Json, patch: Json) -> Json:
    """`target` after the merge patch: maps are merged, null removes, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merge_patch(result.get(key), value)
        else:
            result[key] = value
    return result
