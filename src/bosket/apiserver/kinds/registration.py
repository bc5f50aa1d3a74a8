"""Webhook configurations: what is filled in, and what they must look like."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from bosket.api.field_error import FieldError, duplicate, invalid_value, not_supported, required
from bosket.api.name_rules import label_key_error, subdomain_error
from bosket.api.object import LabelSelector
from bosket.apiserver.kinds.builtin import Behaviour
from bosket.apiserver.kinds.expression import expression_errors
from bosket.apiserver.store.entry import Doc
from bosket.kube.selector import InvalidSelector, label_selector

_FAILURE_POLICIES = ("Fail", "Ignore")
_MATCH_POLICIES = ("Equivalent", "Exact")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_REINVOCATION = ("IfNeeded", "Never")
_SCOPES = ("*", "Cluster", "Namespaced")
_REVIEWS = ("v1", "v1beta1")
_MAX_CONDITIONS = 64
_MAX_SECONDS = 30
_SERVICE_PORT = 443
_FORM = "; desired format: https://host[/path]"


def _default(doc: Doc) -> None:
    for hook in doc.get("webhooks") or ():
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("timeoutSeconds", 10)
        default_match(hook, "rules")
        service = (hook.get("clientConfig") or {}).get("service")
        if service is not None:
            service.setdefault("port", _SERVICE_PORT)


def _default_mutating(doc: Doc) -> None:
    _default(doc)
    for hook in doc.get("webhooks") or ():
        hook.setdefault("reinvocationPolicy", "Never")


def default_match(match: Doc, *rules: str) -> None:
    """What webhooks and policies have in common: policy, selectors, scopes of rules."""
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for key in rules:
        for rule in match.get(key) or ():
            rule.setdefault("scope", "*")


def _validate(new: Doc, _old: Doc | None) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, hook in enumerate(new.get("webhooks") or ()):
        path = f"webhooks[{index}]"
        errors += _validate_hook(hook, path)
        if hook["name"] in seen:
            errors.append(duplicate(f"{path}.name", hook["name"]))
        seen.add(hook["name"])
    return errors


def _validate_hook(hook: Doc, path: str) -> list[FieldError]:
    errors = [*_validate_name(hook["name"], f"{path}.name")]
    for index, rule in enumerate(hook.get("rules") or ()):
        errors += validate_rule(rule, f"{path}.rules[{index}]")
    errors += one_of(hook, "failurePolicy", _FAILURE_POLICIES, path)
    errors += one_of(hook, "matchPolicy", _MATCH_POLICIES, path)
    if not hook.get("sideEffects"):
        errors.append(required(f"{path}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}"))
    errors += one_of(hook, "sideEffects", _SIDE_EFFECTS, path)
    errors += one_of(hook, "reinvocationPolicy", _REINVOCATION, path)
    if not 1 <= hook["timeoutSeconds"] <= _MAX_SECONDS:
        detail = f"the timeout value must be between 1 and {_MAX_SECONDS} seconds"
        errors.append(invalid_value(f"{path}.timeoutSeconds", hook["timeoutSeconds"], detail))
    errors += validate_selectors(hook, path)
    errors += _validate_client(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    errors += validate_conditions(hook.get("matchConditions") or (), f"{path}.matchConditions")
    errors += _validate_reviews(hook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions")
    return errors


def _validate_name(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    if problem := subdomain_error(name):
        return [invalid_value(path, name, problem)]
    if name.count(".") < 2:
        return [invalid_value(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def one_of(holder: Doc, key: str, choices: tuple[str, ...], path: str) -> list[FieldError]:
    """An error unless the field has one of these values, or isn't there."""
    value = holder.get(key)
    return [] if not value or value in choices else [not_supported(f"{path}.{key}", value, choices)]


def validate_selectors(match: Doc, path: str) -> list[FieldError]:
    """Of namespaces and objects."""
    errors = []
    for key in ("namespaceSelector", "objectSelector"):
        try:
            label_selector(msgspec.convert(match.get(key) or {}, LabelSelector))
        except InvalidSelector as error:
            errors.append(invalid_value(f"{path}.{key}", match[key], str(error)))
    return errors


def validate_rule(rule: Doc, path: str) -> list[FieldError]:
    """Of webhooks and of policies."""
    errors: list[FieldError] = []
    operations = rule.get("operations") or []
    if not operations:
        errors.append(required(f"{path}.operations"))
    errors += _alone(operations, f"{path}.operations", "operations")
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            errors.append(not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS))
    for key, what in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(key) or []
        if not values:
            errors.append(required(f"{path}.{key}"))
        errors += _alone(values, f"{path}.{key}", what)
    errors += [
        required(f"{path}.apiVersions[{index}]")
        for index, version in enumerate(rule.get("apiVersions") or ())
        if not version
    ]
    errors += _validate_resources(rule.get("resources") or [], f"{path}.resources")
    errors += one_of(rule, "scope", _SCOPES, path)
    return errors


