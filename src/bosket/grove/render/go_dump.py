"""A pod template as Go prints it: the text that Grove hashes.

Grove tells templates apart by a hash over Go's full dump of a PodTemplateSpec, with types, unset fields and the inside
of quantities. To take over its PodCliqueSets without replacing every pod, the very same text must be computed.
What types there are is in `pod_template_types.txt`; lists and maps that are empty count as absent, which is how
Grove's webhook stores them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from bosket.grove.render.go_quantity import dumped_quantity

_TEMPLATE: Final = "v1.PodTemplateSpec"
_NIL: Final = "<nil>"
_ZERO_TIME: Final = "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"
_INLINE: Final = "-"


class _Field(NamedTuple):
    name: str
    type: str
    member: str


class _Types(NamedTuple):
    """All types, by their names."""

    structs: Mapping[str, tuple[_Field, ...]]
    #: What names stand for that are no structs.
    named: Mapping[str, str]


def dumped_template(document: Mapping[str, Any]) -> str:
    """The text for a PodTemplateSpec, given as JSON would show it."""
    return f"(*{_TEMPLATE}){_value(_TEMPLATE, document)}"


@cache
def _types() -> _Types:
    structs: dict[str, list[_Field]] = {}
    named: dict[str, str] = {}
    fields: list[_Field] = []
    for line in files(__package__).joinpath("pod_template_types.txt").read_text().splitlines():
        match line.split():
            case ["struct", name]:
                fields = structs[name] = []
            case ["type", name, underlying]:
                named[name] = underlying
            case [name, type_, member] if name != "#":
                fields.append(_Field(name, type_, member))
    return _Types({name: tuple(found) for name, found in structs.items()}, named)


def _value(type_: str, value: Any) -> str:
    """A value without its type in front."""
    if type_.startswith("*"):
        return _NIL if value is None else _value(type_[1:], value)
    types = _types()
    fields = types.structs.get(type_)
    if fields is not None:
        return _struct(fields, value or {})
    match type_:
        case "resource.Quantity":
            return dumped_quantity("" if value is None else str(value))
        case "intstr.IntOrString":
            return _int_or_string(value)
        case "v1.Time":
            return _ZERO_TIME
    underlying = types.named.get(type_, type_)
    if underlying.startswith("[]"):
        return f"[{' '.join(_value(underlying[2:], each) for each in value)}]" if value else _NIL
    if underlying.startswith("map["):
        element = underlying.partition("]")[2]
        return f"map[{' '.join(f'{key}:{_value(element, value[key])}' for key in sorted(value))}]" if value else _NIL
    return _scalar(underlying, value)


def _struct(fields: tuple[_Field, ...], value: Mapping[str, Any]) -> str:
    def shown(field: _Field) -> str:
        inside = value if field.member == _INLINE else value.get(field.member)
        return f"{field.name}:({field.type}){_value(field.type, inside)}"

    return f"{{{' '.join(map(shown, fields))}}}"


def _scalar(kind: str, value: Any) -> str:
    if kind == "string":
        return value or ""
    if kind == "bool":
        return "true" if value else "false"
    return str(value or 0)


def _int_or_string(value: Any) -> str:
    is_text = isinstance(value, str)
    number, text = (0, value) if is_text else (value or 0, "")
    return f"{{Type:(intstr.Type){int(is_text)} IntVal:(int32){number} StrVal:(string){text}}}"
