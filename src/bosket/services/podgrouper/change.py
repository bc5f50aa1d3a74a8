"""The merge patch between two versions of a PodGroup.

Only what differs is written, and without a condition on the version: status and user edits of other fields may happen
at the same time, and don't conflict with it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bosket.api.kai import PodGroup

Json = dict[str, Any]


def merge_patch_between(before: PodGroup, after: PodGroup) -> Json:
    """The merge patch of metadata and spec from `before` to `after`; empty without a difference."""
    if before.metadata == after.metadata and before.spec == after.spec:
        return {}
    return _difference(_written(before), _written(after))


def _written(group: PodGroup) -> Json:
    content: Json = msgspec.to_builtins(group)
    return {"metadata": content.get("metadata", {}), "spec": content.get("spec", {})}


def _difference(before: Json, after: Json) -> Json:
    patch: Json = dict.fromkeys(key for key in before if key not in after)
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            nested = _difference(old, value)
            if nested:
                patch[key] = nested
        elif old != value or key not in before:
            patch[key] = value
    return patch
