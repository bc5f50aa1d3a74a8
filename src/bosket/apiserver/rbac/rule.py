"""One rule of a role: what it allows, and whether some rules cover others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, NamedTuple

from bosket.apiserver.request.request_info import Attributes

ALL = "*"


class Rule(NamedTuple):
    """Verbs on resources of API groups, perhaps of some names only; or verbs on paths."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    @classmethod
    def parse(cls, doc: dict[str, Any]) -> Rule:
        """A rule as roles have it."""
        keys = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
        return cls(*(tuple(doc.get(key) or ()) for key in keys))

    def doc(self) -> dict[str, Any]:
        """The rule as roles have it."""
        keys = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
        return {key: list(values) for key, values in zip(keys, self, strict=True) if values or key == "verbs"}

    def concerns(self, attributes: Attributes) -> bool:
        """Whether it allows what is asked, of some name at least."""
        if ALL not in self.verbs and attributes.verb not in self.verbs:
            return False
        if not attributes.resource:
            return any(_is_path(url, attributes.path) for url in self.urls)
        if ALL not in self.groups and attributes.group not in self.groups:
            return False
        if ALL in self.resources or attributes.combined in self.resources:
            return True
        return bool(attributes.subresource) and f"*/{attributes.subresource}" in self.resources

    def __str__(self) -> str:
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{key}:{quoted(values)}" for key, values in parts if values) + "}"


def quoted(values: Iterable[str]) -> str:
    """A list as messages of Kubernetes have it."""
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def _is_path(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith(ALL) and path.startswith(pattern.rstrip(ALL)))


def not_covered(owned: Iterable[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """What of `wanted` is not in `owned`, as few rules as verbs can be joined in."""
    owned = tuple(owned)
    missing: dict[Rule, list[str]] = {}
    for rule in wanted:
        for single in _singles(rule):
            if not any(_covers(each, single) for each in owned):
                missing.setdefault(single._replace(verbs=()), []).append(single.verbs[0])
    return [rule._replace(verbs=tuple(dict.fromkeys(verbs))) for rule, verbs in missing.items()]


def _singles(rule: Rule) -> Iterator[Rule]:
    """Rules of one verb, group, resource and name, or one verb and path, that mean the same."""
    for group, resource, verb, name in product(rule.groups, rule.resources, rule.verbs, rule.names or ("",)):
        yield Rule((verb,), (group,), (resource,), (name,) if name else ())
    for url, verb in product(rule.urls, rule.verbs):
        yield Rule((verb,), urls=(url,))


def _covers(owner: Rule, single: Rule) -> bool:
    if ALL not in owner.verbs and single.verbs[0] not in owner.verbs:
        return False
    if single.urls:
        return any(_is_path(url, single.urls[0]) for url in owner.urls)
    if ALL not in owner.groups and single.groups[0] not in owner.groups:
        return False
    resource = single.resources[0]
    _, slash, subresource = resource.partition("/")
    if not (ALL in owner.resources or resource in owner.resources or (slash and f"*/{subresource}" in owner.resources)):
        return False
    return not owner.names or (bool(single.names) and single.names[0] in owner.names)
