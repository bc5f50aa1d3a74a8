"""Sets of places in an object.

A place is a tuple of steps as managedFields spells them: `f:spec`, `k:{"name":"a"}` for an element of a keyed list,
`v:"x"` for one of a set. A set holds the leaves, and the elements of keyed lists beside what is in them. Who
updates (and doesn't apply) also owns the maps and lists that are new (`branches_of`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from bosket.apiserver.apply.shape import KEY_DEFAULTS, Shape

Place = tuple[str, ...]
FieldSet = set[Place]

ABSENT: Any = object()


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


def places_of(value: Any, shape: Shape, at: Place = ()) -> FieldSet:
    """All places that `value` has something to say about."""
    found: FieldSet = set()
    _collect(value, shape, at, found)
    return found


def _collect(value: Any, shape: Shape, at: Place, found: FieldSet) -> None:
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


def branches_of(value: Any, shape: Shape, at: Place = ()) -> FieldSet:
    """The maps and lists in `value` that have something in them which can be owned apart."""
    found: FieldSet = set()
    _collect_branches(value, shape, at, found)
    return found


def _collect_branches(value: Any, shape: Shape, at: Place, found: FieldSet) -> None:
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


def look_up(value: Any, place: Place) -> Any:
    """What is at a place; ABSENT if nothing is."""
    for step in place:
        kind, name = step[0], step[2:]
        if kind == "f":
            if not isinstance(value, dict) or name not in value:
                return ABSENT
            value = value[name]
        else:
            if not isinstance(value, list):
                return ABSENT
            index = find_element(value, step)
            if index is None:
                return ABSENT
            value = value[index]
    return value


def find_element(elements: list[Any], step: str) -> int | None:
    """Where in a list the element named by `step` is."""
    wanted = msgspec.json.decode(step[2:])
    for index, element in enumerate(elements):
        if step[0] == "v":
            if element == wanted:
                return index
        elif isinstance(element, dict) and all(
            element.get(key, KEY_DEFAULTS.get(key)) == value for key, value in wanted.items()
        ):
            return index
    return None


def to_wire(places: FieldSet) -> dict[str, Any]:
    """As `fieldsV1` has it: nested, with `.` where an inner place is owned itself."""
    tree: dict[str, Any] = {}
    nodes = []
    for place in sorted(places):
        node = tree
        for step in place:
            node = node.setdefault(step, {})
        nodes.append(node)
    for node in nodes:
        if node:
            node["."] = {}
    return tree


def from_wire(tree: dict[str, Any]) -> FieldSet:
    """The set that `fieldsV1` stands for."""
    places: FieldSet = set()

    def visit(node: dict[str, Any], at: Place) -> None:
        if (not node and at) or "." in node:
            places.add(at)
        for step, child in node.items():
            if step != "." and isinstance(child, dict):
                visit(child, (*at, step))

    visit(tree, ())
    return places


def shown(place: Place) -> str:
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
