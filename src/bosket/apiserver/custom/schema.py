"""A structural schema as a tree of nodes, and what can be done by walking an object along it: pruning and defaulting.

Built once for each version of a definition. Constraints are checked elsewhere (`check`, `rules`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import msgspec

from bosket.kube.patch import hash_key

#: Stands for a value that isn't there, where null would be one.
ABSENT: Any = object()
_decode = msgspec.json.decode
#: From here on, numbers are written with an exponent.
_LARGEST_WHOLE = 1e21
#: An object inside an object has these whatever its schema says.
_EMBEDDED_FIELDS = ("apiVersion", "kind", "metadata")


class Node:
    """What a schema says about one place in an object."""

    __slots__ = (
        "additional",
        "default",
        "defaults_below",
        "embedded",
        "embedded_below",
        "items",
        "keyed_below",
        "list_keys",
        "list_type",
        "nullable",
        "preserve",
        "properties",
        "raw",
        "rule_count",
        "rules",
        "rules_below",
        "type",
        "typed",
    )

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self.type: str = raw.get("type", "")
        #: whether null could not be meant
        self.typed: bool = bool(self.type or raw.get("x-kubernetes-int-or-string")) and not raw.get(
            "x-kubernetes-preserve-unknown-fields"
        )
        self.nullable: bool = raw.get("nullable", False)
        self.preserve: bool = raw.get("x-kubernetes-preserve-unknown-fields", False)
        self.embedded: bool = raw.get("x-kubernetes-embedded-resource", False)
        self.list_type: str = raw.get("x-kubernetes-list-type") or "atomic"
        self.list_keys: tuple[str, ...] = tuple(raw.get("x-kubernetes-list-map-keys") or ())
        #: encoded, so that every object gets a copy of its own
        default = raw.get("default")
        self.default: bytes | None = None if default is None else msgspec.json.encode(default)
        self.properties = {name: Node(child) for name, child in (raw.get("properties") or {}).items()}
        additional = raw.get("additionalProperties")
        if additional is True:
            additional = {"x-kubernetes-preserve-unknown-fields": True}
        self.additional = Node(additional) if isinstance(additional, dict) else None
        self.items = Node(raw["items"]) if isinstance(raw.get("items"), dict) else None
        self.rules: list[dict[str, Any]] = raw.get("x-kubernetes-validations") or []
        children = self.children()
        self.defaults_below: bool = any(child.default is not None or child.defaults_below for child in children)
        self.embedded_below: bool = self.embedded or any(child.embedded_below for child in children)
        self.keyed_below: bool = self.list_type in ("map", "set") or any(child.keyed_below for child in children)
        #: rules here and below
        self.rule_count: int = len(self.rules) + sum(child.rule_count for child in children)
        self.rules_below: bool = self.rule_count > 0

    def children(self) -> list[Node]:
        found = list(self.properties.values())
        if self.additional is not None:
            found.append(self.additional)
        if self.items is not None:
            found.append(self.items)
        return found

    def child(self, key: str) -> Node | None:
        """The node of a key of an object."""
        return self.properties.get(key, self.additional)


def prune(value: Any, node: Node, path: str, unknown: list[str], *, root: bool = False) -> None:
    """Remove what the schema doesn't know, and say where it was."""
    if isinstance(value, dict):
        for key in list(value):
            below = f"{path}.{key}" if path else key
            if (root or node.embedded) and key in _EMBEDDED_FIELDS:
                continue
            child = node.child(key)
            if child is not None:
                if isinstance(value[key], dict | list):
                    prune(value[key], child, below, unknown)
            elif not node.preserve:
                unknown.append(below)
                del value[key]
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            if isinstance(item, dict | list):
                prune(item, node.items, f"{path}[{index}]", unknown)


def normalize(value: Any, node: Node) -> None:
    """Remove nulls where the schema doesn't allow them: there they mean "not set", and defaults apply.

    Whole numbers become integers, however they were written: 1.0 is 1.
    """
    if isinstance(value, dict):
        for key in list(value):
            child, entry = node.child(key), value[key]
            if entry is None:
                if child is not None and not child.nullable and child.typed:
                    del value[key]
            elif isinstance(entry, float):
                value[key] = _whole(entry)
            elif child is not None and isinstance(entry, dict | list):
                normalize(entry, child)
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            if isinstance(item, float):
                value[index] = _whole(item)
            elif isinstance(item, dict | list):
                normalize(item, node.items)


