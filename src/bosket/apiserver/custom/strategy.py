"""How objects of a custom kind are checked and completed: by the schema of their version."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any

import msgspec

from bosket.api.field_error import FieldError, duplicate
from bosket.api.name_rules import subdomain_error
from bosket.apiserver.custom.check import Checker
from bosket.apiserver.custom.embedded import check_embedded, embedded_errors
from bosket.apiserver.custom.jsonpath import JsonPath
from bosket.apiserver.custom.rules import Rules
from bosket.apiserver.custom.schema import Node, apply_defaults, find_duplicates, normalize, prune
from bosket.apiserver.objects import metadata
from bosket.apiserver.objects.kind import Strategy
from bosket.apiserver.store.entry import Doc

_ANYTHING: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
#: Errors after which rules would only fail in confusing ways.
_BLOCKING = frozenset(
    {"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"}
)
_UNCHECKED = FieldError(
    "<nil>",
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation",
)


class CustomStrategy(Strategy):
    """A version of a custom kind. Schemas are compiled when they are first needed."""

    has_generation = True
    unconditional_update = False

    def __init__(self, version: dict[str, Any]) -> None:
        self._schema: dict[str, Any] = (version.get("schema") or {}).get("openAPIV3Schema") or _ANYTHING
        self._name: str = version["name"]
        self.has_status = "status" in (version.get("subresources") or {})
        self.selectable = frozenset(
            each["jsonPath"].removeprefix(".") for each in version.get("selectableFields") or ()
        )

    @property
    def schema(self) -> dict[str, Any]:
        return self._schema

    @cached_property
    def effort(self) -> int:  # type: ignore[override]  # a schema is looked at when it is first needed
        return 1 + self.tree.rule_count

    @cached_property
    def tree(self) -> Node:
        return Node(self._schema)

    @cached_property
    def _checker(self) -> Checker:
        return Checker({**self._schema, "properties": _without_metadata(self._schema)})

    @cached_property
    def _rules(self) -> Rules:
        return Rules(self.tree)

    def check_types(self, doc: Doc) -> list[str]:
        unknown: list[str] = []
        normalize(doc, self.tree)
        prune(doc, self.tree, "", unknown, root=True)
        if self.tree.embedded_below:
            unknown += check_embedded(doc, self.tree, doc["kind"], self._name)
        return unknown

    def default(self, doc: Doc) -> None:
        apply_defaults(doc, self.tree)

    def prepare_create(self, doc: Doc) -> None:
        if self.has_status:
            doc.pop("status", None)

    def prepare_update(self, new: Doc, old: Doc) -> None:
        if self.has_status:
            metadata.put_back(new, old, "status")

    def prepare_status(self, new: Doc, old: Doc) -> None:
        for key in new.keys() | old.keys():
            if key not in ("status", "metadata"):
                metadata.put_back(new, old, key)
        managed = new["metadata"].get("managedFields")
        new["metadata"] = dict(old["metadata"])
        if managed is not None:
            new["metadata"]["managedFields"] = managed

    def validate_name(self, name: str) -> str | None:
        return subdomain_error(name)

    def validate(self, new: Doc, old: Doc | None) -> list[FieldError]:
        errors = self._checker.check(new, old)
        errors += embedded_errors(new, self.tree)
        if old is None or not self._duplicates(old):
            errors += self._duplicates(new)
        if not self.tree.rules_below:
            return errors
        if any(error.reason in _BLOCKING for error in errors):
            return [*errors, _UNCHECKED]
        return errors + self._rules.check(new, old)

    def _duplicates(self, doc: Doc) -> list[FieldError]:
        found: list[tuple[str, Any]] = []
        find_duplicates(doc, self.tree, "", found)
        return [duplicate(path, value) for path, value in found]

    def validate_status(self, new: Doc, old: Doc) -> list[FieldError]:
        return self.validate(new, old)

    def selectable_paths(self) -> dict[str, JsonPath]:
        return {path: JsonPath(path) for path in self.selectable}


def _without_metadata(schema: dict[str, Any]) -> dict[str, Any]:
    """Metadata has rules of its own; a schema may only add to those about the name."""
    properties = dict(schema.get("properties", {}))
    restrictions = properties.pop("metadata", {}).get("properties", {})
    if restrictions:
        properties["metadata"] = {"type": "object", "properties": restrictions}
    return properties


def strategy_of(version: dict[str, Any]) -> CustomStrategy:
    """The strategy of a version; versions that read alike share one, and with it what was compiled for it.

    A strategy knows nothing of the server that it is used by. To compile the schema of a large kind takes tens of
    milliseconds, which a change of a definition's names, and each further cluster of a process, would pay again.
    """
    key = hashlib.sha256(msgspec.json.encode(version)).digest()
    found = _STRATEGIES.get(key)
    if found is None:
        found = _STRATEGIES[key] = CustomStrategy(version)
        while len(_STRATEGIES) > _MOST_STRATEGIES:
            _STRATEGIES.pop(next(iter(_STRATEGIES)), None)
    return found


#: By the digest of the version; the oldest first.
_STRATEGIES: dict[bytes, CustomStrategy] = {}
_MOST_STRATEGIES = 128
