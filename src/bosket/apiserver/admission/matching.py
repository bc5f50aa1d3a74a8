"""Which requests a webhook or a policy is about: rules, and selectors of namespaces and objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bosket.api.object import LabelSelector
from bosket.apiserver.admission.attributes import AdmissionAttributes
from bosket.apiserver.objects.kind import Version
from bosket.apiserver.status import not_found
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.store.resource_store import ResourceStore
from bosket.kube.selector import EVERYTHING, Selector, label_selector

_ANY = "*"


@dataclass(frozen=True, slots=True)
class Rule:
    """Operations on resources; `*` stands for all, `pods/*` for all subresources."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    scope: str
    #: the only objects that are meant; all of them if there are none
    names: frozenset[str]

    @classmethod
    def compile(cls, raw: Doc) -> Rule:
        resources = (each.partition("/") for each in raw.get("resources") or ())
        return cls(
            frozenset(raw.get("operations") or ()),
            frozenset(raw.get("apiGroups") or ()),
            frozenset(raw.get("apiVersions") or ()),
            tuple((resource, subresource) for resource, _, subresource in resources),
            raw.get("scope") or _ANY,
            frozenset(raw.get("resourceNames") or ()),
        )

    def matches(self, attributes: AdmissionAttributes, version: str) -> bool:
        """Whether the rule is about the attempt, were it made in that version."""
        return (
            (_ANY in self.operations or attributes.operation in self.operations)
            and (_ANY in self.groups or attributes.kind.group in self.groups)
            and (_ANY in self.versions or version in self.versions)
            and any(
                resource in (_ANY, attributes.kind.plural) and subresource in (_ANY, attributes.subresource)
                for resource, subresource in self.resources
            )
            and self.scope in (_ANY, "Namespaced" if attributes.kind.namespaced else "Cluster")
            and (not self.names or attributes.name in self.names)
        )


def matched_version(rules: Sequence[Rule], attributes: AdmissionAttributes, *, equivalent: bool) -> Version | None:
    """The version in which somebody with these rules is to be asked; None if not at all.

    With `equivalent`, a rule for another version of the kind will do; the object is converted to it.
    """
    if any(rule.matches(attributes, attributes.version.name) for rule in rules):
        return attributes.version
    if equivalent:
        for rule in rules:
            for name, version in attributes.kind.versions.items():
                if rule.matches(attributes, name):
                    return version
    return None


@dataclass(frozen=True, slots=True)
class Selection:
    """Selectors: of the namespace that an object is in, and of the object itself."""

    namespaces: Selector
    objects: Selector

    @classmethod
    def compile(cls, raw: Doc) -> Selection:
        return cls(selector_of(raw.get("namespaceSelector")), selector_of(raw.get("objectSelector")))

    def matches(self, attributes: AdmissionAttributes, namespaces: ResourceStore) -> bool:
        return self._matches_namespace(attributes, namespaces) and self._matches_object(attributes)

    def _matches_namespace(self, attributes: AdmissionAttributes, namespaces: ResourceStore) -> bool:
        if not self.namespaces.requirements:
            return True
        if attributes.is_namespace:
            if attributes.object is not None and not attributes.subresource:
                return self.namespaces.matches(attributes.object["metadata"].get("labels") or {})
        elif not attributes.kind.namespaced:
            return True
        entry = namespaces.get("", attributes.scope_namespace)
        if entry is None:
            raise not_found("", "namespaces", attributes.scope_namespace)
        return self.namespaces.matches(entry.labels)

    def _matches_object(self, attributes: AdmissionAttributes) -> bool:
        if not self.objects.requirements:
            return True
        candidates = (each for each in (attributes.object, attributes.old) if each is not None)
        return any(self.objects.matches((each.get("metadata") or {}).get("labels") or {}) for each in candidates)


def selector_of(raw: Any) -> Selector:
    """A selector of an object that was accepted; one that isn't there selects everything."""
    return label_selector(msgspec.convert(raw, LabelSelector)) if raw else EVERYTHING


def compiled_rules(raw: Iterable[Doc] | None) -> tuple[Rule, ...]:
    """The rules of an object that was accepted."""
    return tuple(Rule.compile(each) for each in raw or ())
