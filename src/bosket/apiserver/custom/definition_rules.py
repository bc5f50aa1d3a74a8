"""The rules for definitions: names, versions, columns, subresources, and schemas with their defaults and CEL rules.

`Definitions` asks before a definition is stored. Schemas that were stored are known to compile.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator
from typing import Any

import msgspec

from bosket.api.field_error import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_many,
)
from bosket.api.name_rules import service_label_error, subdomain_error
from bosket.apiserver.custom.check import Checker, InvalidSchema
from bosket.apiserver.custom.keywords import keyword_errors
from bosket.apiserver.custom.rule_errors import rule_errors
from bosket.apiserver.custom.schema import Node, prune
from bosket.apiserver.custom.structural import Schema, structural_errors, sub_schemas
from bosket.apiserver.store.entry import Doc

_COLUMN_TYPES = "boolean,date,integer,number,string"
_COLUMN_FORMATS = "byte,date,date-time,double,float,int32,int64,password"
_MAX_SELECTABLE = 8
_MAX_WARNING = 256
#: Schemas in which nothing is wrong, by their digest and whether the status is a subresource; the oldest first.
_FAULTLESS: dict[tuple[bytes, bool], None] = {}
_MOST_FAULTLESS = 256
_APPROVAL = "api-approved.kubernetes.io"
#: Of a schema whose status is a part of its own, only these keywords may stand at the root.
_ROOT_KEYWORDS = frozenset(
    (
        *(
            "description",
            "title",
            "externalDocs",
            "example",
            "type",
            "format",
            "pattern",
            "required",
            "items",
            "properties",
        ),
        *("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "multipleOf", "maxLength", "minLength"),
        *("maxItems", "minItems", "uniqueItems", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
    )
)


def set_defaults(doc: Doc) -> None:
    """Complete a definition with the names that follow from others."""
    spec = doc.setdefault("spec", {})
    names = spec.setdefault("names", {})
    if kind := names.get("kind"):
        if not names.get("singular"):
            names["singular"] = kind.lower()
        if not names.get("listKind"):
            names["listKind"] = f"{kind}List"
    spec.setdefault("conversion", {"strategy": "None"})


def validate_definition(new: Doc, old: Doc | None) -> list[FieldError]:
    """Everything that is wrong with a definition."""
    spec = new["spec"]
    errors = [*_name_errors(new, spec), *_spec_errors(spec), *_approval_errors(new, spec)]
    if old is not None:
        errors += _change_errors(new, old)
    for index, version in enumerate(spec.get("versions") or ()):
        errors += _version_errors(version, f"spec.versions[{index}]")
    return errors


def _name_errors(doc: Doc, spec: dict[str, Any]) -> Iterator[FieldError]:
    names = spec.get("names") or {}
    if doc["metadata"]["name"] != f"{names.get('plural', '')}.{spec.get('group', '')}":
        yield invalid_value("metadata.name", doc["metadata"]["name"], 'must be spec.names.plural+"."+spec.group')
    for key in ("plural", "singular", "kind", "listKind"):
        if not names.get(key):
            yield required(f"spec.names.{key}")
    for key in ("plural", "singular"):
        if names.get(key) and (error := service_label_error(names[key])):
            yield invalid_value(f"spec.names.{key}", names[key], error)
    for key in ("kind", "listKind"):
        if names.get(key) and (error := service_label_error(names[key].lower())):
            detail = f"may have mixed case, but should otherwise match: {error}"
            yield invalid_value(f"spec.names.{key}", names[key], detail)
    for key in ("shortNames", "categories"):
        for index, name in enumerate(names.get(key) or ()):
            if error := service_label_error(name):
                yield invalid_value(f"spec.names.{key}[{index}]", name, error)
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield invalid_value("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")


def _spec_errors(spec: dict[str, Any]) -> Iterator[FieldError]:
    group, scope, versions = spec.get("group", ""), spec.get("scope", ""), spec.get("versions") or []
    if not group:
        yield required("spec.group")
    elif error := subdomain_error(group):
        yield invalid_value("spec.group", group, error)
    elif "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", scope, ("Cluster", "Namespaced"))
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        yield invalid_value("spec.preserveUnknownFields", True, detail)
    listed = [version.get("name", "") for version in versions]
    if len(set(listed)) != len(listed):
        yield invalid_value("spec.versions", listed, "must contain unique version names")
    if [version.get("storage") for version in versions].count(True) != 1:
        yield invalid_value("spec.versions", listed, "must have exactly one version marked as storage version")
    conversion = spec.get("conversion") or {}
    match conversion.get("strategy"):
        case "None":
            if conversion.get("webhook"):
                detail = "should not be set when strategy is not set to Webhook"
                yield forbidden_field("spec.conversion.webhookClientConfig", detail)
        case "Webhook":
            # A webhook would have to be asked for every object of every list and watch.
            detail = "this server converts between versions by their names alone: conversion webhooks are not supported"
            yield invalid_value("spec.conversion.strategy", "Webhook", detail)
        case strategy:
            yield not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))


def _approval_errors(doc: Doc, spec: dict[str, Any]) -> Iterator[FieldError]:
    """Kubernetes' own groups are not for everybody."""
    group = spec.get("group", "")
    if not group.endswith((".k8s.io", ".kubernetes.io")) and group not in ("k8s.io", "kubernetes.io"):
        return
    field = f"metadata.annotations[{_APPROVAL}]"
    value = (doc["metadata"].get("annotations") or {}).get(_APPROVAL)
    if not value:
        yield required(
            field,
            'protected groups must have approval annotation "api-approved.kubernetes.io", '
            "see https://github.com/kubernetes/enhancements/pull/1111",
        )
    elif not value.startswith(("unapproved", "https://", "http://")):
        yield invalid_value(
            field,
            value,
            f'protected groups must have approval annotation "{_APPROVAL}" with either a URL or a reason starting with '
            '"unapproved"',
        )


