"""Rules for pods, on creation and on change."""

from __future__ import annotations

from bosket.apiserver.status import FieldError, required
from bosket.apiserver.store import Doc


def validate_pod(new: Doc, old: Doc | None) -> list[FieldError]:
    """All rules for pods."""
    if not new["spec"].get("containers"):
        return [required("spec.containers")]
    return []