def _whole(number: float) -> float:
    return int(number) if number.is_integer() and abs(number) < _LARGEST_WHOLE else number


def apply_defaults(value: Any, node: Node) -> None:
    """Put defaults where something was left out; also below defaults that were put in."""
    if not node.defaults_below:
        return
    if isinstance(value, dict):
        for key, child in node.properties.items():
            if child.default is not None and key not in value:
                value[key] = _decode(child.default)
        for key, entry in value.items():
            known = node.child(key)
            if known is not None and known.defaults_below:
                apply_defaults(entry, known)
    elif isinstance(value, list) and node.items is not None:
        for item in value:
            apply_defaults(item, node.items)


class Correlation:
    """Finds the old state of parts of one object. Made for one check of one object, which must not change meanwhile.

    Each old list is indexed once, and two parts are compared once, however many elements or errors there are: what is
    asked about every element of a long list costs no more than the list is long.
    """

    def __init__(self) -> None:
        # By the identity of what they are about; the second part keeps that alive, so that no other gets its identity.
        self._indexes: dict[tuple[int, int], tuple[list[Any], dict[Hashable, Any]]] = {}
        self._same: dict[tuple[int, int], tuple[Any, Any, bool]] = {}

    def counterpart(self, node: Node, item: Any, old: Any) -> Any:
        """The element of an old list that `item` is the new state of: the one with its keys, if elements have keys."""
        if not isinstance(old, list) or node.list_type != "map" or not isinstance(item, dict):
            return ABSENT
        known = self._indexes.get((id(old), id(node)))
        if known is None:
            index: dict[Hashable, Any] = {}
            for each in old:
                if isinstance(each, dict):
                    index.setdefault(_keys_of(each, node), each)
            known = self._indexes[id(old), id(node)] = old, index
        return known[1].get(_keys_of(item, node), ABSENT)

    def same(self, new: Any, old: Any) -> bool:
        """Whether two parts are equal."""
        if not isinstance(new, dict | list):
            return bool(new == old)
        known = self._same.get((id(new), id(old)))
        if known is None:
            known = self._same[id(new), id(old)] = new, old, bool(new == old)
        return known[2]

    def is_unchanged(self, new: Any, old: Any, node: Node | None, steps: Sequence[str | int]) -> bool:
        """Whether the place that `steps` lead to, or something around it, is as it was."""
        for step in steps:
            if self.same(new, old):
                return True
            if node is None:
                return False
            if isinstance(step, int):
                old = self.counterpart(node, new[step], old)
                node = node.items
            else:
                old = old.get(step, ABSENT) if isinstance(old, dict) else ABSENT
                node = node.child(step)
            if old is ABSENT:
                return False
            new = new[step]
        return self.same(new, old)


def _keys_of(item: dict[str, Any], node: Node) -> Hashable:
    return tuple([hash_key(item.get(key)) for key in node.list_keys])


def find_duplicates(value: Any, node: Node, path: str, found: list[tuple[str, Any]]) -> None:
    """Elements of keyed lists that have the same key, and of sets that are equal."""
    if not node.keyed_below:
        return
    if isinstance(value, dict):
        for key, entry in value.items():
            child = node.child(key)
            if child is not None and isinstance(entry, dict | list):
                find_duplicates(entry, child, f"{path}.{key}" if path else key, found)
    elif isinstance(value, list):
        seen = set()
        for index, item in enumerate(value):
            here = f"{path}[{index}]"
            if node.list_type == "map" and isinstance(item, dict):
                shown: Any = {key: item[key] for key in node.list_keys if key in item}
            elif node.list_type == "set":
                shown = item
            else:
                shown = None
            if shown is not None:
                identity = msgspec.json.encode(shown)
                if identity in seen:
                    found.append((here, shown))
                seen.add(identity)
            if node.items is not None and isinstance(item, dict | list):
                find_duplicates(item, node.items, here, found)
