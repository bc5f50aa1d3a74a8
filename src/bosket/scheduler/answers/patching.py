"""Patches of objects, made from the objects as they are, and the kubectl commands that do the same."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

import msgspec

from bosket.api.object import KubeObject
from bosket.api.table import resource_of
from bosket.scheduler.answers.change import ObjectPatch, ObjectReference

Operation = dict[str, Any]


class Patching:
    """Operations on one object, collected; `patch` is all of them."""

    def __init__(self, obj: KubeObject) -> None:
        self._obj = obj
        self._document: Any = document(obj)
        self._operations: list[Operation] = []

    def set(self, *path: str | int, value: Any) -> Patching:
        """Sets the field; fields above that aren't there are made."""
        at: Any = self._document
        known: list[str | int] = []
        for place, step in enumerate(path[:-1]):
            known.append(step)
            inner = _inside(at, step)
            if inner is None:
                missing = path[place + 1 :]
                for name in reversed(missing):
                    value = {name: value}
                at[step] = value
                self._operations.append({"op": "add", "path": _pointer(known), "value": value})
                return self
            at = inner
        is_there = _inside(at, path[-1]) is not None
        at[path[-1]] = value
        self._operations.append({"op": "replace" if is_there else "add", "path": _pointer(path), "value": value})
        return self

    def remove(self, *path: str | int) -> Patching:
        """Removes the field, if it is there."""
        at: Any = self._document
        for step in path[:-1]:
            at = _inside(at, step)
            if at is None:
                return self
        if _inside(at, path[-1]) is not None:
            del at[path[-1]]
            self._operations.append({"op": "remove", "path": _pointer(path)})
        return self

    @property
    def patch(self) -> tuple[ObjectPatch, ...]:
        """The patch; none where nothing is to be changed."""
        if not self._operations:
            return ()
        return (ObjectPatch(ObjectReference.to(self._obj), tuple(self._operations)),)


def creation(obj: KubeObject) -> ObjectPatch:
    """The patch that makes the object."""
    return ObjectPatch(ObjectReference.to(obj), ({"op": "add", "path": "", "value": document(obj)},))


def removal(obj: KubeObject) -> ObjectPatch:
    """The patch that removes the object."""
    return ObjectPatch(ObjectReference.to(obj), ({"op": "remove", "path": ""},))


def command(patch: ObjectPatch) -> str:
    """The kubectl command that makes the change."""
    reference = patch.object
    resource = resource_of(reference.struct)
    where = ["-n", reference.namespace] if reference.namespace else []
    what = [f"{resource.plural}.{resource.group}" if resource.group else resource.plural]
    first = patch.ops[0]
    if first["path"] == "" and first["op"] == "remove":
        return shlex.join(["kubectl", "delete", *where, *what, reference.name])
    if first["path"] == "":
        document = {"apiVersion": reference.apiVersion, "kind": reference.kind, **first["value"]}
        return f"kubectl create -f - <<< {shlex.quote(json.dumps(document))}"
    operations = json.dumps(list(patch.ops))
    return shlex.join(["kubectl", "patch", *where, *what, reference.name, "--type=json", "-p", operations])


def document(obj: Any) -> Any:
    """An object, or a part of one, as JSON has it: lists and maps all the way down."""
    return msgspec.json.decode(msgspec.json.encode(obj))


def _inside(at: Any, step: str | int) -> Any:
    """What a map or a list has there; None where a map has nothing."""
    return at.get(step) if isinstance(at, dict) else at[step]


def _pointer(path: Sequence[str | int]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)
