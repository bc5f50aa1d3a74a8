"""Structs that know fewer fields than the kind has: what a reader doesn't need is skipped while it is decoded.

A lean Struct is a subclass of the whole one, so that nobody who is handed one can tell, but by the fields that have
their defaults. On the wire these have a name that no server sends. A server's bytes are then looked through, but no
object is made of what is left out: of a large object that is most of the cost, in time and in memory.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

import msgspec
from msgspec.structs import FieldInfo

S = TypeVar("S", bound=msgspec.Struct)

#: What the name of a field that is left out begins with: no field of Kubernetes does.
_SKIPPED = "-"


def lean(struct: type[S], keep: Collection[str], **inner: Any) -> type[S]:
    """A subclass of the Struct that decodes these fields and no others; `inner`: types of fields that are lean too."""
    known = {field.name for field in msgspec.structs.fields(struct)}
    if unknown := {*keep, *inner} - known:
        raise ValueError(f"{struct.__name__} has no field {', '.join(sorted(unknown))}")
    changed = []
    for field in msgspec.structs.fields(struct):
        if field.name in inner:
            changed.append((field.name, inner[field.name], _default(field)))
        elif field.name not in keep:
            changed.append((field.name, field.type, _default(field, name=f"{_SKIPPED}{field.name}")))
    made: Any = msgspec.defstruct(
        f"Lean{struct.__name__}",
        changed,
        bases=(struct,),
        module=__name__,
        namespace={"__doc__": f"{struct.__doc__}\n\nOnly in part."},
        frozen=True,
        kw_only=True,
        omit_defaults=True,
        gc=False,
    )
    return made  # type: ignore[no-any-return]


def without(struct: type[S], fields: Collection[str], **inner: Any) -> type[S]:
    """The same by what is left out."""
    return lean(struct, {field.name for field in msgspec.structs.fields(struct)}.difference(fields), **inner)


def _default(field: FieldInfo, name: str | None = None) -> Any:
    """The field with its default. One that must be there can be left out only where it is a text."""
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory, name=name)
    if field.default is not msgspec.NODEFAULT:
        return msgspec.field(default=field.default, name=name)
    if name is None:
        return msgspec.field(name=name)
    if field.type is not str:
        raise ValueError(f"{field.name} has no default, and can't be left out")
    return msgspec.field(default="", name=name)
