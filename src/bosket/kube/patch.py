"""Differences between JSON documents, and how they are applied: JSON Patch (RFC 6902) and Merge Patch (RFC 7386).

The client makes patches with these functions and the embedded server applies them. Documents are what a JSON parser
gives: dict, list, str, int, float, bool, None; what is compared may have tuples for lists, as Structs do. Nothing here
changes its arguments; results share what did not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

Json = Any
Operation = dict[str, Any]

#: What `copy` operations of one patch may copy in all, as in kube-apiserver.
MAX_COPIED_BYTES = 3 * 1024 * 1024
_LISTS = (list, tuple)
_SCALARS = (str, int)
#: Fields by which Kubernetes tells the elements of a list apart, the most telling first.
_IDENTITIES = ("uid", "name", "type", "key", "containerPort", "mountPath", "devicePath", "ip", "topologyKey")


class PatchError(ValueError):
    """A patch that is malformed or does not fit the document; says which operation and path."""


class PatchTooLarge(PatchError):
    """Copies upon copies: few operations that would make a document of any size."""


class PatchTestError(PatchError):
    """A `test` operation found another value."""


def equal(left: Json, right: Json) -> bool:
    """Equality as JSON has it: unlike Python's, `true` is not 1."""
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


# --- JSON Patch: making one


def json_patch(before: Json, after: Json) -> list[Operation]:
    """The operations that turn `before` into `after`.

    Descends into maps, and into lists whose elements have an identity (a name, a type…), so that what `before` and
    `after` don't show (unknown fields in the server's document) is left alone wherever its parent goes on existing.
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
    # `work` is what the list looks like after the operations so far; it becomes `new` from the front.
    work = [element for element in old if element[field] in wanted]
    for index, element in enumerate(new):
        here = f"{path}/{start + index}"
        found = next((at for at in range(index, len(work)) if work[at][field] == element[field]), None)
        if found is None:
            operations.append({"op": "add", "path": here, "value": element})
            work.insert(index, element)
            continue
        if found != index:
            operations.append({"op": "move", "from": f"{path}/{start + found}", "path": here})
            work.insert(index, work.pop(found))
        _diff(here, work[index], element, operations)


# --- JSON Patch: applying one


def apply_json_patch(document: Json, operations: Json) -> Json:
    """`document` after all operations; raises `PatchError` when one can't be applied, then nothing counts."""
    if not isinstance(operations, list):
        raise PatchError(f"a JSON patch is a list of operations, not {type(operations).__name__}")
    copied = 0
    for number, operation in enumerate(operations):
        try:
            if isinstance(operation, Mapping) and operation.get("op") == "copy":
                copied += len(msgspec.json.encode(_lookup(document, _split_pointer(operation, "from"))))
                if copied > MAX_COPIED_BYTES:
                    raise PatchTooLarge(f"copies of more than {MAX_COPIED_BYTES} bytes")
            document = _apply(document, operation)
        except PatchError as error:
            raise type(error)(f"operation {number}: {error}") from None
    return document


def resolve(document: Json, pointer: str) -> Json:
    """The value at a JSON pointer; raises `PatchError` where there is none."""
    return _lookup(document, _split_pointer({"op": "resolve", "path": pointer}, "path"))


def _apply(document: Json, operation: Mapping[str, Any]) -> Json:
    if not isinstance(operation, Mapping):
        raise PatchError(f"an operation is an object with op and path, not {operation!r}")
    name = operation.get("op")
    path = _split_pointer(operation, "path")
    match name:
        case "add":
            return _insert(document, path, _value(operation))
        case "remove":
            return _remove(document, path)
        case "replace":
            return _replace(document, path, _value(operation))
        case "move":
            source = _split_pointer(operation, "from")
            if path[: len(source)] == source and len(path) > len(source):
                raise PatchError(f"can't move {_pointer(source)} into its own child {_pointer(path)}")
            value = _lookup(document, source)
            return value if not path else _insert(_remove(document, source), path, value)
        case "copy":
            return _insert(document, path, _lookup(document, _split_pointer(operation, "from")))
        case "test":
            found = _lookup_or_none(document, path)
            if not equal(found, _value(operation)):
                raise PatchTestError(f"test of {_pointer(path)} failed: it is {found!r}, not {operation['value']!r}")
            return document
    raise PatchError(f"unknown op {name!r}")


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


