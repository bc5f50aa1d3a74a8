"""Manifests as the operator applies them: plain data with only the fields that it owns.

Server-side apply leaves fields alone that the server or other managers set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from bosket.api.keys import APP_LABEL
from bosket.api.object import KubeObject
from bosket.api.quantity import InvalidQuantity, to_milli
from bosket.api.resource import AnyResource

Manifest = dict[str, Any]

MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
#: By which the operator knows its objects; KAI's, so that what KAI's operator left behind is looked after.
MANAGER: Final = "kai-operator"
#: Says which version of a manifest an object was made from: a field that is no longer in it must go.
APPLIED_ANNOTATION: Final = "bosket.dev/applied"


def owner_reference(resource: AnyResource, owner: KubeObject) -> Manifest:
    """Who the object belongs to: it goes when the owner does."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def manifest(
    api_version: str,
    kind: str,
    name: str,
    namespace: str,
    content: Mapping[str, Any] | None = None,
    *,
    app: str = "",
    labels: Mapping[str, str] | None = None,
) -> Manifest:
    """An object of the operator's; `app` is the operand that it belongs to, by default the one of its own name."""
    metadata: Manifest = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {APP_LABEL: app or name, MANAGED_BY_LABEL: MANAGER, **(labels or {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **(content or {})}


def finished(manifest: Manifest, owner: Manifest) -> Manifest:
    """With its owner and the mark of this version."""
    metadata = {**manifest["metadata"], "ownerReferences": [owner]}
    whole = {**manifest, "metadata": metadata}
    mark = digest(whole)
    return {
        **whole,
        "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), APPLIED_ANNOTATION: mark}},
    }


def digest(content: Any) -> str:
    """A short text that is another one when the content is."""
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:16]


def shows(live: Any, wanted: Any) -> bool:
    """Whether all that is wanted is so. What else is there, by a server's or by others' doing, doesn't matter."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(name in live and shows(live[name], each) for name, each in wanted.items())
    if isinstance(wanted, list | tuple):
        return (
            isinstance(live, list | tuple)
            and len(live) == len(wanted)
            and all(shows(left, right) for left, right in zip(live, wanted, strict=True))
        )
    return bool(live == wanted) or _same_amount(live, wanted)


def _same_amount(live: Any, wanted: Any) -> bool:
    """Servers write quantities in a form of their own: 0.1 as 100m."""
    if not isinstance(live, str) or not isinstance(wanted, str | int | float) or isinstance(wanted, bool):
        return False
    try:
        return to_milli(live) == to_milli(str(wanted))
    except (InvalidQuantity, ValueError):
        return False