def _alone(values: list[str], path: str, what: str) -> list[FieldError]:
    if len(values) > 1 and "*" in values:
        return [invalid_value(path, values, f"if '*' is present, must not specify other {what}")]
    return []


def _validate_resources(resources: list[str], path: str) -> list[FieldError]:
    if not resources:
        return [required(path)]
    errors: list[FieldError] = []
    whole: set[str] = set()
    for index, name in enumerate(resources):
        resource, slash, subresource = name.partition("/")
        if not name:
            errors.append(required(f"{path}[{index}]"))
        if slash:
            for wildcard in (f"{resource}/*", f"*/{subresource}"):
                if wildcard in whole:
                    detail = f"if '{wildcard}' is present, must not specify {name}"
                    errors.append(invalid_value(f"{path}[{index}]", name, detail))
            if "*" in (resource, subresource):
                whole.add(name)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid_value(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and any("/" not in name and name != "*" for name in resources):
        detail = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid_value(path, resources, detail))
    return errors


def _validate_client(client: Doc, path: str) -> list[FieldError]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    errors = _validate_service(service, f"{path}.service") if service is not None else _validate_url(url, f"{path}.url")
    if bundle := client.get("caBundle"):
        try:
            ssl.create_default_context(cadata=base64.b64decode(bundle, validate=True).decode("ascii"))
        except (binascii.Error, ValueError, ssl.SSLError) as error:
            errors.append(invalid_value(f"{path}.caBundle", "<hidden>", f"unable to load root certificates: {error}"))
    return errors


def _validate_url(url: Any, path: str) -> list[FieldError]:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{_FORM}")]
    errors = []
    if parts.scheme != "https":
        errors.append(invalid_value(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    if not host:
        errors.append(invalid_value(path, host, f"host must be specified{_FORM}"))
    if parts.username is not None:
        errors.append(invalid_value(path, parts.username, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid_value(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid_value(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def _validate_service(service: Doc, path: str) -> list[FieldError]:
    errors = [required(f"{path}.{key}") for key in ("name", "namespace") if not service.get(key)]
    if not 1 <= service["port"] <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(invalid_value(f"{path}.port", service["port"], detail))
    given = service.get("path") or "/"
    if not given.startswith("/"):
        errors.append(invalid_value(f"{path}.path", given, "must start with a '/'"))
    if given != "/":
        for index, step in enumerate(given[1:].removesuffix("/").split("/")):
            problem = "" if step else f"segment[{index}] may not be empty"
            if step and (wrong := subdomain_error(step)):
                problem = f"segment[{index}]: {wrong}"
            if problem:
                errors.append(invalid_value(f"{path}.path", given, problem))
    return errors


def _validate_reviews(versions: list[str], path: str) -> list[FieldError]:
    if not versions:
        return [required(path, f"must specify one of {', '.join(_REVIEWS)}")]
    errors = [
        invalid_value(f"{path}[{index}]", version, "duplicate version")
        for index, version in enumerate(versions)
        if version in versions[:index]
    ]
    if not set(versions) & set(_REVIEWS):
        errors.append(invalid_value(path, versions, f"must include at least one of {', '.join(_REVIEWS)}"))
    return errors


def validate_conditions(conditions: Any, path: str, *, params: bool = False) -> list[FieldError]:
    """Match conditions: named once each, and expressions that can be compiled."""
    errors: list[FieldError] = []
    if len(conditions) > _MAX_CONDITIONS:
        detail = f"Too many: {len(conditions)}: must have at most {_MAX_CONDITIONS} items"
        errors.append(FieldError(path, "FieldValueTooMany", detail))
        return errors
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        here = f"{path}[{index}]"
        known = ("object", "oldObject", "request", *(("params",) if params else ()))
        errors += expression_errors(condition.get("expression", ""), f"{here}.expression", known)
        name = condition.get("name", "")
        if not name:
            errors.append(required(f"{here}.name"))
        elif problem := label_key_error(name):
            errors.append(invalid_value(f"{here}.name", name, problem))
        elif name in seen:
            errors.append(duplicate(f"{here}.name", name))
        seen.add(name)
    return errors


def _behaviour(default: Callable[[Doc], None]) -> Behaviour:
    return Behaviour(default=default, validate=_validate, generation=True)


BEHAVIOURS = {
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _behaviour(_default),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _behaviour(_default_mutating),
}
