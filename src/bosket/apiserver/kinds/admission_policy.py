"""Validating admission policies and their bindings: what is filled in, and what they must look like."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from bosket.api.field_error import FieldError, duplicate, forbidden_field, invalid_value, not_supported, required
from bosket.api.name_rules import path_segment_error, subdomain_error
from bosket.api.object import LabelSelector
from bosket.apiserver.kinds.builtin import Behaviour
from bosket.apiserver.kinds.expression import expression_errors
from bosket.apiserver.kinds.registration import (
    default_match,
    one_of,
    validate_conditions,
    validate_rule,
    validate_selectors,
)
from bosket.apiserver.store.entry import Doc
from bosket.kube.selector import InvalidSelector, label_selector

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_NOT_FOUND_ACTIONS = ("Deny", "Allow")
_IDENTIFIER = re.compile("[_a-zA-Z][_a-zA-Z0-9]*")
_SEEN = ("object", "oldObject", "request", "namespaceObject")
_NOTHING_TO_DO = "validations or auditAnnotations must contain at least one item"


def _default_policy(doc: Doc) -> None:
    spec = doc.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    if "matchConstraints" in spec:
        default_match(spec["matchConstraints"], "resourceRules", "excludeResourceRules")


def _default_binding(doc: Doc) -> None:
    spec = doc.setdefault("spec", {})
    if "matchResources" in spec:
        default_match(spec["matchResources"], "resourceRules", "excludeResourceRules")


def _validate_policy(new: Doc, _old: Doc | None) -> list[FieldError]:
    spec = new["spec"]
    errors = one_of(spec, "failurePolicy", ("Fail", "Ignore"), "spec")
    params = spec.get("paramKind")
    if params is not None:
        errors += [required(f"spec.paramKind.{key}") for key in ("apiVersion", "kind") if not params.get(key)]
    constraints = spec.get("matchConstraints")
    if constraints is None:
        errors.append(required("spec.matchConstraints"))
    else:
        errors += _validate_match(constraints, "spec.matchConstraints")
        if not constraints.get("resourceRules"):
            errors.append(required("spec.matchConstraints.resourceRules"))
    conditions = spec.get("matchConditions") or ()
    errors += validate_conditions(conditions, "spec.matchConditions", params=params is not None)
    known = {*_SEEN, *(("params",) if params is not None else ())}
    errors += _validate_variables(spec.get("variables") or (), known)  # and know them from here on
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        return [*errors, *(required(f"spec.{key}", _NOTHING_TO_DO) for key in ("validations", "auditAnnotations"))]
    for index, validation in enumerate(spec.get("validations") or ()):
        errors += _validate_validation(validation, known, f"spec.validations[{index}]")
    for index, annotation in enumerate(spec.get("auditAnnotations") or ()):
        where = f"spec.auditAnnotations[{index}].valueExpression"
        errors += expression_errors(annotation["valueExpression"], where, known, "valueExpression is not specified")
    return errors


def _validate_match(match: Doc, path: str) -> list[FieldError]:
    errors = one_of(match, "matchPolicy", ("Equivalent", "Exact"), path) + validate_selectors(match, path)
    for key in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(key) or ()):
            here = f"{path}.{key}[{index}]"
            names = rule.get("resourceNames") or []
            for place, name in enumerate(names):
                if problem := path_segment_error(name):
                    errors.append(invalid_value(f"{here}.resourceNames[{place}]", name, problem))
                elif name in names[:place]:
                    errors.append(duplicate(f"{here}.resourceNames[{place}]", name))
            errors += validate_rule(rule, here)
    return errors


def _validate_variables(variables: Any, known: set[str]) -> list[FieldError]:
    """Each may use those before it; adds them to what is known."""
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        here = f"spec.variables[{index}]"
        name = variable["name"]
        if not name.strip():
            errors.append(required(f"{here}.name", "name is not specified"))
        elif not _IDENTIFIER.fullmatch(name):
            errors.append(invalid_value(f"{here}.name", name, "must be a valid CEL identifier"))
        errors += expression_errors(variable["expression"], f"{here}.expression", known, "expression is not specified")
        known |= {"variables", f"variables.{name}"}
    return errors


def _validate_validation(validation: Doc, known: set[str], path: str) -> list[FieldError]:
    errors = expression_errors(validation["expression"], f"{path}.expression", known, "expression is not specified")
    if said := validation.get("messageExpression"):
        errors += expression_errors(said, f"{path}.messageExpression", known, "must be non-empty if specified")
    message = validation.get("message", "")
    if message and not message.strip():
        errors.append(invalid_value(f"{path}.message", message, "must be non-empty if specified"))
    elif "\n" in message.strip() or "\r" in message.strip():
        errors.append(invalid_value(f"{path}.message", message, "must not contain line breaks"))
    errors += one_of(validation, "reason", _REASONS, path)
    return errors


def _validate_binding(new: Doc, _old: Doc | None) -> list[FieldError]:
    spec = new["spec"]
    errors: list[FieldError] = []
    name = spec.get("policyName", "")
    if not name:
        errors.append(required("spec.policyName"))
    elif problem := subdomain_error(name):
        errors.append(invalid_value("spec.policyName", name, problem))
    if spec.get("paramRef") is not None:
        errors += _validate_params(spec["paramRef"])
    if spec.get("matchResources") is not None:
        errors += _validate_match(spec["matchResources"], "spec.matchResources")
    return errors + _validate_actions(spec.get("validationActions") or [])


def _validate_params(reference: Doc) -> list[FieldError]:
    errors: list[FieldError] = []
    name, selector, path = reference.get("name"), reference.get("selector"), "spec.paramRef"
    if name and selector is not None:
        errors += [
            forbidden_field(f"{path}.{key}", "name and selector are mutually exclusive") for key in ("name", "selector")
        ]
    if name and (problem := path_segment_error(name)):
        errors.append(invalid_value(f"{path}.name", name, problem))
    if not name and selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    if selector is not None:
        try:
            label_selector(msgspec.convert(selector, LabelSelector))
        except InvalidSelector as error:
            errors.append(invalid_value(f"{path}.selector", selector, str(error)))
    if not reference.get("parameterNotFoundAction"):
        errors.append(required(f"{path}.parameterNotFoundAction"))
    return errors + one_of(reference, "parameterNotFoundAction", _NOT_FOUND_ACTIONS, path)


def _validate_actions(actions: list[str]) -> list[FieldError]:
    path = "spec.validationActions"
    if not actions:
        return [required(path, "at least one validation action is required")]
    errors: list[FieldError] = []
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            errors.append(not_supported(f"{path}[{index}]", action, _ACTIONS))
        if action in actions[:index]:
            errors.append(duplicate(f"{path}[{index}]", action))
    if "Deny" in actions and "Warn" in actions:
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        errors.append(invalid_value(path, actions, detail))
    return errors


BEHAVIOURS = {
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): Behaviour(
        default=_default_policy, validate=_validate_policy, generation=True
    ),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): Behaviour(
        default=_default_binding, validate=_validate_binding, generation=True
    ),
}
