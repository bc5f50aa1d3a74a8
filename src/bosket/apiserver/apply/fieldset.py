"""Sets of field paths in an object.

A place is a tuple of steps as managedFields spells them: `f:spec`, `k:{"name":"a"}` for an element of a keyed list,
`v:"x"` for one of a set. A set holds the leaves, and the elements of keyed lists beside what is in them. Who
updates (and doesn't apply) also owns the maps and lists that are new (`branches_of`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import msgspec

from bosket.apiserver.apply.shape import KEY_DEFAULTS, Shape
from bosket.kube.patch import hash_key

StorageKey = tuple[str, ...]
FieldSet = set[StorageKey]

ABSENT: Any = object()
_decode = msgspec.json.Decoder().decode


def is_keyed(value: Any, shape: Shape) -> bool:
    """Whether elements of this list can be owned apart."""
    return isinstance(value, list) and shape.kind in ("keyed", "set")


def is_map(value: Any, shape: Shape) -> bool:
    """Whether fields of this map can be owned apart."""
    return isinstance(value, dict) and shape.kind in ("map", "deduced")


def step_of(element: Any, shape: Shape) -> str:
    """How an element of a keyed list or set is named."""
    if shape.kind == "set" or not isinstance(element, dict):
        return "v:" + msgspec.json.encode(element).decode()
    keys = {key: element.get(key, KEY_DEFAULTS.get(key)) for key in sorted(shape.keys)}
    return "k:" + msgspec.json.encode({key: value for key, value in keys.items() if value is not None}).decode()


def places_of(value: Any, shape: Shape, at: StorageKey = ()) -> FieldSet:
    """All places that `value` has something to say about."""
    found: FieldSet = set()
    _collect(value, shape, at, found)
    return found


def _collect(value: Any, shape: Shape, at: StorageKey, found: FieldSet) -> None:
    if is_map(value, shape) and value:
        for key, child in value.items():
            _collect(child, shape.field(key), (*at, f"f:{key}"), found)
    elif is_keyed(value, shape) and value:
        for element in value:
            here = (*at, step_of(element, shape))
            found.add(here)
            if isinstance(element, dict):
                _collect(element, shape.element(), here, found)
    elif at:
        found.add(at)


def branches_of(value: Any, shape: Shape, at: StorageKey = ()) -> FieldSet:
    """The maps and lists in `value` that have something in them which can be owned apart."""
    found: FieldSet = set()
    _collect_branches(value, shape, at, found)
    return found


def _collect_branches(value: Any, shape: Shape, at: StorageKey, found: FieldSet) -> None:
    if is_map(value, shape) and value:
        found.add(at)
        for key, child in value.items():
            if isinstance(child, dict | list):
                _collect_branches(child, shape.field(key), (*at, f"f:{key}"), found)
    elif is_keyed(value, shape) and value:
        found.add(at)
        for element in value:
            if isinstance(element, dict):
                _collect_branches(element, shape.element(), (*at, step_of(element, shape)), found)


class Finder:
    """Looks up places in documents that don't change meanwhile.

    Each list is indexed once, by the keys that places name: to look up all places of a document costs no more than
    the document is large.
    """

    def __init__(self) -> None:
        #: by a list's identity and the names of the keys: the list, which keeps its identity, and where elements are
        self._indexes: dict[tuple[int, tuple[str, ...] | None], tuple[list[Any], dict[Hashable, int]]] = {}

    def look_up(self, value: Any, place: StorageKey) -> Any:
        """What is at a place; ABSENT if nothing is."""
        for step in place:
            if step[0] == "f":
                name = step[2:]
                if not isinstance(value, dict) or name not in value:
                    return ABSENT
                value = value[name]
            else:
                if not isinstance(value, list):
                    return ABSENT
                index = self.find_element(value, step)
                if index is None:
                    return ABSENT
                value = value[index]
        return value

    def find_element(self, elements: list[Any], step: str) -> int | None:
        """Where in a list the element named by `step` is: the first one, if there are several."""
        try:
            wanted = _decode(step[2:])
        except msgspec.DecodeError:  # anybody can write managedFields
            return None
        if step[0] == "v":
            return self._index(elements, None).get(hash_key(wanted))
        if not isinstance(wanted, dict):
            return None
        keys = tuple(wanted)
        return self._index(elements, keys).get(tuple([hash_key(value) for value in wanted.values()]))

    def _index(self, elements: list[Any], keys: tuple[str, ...] | None) -> dict[Hashable, int]:
        known = self._indexes.get((id(elements), keys))
        if known is None:
            index: dict[Hashable, int] = {}
            for place, element in enumerate(elements):
                if keys is None:
                    index.setdefault(hash_key(element), place)
                elif isinstance(element, dict):
                    values = tuple([hash_key(element.get(key, KEY_DEFAULTS.get(key))) for key in keys])
                    index.setdefault(values, place)
            known = self._indexes[id(elements), keys] = elements, index
        return known[1]


def to_wire(places: FieldSet) -> dict[str, Any]:
    """As `fieldsV1` has it: nested, with `.` where an inner place is owned itself."""
    tree: dict[str, Any] = {}
    owned: set[int] = set()
    for place in places:
        node = tree
        for step in place:
            node = node.setdefault(step, {})
        owned.add(id(node))
    return _ordered(tree, owned)


def _ordered(node: dict[str, Any], owned: set[int]) -> dict[str, Any]:
    """A tree in the order of its steps. Sorted level by level: one sort of all places would hold up everybody else."""
    found = {step: _ordered(node[step], owned) for step in sorted(node)}
    if node and id(node) in owned:
        found["."] = {}
    return found


def from_wire(tree: dict[str, Any]) -> FieldSet:
    """The set that `fieldsV1` stands for."""
    places: FieldSet = set()

    def visit(node: dict[str, Any], at: StorageKey) -> None:
        if (not node and at) or "." in node:
            places.add(at)
        for step, child in node.items():
            if step != "." and isinstance(child, dict):
                visit(child, (*at, step))

    visit(tree, ())
    return places


def shown(place: StorageKey) -> str:
    """As messages have it: `.spec.containers[name="a"].image`."""
    text = ""
    for step in place:
        if step[0] == "f":
            text += f".{step[2:]}"
        elif step[0] == "k":
            keys = msgspec.json.decode(step[2:])
            text += "[" + ",".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in keys.items()) + "]"
        else:
            text += f"[={step[2:]}]"
    return text
