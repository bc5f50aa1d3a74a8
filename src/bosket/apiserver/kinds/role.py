"""Roles and bindings: what is filled in, and their rules."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import msgspec

from bosket.api.field_error import FieldError, invalid_value, not_supported, required
from bosket.api.name_rules import path_segment_error, subdomain_error
from bosket.api.object import LabelSelector
from bosket.apiserver.kinds.builtin import Behaviour
from bosket.apiserver.store.entry import Doc
from bosket.kube.selector import InvalidSelector, label_selector

_GROUP: Final = "rbac.authorization.k8s.io"


def _validate_role(new: Doc, _old: Doc | None, *, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, rule in enumerate(new.get("rules") or ()):
        errors += _validate_rule(rule, f"rules[{index}]", namespaced=namespaced)
    aggregation = new.get("aggregationRule")
    if aggregation is not None:
        field = "aggregationRule.clusterRoleSelectors"
        selectors = aggregation.get("clusterRoleSelectors") or ()
        if not selectors:
            errors.append(required(field, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
        for index, selector in enumerate(selectors):
            try:
                label_selector(msgspec.convert(selector, LabelSelector))
            except (InvalidSelector, msgspec.ValidationError) as error:
                errors.append(invalid_value(f"{field}[{index}]", selector, str(error)))
    return errors


def _validate_rule(rule: dict[str, Any], field: str, *, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if not rule.get("verbs"):
        errors.append(required(f"{field}.verbs", "verbs must contain at least one value"))
    if urls := rule.get("nonResourceURLs"):
        where = f"{field}.nonResourceURLs"
        if namespaced:
            errors.append(invalid_value(where, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid_value(where, urls, detail))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(f"{field}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{field}.resources", "resource rules must supply at least one resource"))
    return errors


def _default_binding(doc: Doc) -> None:
    role = doc.get("roleRef")
    if role is not None and not role.get("apiGroup"):
        role["apiGroup"] = _GROUP
    for subject in doc.get("subjects") or ():
        if not subject.get("apiGroup"):
            subject.pop("apiGroup", None)
            if subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = _GROUP


def _validate_binding(new: Doc, old: Doc | None, *, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    role = new.get("roleRef") or {}
    group, kind, name = role.get("apiGroup", ""), role.get("kind", ""), role.get("name", "")
    if group != _GROUP:
        errors.append(not_supported("roleRef.apiGroup", group, [_GROUP]))
    kinds = ["ClusterRole", "Role"] if namespaced else ["ClusterRole"]
    if kind not in kinds:
        errors.append(not_supported("roleRef.kind", kind, kinds))
    if not name:
        errors.append(required("roleRef.name"))
    elif problem := path_segment_error(name):
        errors.append(invalid_value("roleRef.name", name, problem))
    for index, subject in enumerate(new.get("subjects") or ()):
        errors += _validate_subject(subject, f"subjects[{index}]", namespaced=namespaced)
    if old is not None and role != old.get("roleRef"):
        errors.append(invalid_value("roleRef", role, "field is immutable"))
    return errors


def _validate_subject(subject: dict[str, Any], field: str, *, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    name, group, kind = subject.get("name", ""), subject.get("apiGroup", ""), subject.get("kind", "")
    if not name:
        errors.append(required(f"{field}.name"))
    if kind == "ServiceAccount":
        if name and (problem := subdomain_error(name)):
            errors.append(invalid_value(f"{field}.name", name, problem))
        if group:
            errors.append(not_supported(f"{field}.apiGroup", group, [""]))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(f"{field}.namespace"))
    elif kind in ("User", "Group"):
        if group != _GROUP:
            errors.append(not_supported(f"{field}.apiGroup", group, [_GROUP]))
    else:
        errors.append(not_supported(f"{field}.kind", kind, ["Group", "ServiceAccount", "User"]))
    return errors


def _role(*, namespaced: bool) -> Behaviour:
    return Behaviour(validate_name=path_segment_error, validate=partial(_validate_role, namespaced=namespaced))


def _binding(*, namespaced: bool) -> Behaviour:
    return Behaviour(
        validate_name=path_segment_error,
        default=_default_binding,
        validate=partial(_validate_binding, namespaced=namespaced),
    )


BEHAVIOURS = {
    (_GROUP, "Role"): _role(namespaced=True),
    (_GROUP, "ClusterRole"): _role(namespaced=False),
    (_GROUP, "RoleBinding"): _binding(namespaced=True),
    (_GROUP, "ClusterRoleBinding"): _binding(namespaced=False),
}
