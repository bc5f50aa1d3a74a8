"""Config maps, secrets, leases: small kinds without a controller."""

from __future__ import annotations

import base64
import binascii

from bosket.api.field_error import FieldError, forbidden_field, invalid_value
from bosket.apiserver.kinds.builtin import Behaviour
from bosket.apiserver.kinds.paths import paths
from bosket.apiserver.store.entry import Doc

_MAX_BYTES = 1024 * 1024


def _validate_immutable(new: Doc, old: Doc | None, keys: tuple[str, ...]) -> list[FieldError]:
    if old is None or not old.get("immutable"):
        return []
    errors = []
    if not new.get("immutable"):
        errors.append(forbidden_field("immutable", "field is immutable when `immutable` is set"))
    for key in keys:
        if new.get(key) != old.get(key):
            errors.append(forbidden_field(key, "field is immutable when `immutable` is set"))
    return errors


def _validate_config_map(new: Doc, old: Doc | None) -> list[FieldError]:
    errors = _validate_immutable(new, old, ("data", "binaryData"))
    size = sum(len(value) for value in (*new.get("data", {}).values(), *new.get("binaryData", {}).values()))
    if size > _MAX_BYTES:
        errors.append(FieldError("", "FieldValueTooLong", f"Too long: may not be more than {_MAX_BYTES} bytes"))
    return errors


def _default_secret(doc: Doc) -> None:
    doc.setdefault("type", "Opaque")
    text = doc.pop("stringData", None)
    if text:
        data = doc.setdefault("data", {})
        for key, value in text.items():
            data[key] = base64.b64encode(value.encode()).decode()


def _validate_secret(new: Doc, old: Doc | None) -> list[FieldError]:
    errors = _validate_immutable(new, old, ("data",))
    for key, value in new.get("data", {}).items():
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            errors.append(invalid_value(f"data[{key}]", "<hidden>", "must be base64"))
    if old is not None and new["type"] != old["type"]:
        errors.append(invalid_value("type", new["type"], "field is immutable"))
    return errors


BEHAVIOURS = {
    ("", "ConfigMap"): Behaviour(validate=_validate_config_map),
    ("", "Secret"): Behaviour(default=_default_secret, validate=_validate_secret, selectable=paths("type")),
    ("", "ServiceAccount"): Behaviour(returns_deleted=True),
    ("coordination.k8s.io", "Lease"): Behaviour(create_on_update=True, unconditional_update=False),
}
