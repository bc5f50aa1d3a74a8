"""Changes of a cluster's objects, as the JSON documents that `explain` offers and `plan` reads.

A change names one object by kind, namespace and name, and has operations of a JSON patch (RFC 6902). An object that
isn't there is made by one `add` with the path "", and an object is removed by one `remove` with the path "".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from bosket.api.object import KubeObject, ObjectKey
from bosket.api.table import resource_of
from bosket.kube.codec import strip_nulls
from bosket.kube.patch import PatchError, apply_json_patch
from bosket.scheduler.recording.object_lists import LISTS

#: Operations of one change: more than any change of a person has.
MOST_OPERATIONS: Final = 10_000

#: By (apiVersion, kind): the Structs of all objects that a change can be about.
_KINDS: Final[Mapping[tuple[str, str], type[KubeObject]]] = {
    (resource_of(each.kind).api_version, resource_of(each.kind).kind): each.kind for each in LISTS.values()
}


class ChangeError(ValueError):
    """A change that can't be made; the message names the object, the operation and what would be right."""


class ObjectReference(msgspec.Struct, frozen=True):
    """An object by its identity."""

    apiVersion: str  # noqa: N815 - a name on the wire
    kind: str
    name: str
    namespace: str = ""

    @property
    def struct(self) -> type[KubeObject]:
        """The Struct of the object's kind; raises `ChangeError` for a kind that no decision depends on."""
        try:
            return _KINDS[self.apiVersion, self.kind]
        except KeyError:
            known = ", ".join(sorted(kind for _, kind in _KINDS))
            raise ChangeError(
                f"{self}: the scheduler doesn't look at {self.kind} of {self.apiVersion or 'no apiVersion'}; "
                f"it looks at {known}"
            ) from None

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"

    @staticmethod
    def to(obj: KubeObject) -> ObjectReference:
        """The reference to `obj`."""
        resource = resource_of(type(obj))
        return ObjectReference(resource.api_version, resource.kind, obj.key.name, obj.key.namespace)


class ObjectPatch(msgspec.Struct, frozen=True):
    """A change of one object."""

    object: ObjectReference
    ops: tuple[dict[str, Any], ...]


def read_patches(document: bytes | str, source: str) -> tuple[ObjectPatch, ...]:
    """The patches in a JSON document: a list of them, one change of `explain`, or an object with a field `patch`.

    Raises `ChangeError` that begins with `source`.
    """
    try:
        content = msgspec.json.decode(document)
        if isinstance(content, dict):
            content = content.get("patch", [content] if "ops" in content else None)
        return msgspec.convert(content, tuple[ObjectPatch, ...])
    except msgspec.DecodeError as error:
        raise ChangeError(f"{source}: {error}") from error
    except (RecursionError, UnicodeDecodeError) as error:
        raise ChangeError(f"{source}: not a readable JSON document: {error}") from error


def patched(obj: KubeObject | None, patch: ObjectPatch) -> KubeObject | None:
    """`obj` after the patch; None where it is removed. `obj` is None where it isn't there yet."""
    reference, operations = patch.object, list(patch.ops)
    struct = reference.struct
    if len(operations) > MOST_OPERATIONS:
        raise ChangeError(f"{reference}: {len(operations)} operations, at most {MOST_OPERATIONS} are allowed")
    if len(operations) == 1 and operations[0].get("path") == "" and operations[0].get("op") == "remove":
        if obj is None:
            raise ChangeError(f"{reference}: there is no such object to remove")
        return None
    if obj is None:
        if not (len(operations) == 1 and operations[0].get("path") == "" and operations[0].get("op") == "add"):
            raise ChangeError(f'{reference}: there is no such object; one "add" with the path "" would make it')
        document = operations[0].get("value")
    else:
        try:
            # Through JSON: `to_builtins` leaves tuples as they are, which no path leads into.
            document = apply_json_patch(msgspec.json.decode(msgspec.json.encode(obj)), operations)
        except PatchError as error:
            raise ChangeError(f"{reference}: {error}") from error
    return _decoded(document, reference, struct)


def _decoded(document: Any, reference: ObjectReference, struct: type[KubeObject]) -> KubeObject:
    try:
        result: KubeObject = msgspec.convert(strip_nulls(document), struct)
    except msgspec.ValidationError as error:
        raise ChangeError(f"{reference}: {error}") from error
    if result.key != reference.key:
        raise ChangeError(f"{reference}: the patch makes it {result.key}; an object keeps its name")
    return msgspec.structs.replace(result, apiVersion="", kind="")