def _index(container: list[Json], part: str, path: Sequence[str], *, limit: int) -> int:
    # RFC 6901 allows no sign, no leading zero and nothing but ASCII digits; API servers count from the end, too.
    if part[:1] == "-" and part[1:].isdecimal() and part.isascii() and 0 < int(part[1:]) <= len(container):
        return len(container) - int(part[1:])
    if not (part.isascii() and part.isdigit()) or (part[0] == "0" and part != "0"):
        raise PatchError(f"{_pointer(path)}: {part!r} is not an index of a list")
    if int(part) >= limit:
        raise PatchError(f"{_pointer(path)}: index {part} is beyond the list's {len(container)} elements")
    return int(part)


def _lookup(document: Json, path: Sequence[str]) -> Json:
    for depth, part in enumerate(path):
        if isinstance(document, dict):
            if part not in document:
                raise PatchError(f"{_pointer(path[: depth + 1])} does not exist")
            document = document[part]
        elif isinstance(document, list):
            document = document[_index(document, part, path[: depth + 1], limit=len(document))]
        else:
            raise PatchError(f"{_pointer(path[: depth + 1])} does not exist: its parent is neither map nor list")
    return document


def _lookup_or_none(document: Json, path: Sequence[str]) -> Json:
    """As API servers see it, what isn't in a map is null there."""
    parent = _lookup(document, path[:-1])
    return parent.get(path[-1]) if path and isinstance(parent, dict) else _lookup(document, path)


def _edit_parent(document: Json, path: Sequence[str], edit: Callable[[Json, str], None], depth: int = 0) -> Json:
    """A copy of `document` in which `edit(parent, last part)` was done; copies only what lies on the path."""
    if isinstance(document, dict):
        copy: Any = dict(document)
    elif isinstance(document, list):
        copy = list(document)
    else:
        raise PatchError(f"{_pointer(path[:depth])} is neither map nor list")
    part = path[depth]
    if depth == len(path) - 1:
        edit(copy, part)
        return copy
    child = _lookup(document, [part]) if isinstance(document, list) else document.get(part)
    if isinstance(document, dict) and part not in document:
        raise PatchError(f"{_pointer(path[: depth + 1])} does not exist")
    at = part if isinstance(document, dict) else _index(document, part, path[: depth + 1], limit=len(document))
    copy[at] = _edit_parent(child, path, edit, depth + 1)
    return copy


def _insert(document: Json, path: Sequence[str], value: Json) -> Json:
    def edit(parent: Json, part: str) -> None:
        if isinstance(parent, dict):
            parent[part] = value
        elif part == "-":
            parent.append(value)
        else:
            parent.insert(_index(parent, part, path, limit=len(parent) + 1), value)

    return _edit_parent(document, path, edit) if path else value


def _replace(document: Json, path: Sequence[str], value: Json) -> Json:
    def edit(parent: Json, part: str) -> None:
        # What isn't in a map yet is put there: API servers don't insist on it.
        parent[part if isinstance(parent, dict) else _index(parent, part, path, limit=len(parent))] = value

    return _edit_parent(document, path, edit) if path else value


def _remove(document: Json, path: Sequence[str]) -> Json:
    def edit(parent: Json, part: str) -> None:
        if isinstance(parent, dict):
            if part not in parent:
                raise PatchError(f"{_pointer(path)} does not exist")
            del parent[part]
        else:
            del parent[_index(parent, part, path, limit=len(parent))]

    if not path:
        raise PatchError("can't remove the whole document")
    return _edit_parent(document, path, edit)


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
