"""Dynamic resource allocation: claims, their templates, device classes and what drivers offer."""

from __future__ import annotations

from typing import Any

from bosket.api.field_error import FieldError, duplicate, invalid_value, not_supported, required
from bosket.apiserver.kinds.builtin import Behaviour
from bosket.apiserver.store.entry import Doc

_GROUP = "resource.k8s.io"
_MODES = ("All", "ExactCount")
_IMMUTABLE = "field is immutable"
#: How many users a claim can have, and how many devices an allocation.
_MOST_USERS = 256
_MOST_DEVICES = 32


def _default_spec(spec: dict[str, Any]) -> None:
    for request in spec.get("devices", {}).get("requests", ()):
        for asked in (request.get("exactly"), *request.get("firstAvailable", ())):
            if isinstance(asked, dict):
                mode = asked.setdefault("allocationMode", "ExactCount")
                if mode == "ExactCount":
                    asked.setdefault("count", 1)


def _default_claim(doc: Doc) -> None:
    _default_spec(doc.setdefault("spec", {}))


def _default_template(doc: Doc) -> None:
    _default_spec(doc.setdefault("spec", {}).setdefault("spec", {}))


def _check_spec(spec: dict[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for place, request in enumerate(spec.get("devices", {}).get("requests", ())):
        where = f"{path}.devices.requests[{place}]"
        name = request.get("name", "")
        if not name:
            errors.append(required(f"{where}.name"))
        elif name in names:
            errors.append(duplicate(f"{where}.name", name))
        names.add(name)
        exactly, ways = request.get("exactly"), request.get("firstAvailable", ())
        if bool(exactly) == bool(ways):
            errors.append(required(where, "exactly one of `exactly` or `firstAvailable` is required"))
        if exactly:
            errors += _check_asked(exactly, f"{where}.exactly")
        for number, way in enumerate(ways):
            errors += _check_asked(way, f"{where}.firstAvailable[{number}]")
    return errors


def _check_asked(asked: dict[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    mode, count = asked.get("allocationMode"), asked.get("count", 0)
    if not asked.get("deviceClassName"):
        errors.append(required(f"{path}.deviceClassName"))
    if mode not in _MODES:
        errors.append(not_supported(f"{path}.allocationMode", mode, _MODES))
    elif mode == "ExactCount" and count <= 0:
        errors.append(invalid_value(f"{path}.count", count, "must be greater than zero"))
    elif mode == "All" and count:
        errors.append(invalid_value(f"{path}.count", count, "must not be specified when allocationMode is 'All'"))
    return errors


def _validate_claim(new: Doc, old: Doc | None) -> list[FieldError]:
    if old is not None and new.get("spec") != old.get("spec"):
        return [invalid_value("spec", new.get("spec"), _IMMUTABLE)]
    return _check_spec(new["spec"], "spec")


def _validate_claim_status(new: Doc, old: Doc | None) -> list[FieldError]:
    status, before = new.get("status") or {}, (old or {}).get("status") or {}
    allocation, users = status.get("allocation"), status.get("reservedFor", ())
    errors: list[FieldError] = []
    if users and allocation is None:
        errors.append(invalid_value("status.reservedFor", users, "may not be specified when `allocated` is not set"))
    if len(users) > _MOST_USERS:
        errors.append(invalid_value("status.reservedFor", len(users), f"must have at most {_MOST_USERS} items"))
    if allocation is not None and before.get("allocation", allocation) != allocation:
        errors.append(invalid_value("status.allocation", allocation, _IMMUTABLE))
    results = (allocation or {}).get("devices", {}).get("results", ())
    if len(results) > _MOST_DEVICES:
        path = "status.allocation.devices.results"
        errors.append(invalid_value(path, len(results), f"must have at most {_MOST_DEVICES} items"))
    return errors


def _validate_template(new: Doc, old: Doc | None) -> list[FieldError]:
    if old is not None and new.get("spec") != old.get("spec"):
        return [invalid_value("spec", new.get("spec"), _IMMUTABLE)]
    return _check_spec(new["spec"]["spec"], "spec.spec")


def _validate_slice(new: Doc, old: Doc | None) -> list[FieldError]:
    spec = new.get("spec", {})
    errors = [required(f"spec.{field}") for field in ("driver", "pool") if not spec.get(field)]
    for field in ("driver", "nodeName"):
        if old is not None and spec.get(field) != old.get("spec", {}).get(field):
            errors.append(invalid_value(f"spec.{field}", spec.get(field), _IMMUTABLE))
    places = [key for key in ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection") if spec.get(key)]
    if len(places) != 1:
        detail = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
        errors.append(required("spec", detail) if not places else invalid_value("spec", ", ".join(places), detail))
    return errors


BEHAVIOURS = {
    (_GROUP, "ResourceClaim"): Behaviour(
        default=_default_claim, validate=_validate_claim, validate_status=_validate_claim_status
    ),
    (_GROUP, "ResourceClaimTemplate"): Behaviour(default=_default_template, validate=_validate_template),
    (_GROUP, "ResourceSlice"): Behaviour(
        validate=_validate_slice,
        generation=True,
        selectable={
            "spec.nodeName": lambda doc: doc.get("spec", {}).get("nodeName", ""),
            "spec.driver": lambda doc: doc.get("spec", {}).get("driver", ""),
        },
    ),
    (_GROUP, "DeviceClass"): Behaviour(generation=True),
}
