"""Pieces that columns are made of: reading a cell from an object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from bosket.api.object import LabelSelector
from bosket.apiserver.objects.kind import Column
from bosket.apiserver.store.entry import Doc
from bosket.kube.selector import InvalidSelector, label_selector

NONE, UNKNOWN, UNSET = "<none>", "<unknown>", "<unset>"
WIDE = 1


def at(doc: Any, path: str, default: Any = None) -> Any:
    """The value at a dotted path, `default` where there is none."""
    for key in path.split("."):
        if not isinstance(doc, dict):
            return default
        doc = doc.get(key)
        if doc is None:
            return default
    return doc


def field(name: str, path: str, default: Any = NONE, *, type: str = "string", priority: int = 0) -> Column:
    """A column that shows a field as it is."""
    return Column(name, lambda doc, _now: at(doc, path, default), type=type, priority=priority)


def cell(name: str, read: Callable[[Doc], object], *, type: str = "string", priority: int = 0) -> Column:
    """A column whose cells don't depend on the time."""
    return Column(name, lambda doc, _now: read(doc), type=type, priority=priority)


def joined(values: Any) -> str:
    """Values on one line."""
    return ",".join(values) if values else NONE


def containers(path: str) -> tuple[Column, Column]:
    """Names and images of a template's containers."""

    def names(doc: Doc) -> str:
        return joined([each["name"] for each in at(doc, path, ())])

    def images(doc: Doc) -> str:
        return joined([each.get("image", "") for each in at(doc, path, ())])

    return cell("Containers", names, priority=WIDE), cell("Images", images, priority=WIDE)


def selector_text(selector: Any) -> str:
    """A label selector on one line."""
    if not selector:
        return NONE
    try:
        return str(label_selector(msgspec.convert(selector, LabelSelector)))
    except (InvalidSelector, msgspec.ValidationError):
        return "<error>"


def selector(path: str = "spec.selector") -> Column:
    """The column that shows a label selector."""
    return cell("Selector", lambda doc: selector_text(at(doc, path)), priority=WIDE)


def map_text(values: dict[str, Any] | None) -> str:
    """`key=value` pairs on one line."""
    return ",".join(f"{key}={value}" for key, value in sorted(values.items())) if values else NONE
