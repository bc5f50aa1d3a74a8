"""The gang API: pod groups, groups of them, and workloads, which hold their templates."""

from __future__ import annotations

from typing import Any

from bosket.api.field_error import FieldError, invalid_value, required, too_many
from bosket.apiserver.kinds.builtin import Behaviour
from bosket.apiserver.store.entry import Doc

_GROUP = "scheduling.k8s.io"
_POLICIES = ("basic", "gang")
_IMMUTABLE = "field is immutable"
#: How many templates a Workload may have on one level.
_MOST_TEMPLATES = 8


def _validate_group(new: Doc, old: Doc | None) -> list[FieldError]:
    """A PodGroup or a CompositePodGroup: of its spec only the minimum may change."""
    spec = new.get("spec", {})
    errors = _validate_scheduling(spec, "spec")
    if spec.get("parentCompositePodGroupName") and not spec.get("workloadRef"):
        errors.append(required("spec.workloadRef", "must be set when parentCompositePodGroupName is set"))
    if old is not None:
        before = old.get("spec", {})
        for key in sorted(spec.keys() | before.keys()):
            if key == "schedulingPolicy":
                errors += _validate_policy_change(spec.get(key, {}), before.get(key, {}))
            elif spec.get(key) != before.get(key):
                errors.append(invalid_value(f"spec.{key}", spec.get(key), _IMMUTABLE))
    return errors


def _validate_policy_change(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    path = "spec.schedulingPolicy"
    if "gang" in old and "gang" not in new:
        return [invalid_value(f"{path}.gang", None, "field cannot be cleared once set")]
    if "gang" in new and "gang" not in old:
        return [invalid_value(f"{path}.gang", new["gang"], "field cannot be set once created")]
    if new.get("basic") != old.get("basic"):
        return [invalid_value(f"{path}.basic", new.get("basic"), _IMMUTABLE)]
    return []


def _validate_workload(new: Doc, _old: Doc | None) -> list[FieldError]:
    return _validate_templates(new.get("spec", {}), "spec")


def _validate_templates(holder: dict[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in ("podGroupTemplates", "compositePodGroupTemplates"):
        templates = holder.get(key, ())
        if len(templates) > _MOST_TEMPLATES:
            errors.append(too_many(f"{path}.{key}", len(templates), _MOST_TEMPLATES))
        for index, template in enumerate(templates):
            errors += _validate_scheduling(template, f"{path}.{key}[{index}]")
            if key == "compositePodGroupTemplates":
                errors += _validate_templates(template, f"{path}.{key}[{index}]")
    return errors


def _validate_scheduling(spec: dict[str, Any], path: str) -> list[FieldError]:
    """What groups and their templates have in common: a policy and constraints."""
    errors: list[FieldError] = []
    policy = spec.get("schedulingPolicy", {})
    chosen = [name for name in _POLICIES if policy.get(name) is not None]
    if len(chosen) != 1:
        one = "exactly one of" if chosen else "one of"
        detail = f"must specify {one}: `basic`, `gang`"
        errors.append(invalid_value(f"{path}.schedulingPolicy", "", detail))
    gang = policy.get("gang") or {}
    for key in ("minCount", "minGroupCount"):
        if gang.get(key, 1) < 1:
            field = f"{path}.schedulingPolicy.gang.{key}"
            errors.append(invalid_value(field, gang[key], "must be greater than or equal to 1"))
    topology = (spec.get("schedulingConstraints") or {}).get("topology", ())
    if len(topology) > 1:
        errors.append(too_many(f"{path}.schedulingConstraints.topology", len(topology), 1))
    return errors


BEHAVIOURS = {
    (_GROUP, "Workload"): Behaviour(validate=_validate_workload, generation=True),
    (_GROUP, "PodGroup"): Behaviour(validate=_validate_group, generation=True),
    (_GROUP, "CompositePodGroup"): Behaviour(validate=_validate_group, generation=True),
}
