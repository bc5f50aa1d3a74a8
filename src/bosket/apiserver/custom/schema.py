"""A structural schema as a tree of nodes, and what can be done by walking an object along it: pruning and defaulting.

Built once for each version of a definition. Constraints are checked elsewhere (`check.py`, `rules.py`).
"""

from __future__ import annotations

from typing import Any

import msgspec

_decode = msgspec.json.decode
#: An object inside an object has these whatever its schema says.
_EMBEDDED_FIELDS = ("apiVersion", "kind", "metadata")


class Node:
    """What a schema says about one place in an object."""

    __slots__ = (
        "additional",
        "default",
        "defaults_below",
        "embedded",
        "items",
        "keyed_below",
        "list_keys",
        "list_type",
        "nullable",
        "preserve",
        "properties",
        "raw",
        "rules",
        "rules_below",
        "type",
    )

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self.type: str = raw.get("type", "")
        self.nullable: bool = raw.get("nullable", False)
        self.preserve: bool = raw.get("x-kubernetes-preserve-unknown-fields", False)
        self.embedded: bool = raw.get("x-kubernetes-embedded-resource", False)
        self.list_type: str = raw.get("x-kubernetes-list-type", "atomic")
        self.list_keys: tuple[str, ...] = tuple(raw.get("x-kubernetes-list-map-keys", ()))
        #: encoded, so that every object gets a copy of its own
        self.default: bytes | None = msgspec.json.encode(raw["default"]) if "default" in raw else None
        self.properties = {name: Node(child) for name, child in raw.get("properties", {}).items()}
        additional = raw.get("additionalProperties")
        if additional is True:
            additional = {"x-kubernetes-preserve-unknown-fields": True}
        self.additional = Node(additional) if isinstance(additional, dict) else None
        self.items = Node(raw["items"]) if isinstance(raw.get("items"), dict) else None
        self.rules: list[dict[str, Any]] = raw.get("x-kubernetes-validations", [])
        children = self.children()
        self.defaults_below: bool = any(child.default is not None or child.defaults_below for child in children)
        self.keyed_below: bool = self.list_type in ("map", "set") or any(child.keyed_below for child in children)
        self.rules_below: bool = bool(self.rules) or any(child.rules_below for child in children)

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


def drop_nulls(value: Any, node: Node) -> None:
    """Remove nulls where the schema doesn't allow them: there they mean "not set", and defaults apply."""
    if isinstance(value, dict):
        for key in list(value):
            child = node.child(key)
            if value[key] is None:
                if child is not None and not child.nullable and not child.preserve and child.type:
                    del value[key]
            elif child is not None and isinstance(value[key], dict | list):
                drop_nulls(value[key], child)
    elif isinstance(value, list) and node.items is not None:
        for item in value:
            if isinstance(item, dict | list):
                drop_nulls(item, node.items)


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