def _change_errors(new: Doc, old: Doc) -> Iterator[FieldError]:
    spec, before = new["spec"], old["spec"]
    for *path, key in (("group",), ("scope",), ("names", "plural"), ("names", "kind")):
        now, then = (_at(each, path).get(key) for each in (spec, before))
        if now != then:
            yield invalid_value(".".join(["spec", *path, key]), now, "field is immutable")
    versions = {version.get("name") for version in spec.get("versions") or ()}
    for index, stored in enumerate((old.get("status") or {}).get("storedVersions") or ()):
        if stored not in versions:
            yield invalid_value(
                f"status.storedVersions[{index}]",
                stored,
                f"missing from spec.versions; {stored} was previously a storage version, and must remain in "
                "spec.versions until a storage migration ensures no data remains persisted in "
                f"{stored} and removes {stored} from status.storedVersions",
            )


def _at(spec: dict[str, Any], path: list[str]) -> dict[str, Any]:
    for key in path:
        spec = spec.get(key) or {}
    return spec


def _version_errors(version: dict[str, Any], path: str) -> Iterator[FieldError]:
    if error := service_label_error(version.get("name", "")):
        yield invalid_value(f"{path}.name", version.get("name", ""), error)
    yield from _warning_errors(version, path)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    has_status = (version.get("subresources") or {}).get("status") is not None
    if schema is None:
        yield required(f"{path}.schema.openAPIV3Schema")
    else:
        yield from _schema_errors(schema, f"{path}.schema.openAPIV3Schema", has_status=has_status)
    yield from _scale_errors((version.get("subresources") or {}).get("scale"), f"{path}.subresources")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield from _column_errors(column, f"{path}.additionalPrinterColumns[{index}]")
    yield from _selectable_errors(version.get("selectableFields") or [], schema or {}, f"{path}.selectableFields")


def _warning_errors(version: dict[str, Any], path: str) -> Iterator[FieldError]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    problem = ""
    if not version.get("deprecated"):
        problem = "can only be set for deprecated versions"
    elif len(warning.encode()) > _MAX_WARNING:
        problem = f"must be <= {_MAX_WARNING} characters long"
    elif not warning:
        problem = "must not be an empty string"
    else:
        place = next((index for index, sign in enumerate(warning) if _is_unprintable(sign)), None)
        if place is not None:
            problem = f"must only contain printable UTF-8 characters; non-printable character found at index {place}"
    if problem:
        yield invalid_value(f"{path}.deprecationWarning", warning, problem)


def _is_unprintable(sign: str) -> bool:
    return sign != " " and unicodedata.category(sign)[0] in "CZ"


def _scale_errors(scale: dict[str, Any] | None, path: str) -> Iterator[FieldError]:
    if scale is None:
        return
    for key, places in (("specReplicasPath", ("spec",)), ("statusReplicasPath", ("status",))):
        if not scale.get(key):
            yield required(f"{path}.scale.{key}")
        else:
            yield from _path_errors(scale[key], f"{path}.scale.{key}", places)
    if scale.get("labelSelectorPath"):
        yield from _path_errors(scale["labelSelectorPath"], f"{path}.scale.labelSelectorPath", ("spec", "status"))


