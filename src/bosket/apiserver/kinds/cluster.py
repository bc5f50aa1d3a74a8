"""Nodes, priority classes, disruption budgets, volumes: what pods meet in a cluster."""

from __future__ import annotations

import re
from typing import Any, Final

from bosket.api.field_error import FieldError, forbidden_field, invalid_value, not_supported, required
from bosket.api.name_rules import label_key_error
from bosket.apiserver.kinds.builtin import Behaviour
from bosket.apiserver.kinds.paths import paths
from bosket.apiserver.kinds.resourcerules import canonicalise
from bosket.apiserver.kinds.workload import validate_label_selector
from bosket.apiserver.store.entry import Doc

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
#: Priorities from here up are the system's.
HIGHEST_USER_PRIORITY = 1_000_000_000
_PERCENTAGE: Final = re.compile(r"[0-9]+%")


# nodes


def _default_node(doc: Doc) -> None:
    doc.setdefault("spec", {})
    status = doc.get("status", {})
    for key in ("capacity", "allocatable"):
        if key in status:
            canonicalise(status[key])
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))


def _keep_status(doc: Doc) -> None:
    """A kubelet registers its node with what it has; no other kind is created with a status."""
    doc.setdefault("status", {})


def _validate_node(new: Doc, _old: Doc | None) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, taint in enumerate(new.get("spec", {}).get("taints", ())):
        path = f"spec.taints[{index}]"
        if problem := label_key_error(taint.get("key", "")):
            errors.append(invalid_value(f"{path}.key", taint.get("key", ""), problem))
        if taint.get("effect") not in _EFFECTS:
            errors.append(not_supported(f"{path}.effect", taint.get("effect", ""), _EFFECTS))
    return errors


# priority classes


def _default_priority_class(doc: Doc) -> None:
    doc.setdefault("value", 0)
    doc.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _validate_priority_class(new: Doc, old: Doc | None) -> list[FieldError]:
    errors: list[FieldError] = []
    name, value = new["metadata"]["name"], new["value"]
    if value > HIGHEST_USER_PRIORITY and not name.startswith("system-"):
        errors.append(
            forbidden_field("value", f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}")
        )
    policies = ("PreemptLowerPriority", "Never")
    if new["preemptionPolicy"] not in policies:
        errors.append(not_supported("preemptionPolicy", new["preemptionPolicy"], policies))
    if old is not None:
        if value != old["value"]:
            errors.append(forbidden_field("value", "may not be changed in an update."))
        if new["preemptionPolicy"] != old["preemptionPolicy"]:
            errors.append(invalid_value("preemptionPolicy", new["preemptionPolicy"], "field is immutable"))
    return errors


# disruption budgets


def _prepare_budget(doc: Doc) -> None:
    doc["status"] = {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}


def _validate_budget(new: Doc, _old: Doc | None) -> list[FieldError]:
    spec = new.get("spec", {})
    errors: list[FieldError] = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        errors.append(
            invalid_value(
                "spec",
                {key: spec[key] for key in ("minAvailable", "maxUnavailable")},
                "minAvailable and maxUnavailable cannot be both set",
            )
        )
    for key in ("minAvailable", "maxUnavailable"):
        value = spec.get(key)
        if isinstance(value, int) and value < 0:
            errors.append(invalid_value(f"spec.{key}", value, "must be greater than or equal to 0"))
        if isinstance(value, str) and not _PERCENTAGE.fullmatch(value):
            errors.append(invalid_value(f"spec.{key}", value, "must be an integer or a percentage (e.g. '5%')"))
        elif isinstance(value, str) and len(value.lstrip("0")) > 3 and value.lstrip("0") != "100%":
            errors.append(invalid_value(f"spec.{key}", value, "must not be greater than 100%"))
    return errors + validate_label_selector(spec.get("selector") or {}, "spec.selector")


# volumes


def _default_volume(doc: Doc) -> None:
    spec = doc.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if "capacity" in spec:
        canonicalise(spec["capacity"])


def _default_claim(doc: Doc) -> None:
    spec = doc.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    for quantities in spec.get("resources", {}).values():
        if isinstance(quantities, dict):
            canonicalise(quantities)


def _pending(doc: Doc) -> None:
    doc["status"] = {"phase": "Pending"}


def _validate_claim(new: Doc, old: Doc | None) -> list[FieldError]:
    spec = new["spec"]
    errors: list[FieldError] = []
    if not spec.get("accessModes"):
        errors.append(required("spec.accessModes", "at least 1 access mode is required"))
    if not spec.get("resources", {}).get("requests", {}).get("storage"):
        errors.append(required("spec.resources[storage]"))
    if old is not None:
        fixed: list[dict[str, Any]] = [
            {key: value for key, value in each.items() if key not in ("resources", "volumeAttributesClassName")}
            for each in (spec, old["spec"])
        ]
        if not old["spec"].get("volumeName"):  # the binder of volumes fills these in
            for each in fixed:
                each.pop("volumeName", None)
                each.pop("storageClassName", None)
        if fixed[0] != fixed[1]:
            errors.append(
                forbidden_field(
                    "spec",
                    "spec is immutable after creation except resources.requests and "
                    "volumeAttributesClassName for bound claims",
                )
            )
    return errors


def _default_storage_class(doc: Doc) -> None:
    doc.setdefault("reclaimPolicy", "Delete")
    doc.setdefault("volumeBindingMode", "Immediate")


def _default_autoscaler(doc: Doc) -> None:
    doc.setdefault("spec", {}).setdefault("minReplicas", 1)


BEHAVIOURS = {
    ("", "Node"): Behaviour(
        default=_default_node,
        prepare_create=_keep_status,
        validate=_validate_node,
        selectable={"spec.unschedulable": lambda doc: doc.get("spec", {}).get("unschedulable", False)},
    ),
    ("scheduling.k8s.io", "PriorityClass"): Behaviour(
        default=_default_priority_class,
        validate=_validate_priority_class,
        selectable=paths("globalDefault"),
        generation=True,
    ),
    ("policy", "PodDisruptionBudget"): Behaviour(
        prepare_create=_prepare_budget, validate=_validate_budget, generation=True
    ),
    ("", "PersistentVolume"): Behaviour(default=_default_volume, prepare_create=_pending, returns_deleted=True),
    ("", "PersistentVolumeClaim"): Behaviour(
        default=_default_claim, prepare_create=_pending, validate=_validate_claim, returns_deleted=True
    ),
    ("storage.k8s.io", "StorageClass"): Behaviour(default=_default_storage_class),
    ("autoscaling", "HorizontalPodAutoscaler"): Behaviour(default=_default_autoscaler, generation=True),
}
