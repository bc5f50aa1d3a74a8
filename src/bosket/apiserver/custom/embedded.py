"""Objects inside objects (`x-kubernetes-embedded-resource`): what makes them objects is checked like that of others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from bosket.api.field_error import FieldError, invalid_value, quote, required
from bosket.api.name_rules import service_label_error
from bosket.api.object import ObjectMeta
from bosket.apiserver.custom.schema import Node
from bosket.apiserver.objects.types import struct_fields
from bosket.apiserver.status import WrongType, describe
from bosket.apiserver.store.entry import Doc


def check_embedded(doc: Doc, tree: Node, kind: str, version: str) -> list[str]:
    """Raise where an embedded object's metadata can't be one; remove the fields that no metadata has, and name them."""
    unknown: list[str] = []
    for value, path in embedded_objects(doc, tree, ""):
        for key in ("apiVersion", "kind"):
            if key in value and not isinstance(value[key], str):
                raise _wrong(kind, version, f"{path}.{key}: Invalid value: {quote(value[key])}: must be a string")
        meta = value.get("metadata")
        if meta is None:
            continue
        if not isinstance(meta, dict):
            raise _wrong(kind, version, f"{path}.metadata: expected an object, got {describe(meta)}: {quote(meta)}")
        try:
            msgspec.convert(meta, ObjectMeta)
        except msgspec.ValidationError as error:
            raise _wrong(kind, version, f"{path}.metadata: Invalid value: {quote(meta)}: {error}") from None
        for key in meta.keys() - struct_fields(ObjectMeta).keys():
            del meta[key]
            unknown.append(f"{path}.metadata.{key}")
    return unknown


def _wrong(kind: str, version: str, detail: str) -> WrongType:
    return WrongType(f'{kind} in version "{version}" cannot be handled as a {kind}: {detail}')


def embedded_errors(doc: Doc, tree: Node) -> Iterator[FieldError]:
    """What embedded objects lack."""
    for value, path in embedded_objects(doc, tree, ""):
        api_version, kind = value.get("apiVersion", ""), value.get("kind", "")
        if not api_version:
            yield required(f"{path}.apiVersion")
        elif api_version.count("/") > 1:
            yield invalid_value(f"{path}.apiVersion", api_version, f"unexpected GroupVersion string: {api_version}")
        if not kind:
            yield required(f"{path}.kind")
        elif error := service_label_error(kind.lower()):
            detail = f"may have mixed case, but should otherwise match: {error}"
            yield invalid_value(f"{path}.kind", kind, detail)


def embedded_objects(value: Any, node: Node, path: str) -> Iterator[tuple[Doc, str]]:
    """All embedded objects in an object, with where they are."""
    if not node.embedded_below:
        return
    if isinstance(value, dict):
        if node.embedded:
            yield value, path
        for key, entry in value.items():
            child = node.child(key)
            if child is not None:
                yield from embedded_objects(entry, child, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            yield from embedded_objects(item, node.items, f"{path}[{index}]")
