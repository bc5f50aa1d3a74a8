"""How `Client.modify` writes the difference between two versions of an object without losing what neither shows.

A Struct shows a part of what the server holds. A merge patch of the members that differ leaves everything else alone,
and is what is sent whenever it can say what is meant. It can't where an element of a list of Structs differs, since it
replaces lists whole; then it is a JSON patch. A JSON patch in turn must know whether the parent of what it adds exists:
a member that holds nothing the Struct knows decodes like an absent one. In that rare case (`needs_document`) the caller
reads the object as JSON first.

Either patch sets `metadata.resourceVersion` to the version that was read, which any API server answers with 409 when
the object has changed since; a failing `test` operation would come back as 422, like any invalid object.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import msgspec

from bosket.kube.patch import Operation, apply_json_patch, escape, json_patch, resolve

_LISTS = (list, tuple)
_VERSION_PATH = "/metadata/resourceVersion"


class Modification(NamedTuple):
    """A patch: a merge patch if `content` is a dict, a JSON patch if it is a list."""

    content: dict[str, Any] | list[Operation]
    #: The JSON patch adds a map that the server may already have with unknown members: see `with_document`.
    needs_document: bool = False

    def with_document(self, document: dict[str, Any]) -> Modification:
        """The same patch, computed against the server's document of this version."""
        assert isinstance(self.content, list)
        grafted: list[Operation] = []
        for operation in self.content:
            fitting = _graft(document, operation)
            document = apply_json_patch(document, fitting)
            grafted += fitting
        return Modification(grafted)


def modification(before: Any, after: Any) -> Modification | None:
    """The patch that makes `before` into `after`, guarded by the version of `before`; None when nothing differs."""
    if isinstance(before, dict):
        return _as_json_patch(before, after, before["metadata"]["resourceVersion"])
    if before is after or before == after:
        return None
    version = before.metadata.resourceVersion
    try:
        merge = _merge_structs(before, after)
    except _NotMergeable:
        return _as_json_patch(before, after, version)
    merge.setdefault("metadata", {})["resourceVersion"] = version
    return Modification(merge) if merge.keys() != {"metadata"} or len(merge["metadata"]) > 1 else None


def is_guarded(operations: Any) -> bool:
    """Whether a JSON patch says which version it is meant for, so that a server can't carry it out twice."""
    return any(isinstance(each, dict) and each.get("path") == _VERSION_PATH for each in operations)


# --- merge patch


class _NotMergeable(Exception):
    pass


@cache
def _members(struct: type[msgspec.Struct]) -> tuple[tuple[str, str, Any], ...]:
    """(attribute, name on the wire, default) of every field."""
    return tuple(
        (field.name, field.encode_name, field.default_factory() if callable(field.default_factory) else field.default)
        for field in msgspec.structs.fields(struct)
    )


def _merge_structs(before: msgspec.Struct, after: msgspec.Struct) -> dict[str, Any]:
    patch: dict[str, Any] = {}
    for attribute, name, default in _members(type(after)):
        old, new = getattr(before, attribute), getattr(after, attribute)
        if old is not new and old != new:
            patch[name] = _merge_values(old, new, default)
    return patch


def _merge_values(old: Any, new: Any, default: Any = msgspec.NODEFAULT) -> Any:
    if isinstance(old, msgspec.Struct) and type(old) is type(new):
        return _merge_structs(old, new)
    # Kubernetes writes no empty values, and an empty string may break an enumeration.
    if new is None or (new == default and new in ("", (), {})):
        return None
    if isinstance(old, dict) and isinstance(new, dict):
        return _merge_maps(old, new)
    if isinstance(old, _LISTS) and any(isinstance(element, msgspec.Struct) for element in old):
        raise _NotMergeable
    value = msgspec.to_builtins(new)
    if _has_null(value):
        raise _NotMergeable
    return value


def _merge_maps(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        if key not in old or old[key] != value:
            if value is None:
                raise _NotMergeable  # To a merge patch, null is the absence of a value.
            patch[key] = _merge_values(old.get(key), value)
    return patch


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(member is None or _has_null(member) for member in value.values())
    # Inside a list null is a value like any other, to a merge patch too.
    return False


# --- JSON patch


def _as_json_patch(before: Any, after: Any, version: str) -> Modification | None:
    operations = json_patch(*_differing(before, after))
    operations = [each for each in operations if each["path"] != _VERSION_PATH]
    if not operations:
        return None
    guard: Operation = {"op": "replace", "path": _VERSION_PATH, "value": version}
    hides = not isinstance(before, dict) and any(_may_hide_members(before, operation) for operation in operations)
    return Modification([guard, *operations], needs_document=hides)


def _differing(before: Any, after: Any) -> tuple[Any, Any]:
    """Both as plain data, without those members of Structs that are equal: most of an object never changes."""
    if not isinstance(before, msgspec.Struct) or type(before) is not type(after):
        return msgspec.to_builtins(before), msgspec.to_builtins(after)
    old_members: dict[str, Any] = {}
    new_members: dict[str, Any] = {}
    for attribute, name, default in _members(type(before)):
        old, new = getattr(before, attribute), getattr(after, attribute)
        if old is new or old == new:
            continue
        old_plain, new_plain = _differing(old, new)
        if old != default:
            old_members[name] = old_plain
        # An emptied Struct stays as an empty map: members it doesn't know may remain.
        if new != default or isinstance(new, msgspec.Struct):
            new_members[name] = new_plain
    return old_members, new_members


def _may_hide_members(before: msgspec.Struct, operation: Operation) -> bool:
    """Whether the operation adds a map where `before` has a Struct that shows nothing."""
    if operation["op"] != "add" or not isinstance(operation["value"], dict):
        return False
    value: Any = before
    for part in operation["path"][1:].split("/"):
        if isinstance(value, msgspec.Struct):
            value = next(getattr(value, attribute) for attribute, name, _ in _members(type(value)) if name == part)
        elif isinstance(value, dict):
            value = value.get(part.replace("~1", "/").replace("~0", "~"))
        elif isinstance(value, _LISTS):
            # Operations before this one may have moved the elements, so the index is ambiguous.
            return not operation["path"].rsplit("/", 1)[1].isdigit()
    return isinstance(value, msgspec.Struct)


def _graft(document: Any, operation: Operation) -> list[Operation]:
    """The operation, or, where it would replace a map by another, those that add the members of the new one."""
    if operation["op"] != "add" or not isinstance(operation["value"], dict):
        return [operation]
    path = operation["path"]
    parent = resolve(document, path.rpartition("/")[0])
    if isinstance(parent, list) or not isinstance(parent.get(_last_key(path)), dict):
        return [operation]
    members = operation["value"].items()
    inner = [{"op": "add", "path": f"{path}/{escape(key)}", "value": value} for key, value in members]
    return [fitting for each in inner for fitting in _graft(document, each)]


def _last_key(path: str) -> str:
    return path.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
