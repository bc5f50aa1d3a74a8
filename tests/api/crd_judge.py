"""What an API server makes of a custom object, in few lines: defaults, then schema, then rules.

Enough to test the definitions by themselves; whole servers, embedded and real, judge them in their own tests.
"""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import cel
import jsonschema_rs
import yaml

from bosket.api.crd import crd_manifests

Json = Any


@cache
def _definitions() -> dict[tuple[str, str], Json]:
    return {
        (f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"]): version
        for crd in crd_manifests()
        for version in crd["spec"]["versions"]
    }


def schema_of(api_version: str, kind: str) -> Json:
    return _definitions()[api_version, kind]["schema"]["openAPIV3Schema"]


@cache
def _validator(api_version: str, kind: str) -> jsonschema_rs.Draft4Validator:
    # OpenAPI 3.0, which Kubernetes speaks, is nearest to draft 4.
    return jsonschema_rs.Draft4Validator(schema_of(api_version, kind))


def load(manifest: str | Json) -> Json:
    return yaml.safe_load(manifest) if isinstance(manifest, str) else copy.deepcopy(manifest)


def defaulted(manifest: str | Json) -> Json:
    obj = load(manifest)
    _fill_in(schema_of(obj["apiVersion"], obj["kind"]), obj)
    return obj


def refusals(manifest: str | Json, old: str | Json | None = None) -> list[str]:
    """Why the object is refused, each reason with the path of the field; empty if it isn't."""
    obj = defaulted(manifest)
    kind = obj["apiVersion"], obj["kind"]
    wrong = [
        f"{'.'.join(str(step) for step in error.instance_path)}: {error.message}"
        for error in _validator(*kind).iter_errors(obj)
    ]
    return wrong or list(_broken_rules(schema_of(*kind), obj, defaulted(old) if old else None, ""))


def _fill_in(schema: Json, value: Json) -> None:
    if isinstance(value, dict):
        for name, field in schema.get("properties", {}).items():
            if name not in value and "default" in field:
                value[name] = copy.deepcopy(field["default"])
            if name in value:
                _fill_in(field, value[name])
    elif isinstance(value, list):
        for item in value:
            _fill_in(schema.get("items", {}), item)


def _broken_rules(schema: Json, value: Json, old: Json, path: str) -> list[str]:
    broken = []
    for rule in schema.get("x-kubernetes-validations", ()):
        context = {"self": value}
        if rule.get("optionalOldSelf"):
            context["oldSelf"] = cel.OptionalValue.none() if old is None else cel.OptionalValue.of(old)
        elif "oldSelf" in rule["rule"]:
            if old is None:
                continue
            context["oldSelf"] = old
        if not cel.evaluate(rule["rule"], context):
            broken.append(f"{path}{rule.get('fieldPath', '')}: {rule['message']}")
    if isinstance(value, dict):
        for name, field in schema.get("properties", {}).items():
            if name in value:
                before = old.get(name) if isinstance(old, dict) else None
                broken += _broken_rules(field, value[name], before, f"{path}.{name}")
        extra = schema.get("additionalProperties")
        for name in value if isinstance(extra, dict) else ():
            broken += _broken_rules(extra, value[name], None, f"{path}.{name}")
    elif isinstance(value, list):
        keys = schema.get("x-kubernetes-list-map-keys")
        if keys and len({tuple(item.get(key) for key in keys) for item in value}) < len(value):
            broken.append(f"{path}: duplicate {', '.join(keys)}")
        for index, item in enumerate(value):
            broken += _broken_rules(schema.get("items", {}), item, None, f"{path}[{index}]")
    return broken
