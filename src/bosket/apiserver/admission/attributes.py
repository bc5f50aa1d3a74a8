"""AdmissionAttributes: a write as webhooks and policies see it.

Made by `AdmissionChain` from a write, or by those who delete, bind and evict; only where somebody is to be asked.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bosket.apiserver.objects.kind import Kind, Version
from bosket.apiserver.objects.metadata import shown_name
from bosket.apiserver.request.resource_request import User
from bosket.apiserver.store.entry import Doc

Operation = Literal["CREATE", "UPDATE", "DELETE"]

#: These are never asked about: whoever locks everybody out with one must be able to take it back.
_EXEMPT_GROUP = "admissionregistration.k8s.io"
_OPTIONS = ("fieldManager", "fieldValidation")


@dataclass(slots=True)
class AdmissionAttributes:
    """One request that may be refused or completed. `object` is None for deletions, `old` for creations."""

    operation: Operation
    kind: Kind
    version: Version
    subresource: str
    namespace: str
    name: str
    object: Doc | None
    old: Doc | None
    user: User
    options: Doc
    dry_run: bool = False
    #: warnings for the client, whatever the outcome
    warnings: list[str] = field(default_factory=list)
    #: group, version and kind of the object, where it isn't the resource's own
    form: tuple[str, str, str] | None = None

    @property
    def exempt(self) -> bool:
        return self.kind.group == _EXEMPT_GROUP

    @property
    def object_kind(self) -> tuple[str, str, str]:
        return self.form or (self.kind.group, self.version.name, self.kind.kind)

    @property
    def scope_namespace(self) -> str:
        """The namespace by which selectors judge; a namespace is in itself."""
        return self.name if self.is_namespace else self.namespace

    @property
    def is_namespace(self) -> bool:
        return not self.kind.group and self.kind.plural == "namespaces"

    @property
    def shown_name(self) -> str:
        """As refusals name the object: one that has no name yet by the beginning of it."""
        return self.name or (shown_name(self.object) if self.object is not None else "")

    def at(self, version: Version) -> tuple[Doc | None, Doc | None]:
        """The new and the old object in another version of the kind."""
        if version is self.version or self.form is not None:
            return self.object, self.old
        return convert(self.object, self.version, version), convert(self.old, self.version, version)

    def request(self, version: Version) -> Doc:
        """The `request` of an AdmissionReview about the kind in that version."""
        kind, resource = _coordinates(self, version)
        asked_kind, asked_resource = _coordinates(self, self.version)
        new, old = self.at(version)
        request: Doc = {
            "uid": str(uuid.uuid4()),
            "kind": kind,
            "resource": resource,
            "requestKind": asked_kind,
            "requestResource": asked_resource,
            "operation": self.operation,
            "userInfo": self.user.info(),
            "object": new,
            "oldObject": old,
            "dryRun": self.dry_run,
            "options": self.options,
        }
        if self.subresource:
            request["subResource"] = request["requestSubResource"] = self.subresource
        if self.name:
            request["name"] = self.name
        if self.scope_namespace:
            request["namespace"] = self.scope_namespace
        return request


def convert(doc: Doc | None, source: Version, target: Version) -> Doc | None:
    """An object of one version as one of another; the argument stays as it is."""
    if doc is None or source is target:
        return doc
    stored = source.to_storage(_copied(doc)) if source.to_storage is not None else _copied(doc)
    return target.from_storage(stored) if target.from_storage is not None else stored


def _copied(doc: Doc) -> Doc:
    """Conversions change the top of what they are given."""
    return {**doc, "metadata": dict(doc["metadata"])}


def options_of(kind: str, query: Mapping[str, str], **more: Any) -> Doc:
    """The options of a request as an object (`CreateOptions`, `UpdateOptions`, `DeleteOptions`)."""
    options: Doc = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if query.get("dryRun"):
        options["dryRun"] = [query["dryRun"]]
    options |= {key: query[key] for key in _OPTIONS if query.get(key)}
    return options | more


def _coordinates(attributes: AdmissionAttributes, version: Version) -> tuple[Doc, Doc]:
    group, number, kind = attributes.form or (attributes.kind.group, version.name, attributes.kind.kind)
    resource = {"group": attributes.kind.group, "version": version.name, "resource": attributes.kind.plural}
    return {"group": group, "version": number, "kind": kind}, resource