def _path_errors(text: str, field: str, places: tuple[str, ...]) -> Iterator[FieldError]:
    if not text.startswith("."):
        yield invalid_value(field, text, "must be a simple json path starting with .")
    elif not text.startswith(tuple(f".{place}." for place in places)):
        where = f".{places[0]}" if len(places) == 1 else f"either .{places[0]} or .{places[1]}"
        yield invalid_value(field, text, f"should be a json path under {where}")


def _column_errors(column: dict[str, Any], path: str) -> Iterator[FieldError]:
    if not column.get("name"):
        yield required(f"{path}.name")
    kind = column.get("type", "")
    if not kind:
        yield required(f"{path}.type", f"must be one of {_COLUMN_TYPES}")
    elif kind not in _COLUMN_TYPES.split(","):
        yield invalid_value(f"{path}.type", kind, f"must be one of {_COLUMN_TYPES}")
    form = column.get("format", "")
    if form and form not in _COLUMN_FORMATS.split(","):
        yield invalid_value(f"{path}.format", form, f"must be one of {_COLUMN_FORMATS}")
    json_path = column.get("jsonPath", "")
    if not json_path:
        yield required(f"{path}.JSONPath")
    elif not json_path.startswith("."):
        yield invalid_value(f"{path}.JSONPath", json_path, "must be a simple json path starting with .")


def _selectable_errors(fields: list[dict[str, Any]], schema: Schema, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, each in enumerate(fields):
        text, field = each.get("jsonPath", ""), f"{path}[{index}].jsonPath"
        if not text:
            yield required(field)
            continue
        found: Schema | None = schema if text.startswith(".") else None
        for step in text[1:].split("."):
            found = None if found is None else (found.get("properties") or {}).get(step)
        if found is None:
            yield invalid_value(field, text, "is an invalid path: does not refer to a valid field")
            continue
        if text.startswith(".metadata"):
            yield invalid_value(field, text, "must not point to fields in metadata")
        if found.get("type") not in ("string", "boolean", "integer"):
            yield invalid_value(
                field,
                text,
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats "
                "are allowed.",
            )
        if text in seen:
            yield duplicate(field, text)
        seen.add(text)
    if len(seen) > _MAX_SELECTABLE:
        yield too_many(path, len(seen), _MAX_SELECTABLE)


def _schema_errors(schema: Schema, path: str, *, has_status: bool) -> list[FieldError]:
    """The errors of a schema; a schema that was found to have none is not looked at again.

    To check a large schema takes several milliseconds, and most definitions that arrive have a schema that was there
    before: installers apply their definitions again and again, and a process may start many clusters.
    """
    key = hashlib.sha256(msgspec.json.encode(schema)).digest(), has_status
    if key in _FAULTLESS:
        return []
    errors = schema_errors(schema, path, has_status=has_status)
    if not errors:
        _FAULTLESS[key] = None
        while len(_FAULTLESS) > _MOST_FAULTLESS:
            _FAULTLESS.pop(next(iter(_FAULTLESS)), None)
    return errors


def schema_errors(schema: Schema, path: str, *, has_status: bool) -> list[FieldError]:
    """What keeps a schema from being one that objects can be checked by."""
    errors: list[FieldError] = []
    if has_status and (others := [key for key, value in schema.items() if value and key not in _ROOT_KEYWORDS]):
        allowed = " ".join(sorted(_ROOT_KEYWORDS))
        errors.append(
            invalid_value(
                path,
                others[0],
                f"only [{allowed}] fields are allowed at the root of the schema if the status subresource is enabled",
            )
        )
    if schema.get("nullable"):
        errors.append(forbidden_field(f"{path}.nullable", "nullable cannot be true at the root"))
    structural = structural_errors(schema, path)
    errors += structural
    if not structural:
        errors += _default_errors(schema, path)
    errors += keyword_errors(schema, path)
    if not errors:
        errors += rule_errors(schema, path)
    if not errors:
        try:
            Checker(schema)
        except InvalidSchema as error:
            errors.append(invalid_value(path, "", f"error building validator: {error}"))
    return errors


def _default_errors(schema: Schema, path: str) -> Iterator[FieldError]:
    """Defaults must be what their own schema allows, without fields that would be pruned."""
    if (default := schema.get("default")) is not None:
        node = Node(schema)
        unknown: list[str] = []
        prune(msgspec.json.decode(msgspec.json.encode(default)), node, "", unknown, root=node.embedded)
        if unknown:
            yield invalid_value(f"{path}.default", default, "must not have unknown fields")
        try:
            for error in Checker(schema).check(default):
                field = f"{path}.default.{error.field}" if error.field else f"{path}.default"
                yield FieldError(field, error.reason, error.message)
        except InvalidSchema:
            return  # reported elsewhere
    for child, where in sub_schemas(schema, path):
        yield from _default_errors(child, where)
