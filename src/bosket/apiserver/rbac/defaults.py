"""The roles and bindings that a cluster has from the start: `default_roles.txt`, as objects.

Doing it again, on a store that outlived its server, adds what is missing and leaves the rest to its administrators;
roles whose annotation says `autoupdate: "false"` are theirs altogether.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from bosket.api.object import LabelSelector
from bosket.apiserver.objects.metadata import begin
from bosket.apiserver.rbac.index import GROUP
from bosket.apiserver.rbac.rule import Rule, not_covered
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.store.store import Store
from bosket.kube.selector import label_selector

_AGGREGATE: Final = f"{GROUP}/aggregate-to-"
_AUTO_UPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
_CORE: Final = "core"
_SUBJECTS: Final = {"user": "User", "group": "Group", "account": "ServiceAccount"}


def install_default_roles(store: Store, now: str) -> None:
    """Put into the store what isn't there yet."""
    for plural, template in default_roles():
        resource_store = store.resource(GROUP, plural, namespaced=not plural.startswith("cluster"))
        metadata = {**template["metadata"]}
        entry = resource_store.get(metadata.get("namespace", ""), metadata["name"])
        if entry is None:
            begin(metadata, now=now, generation=False)
            resource_store.insert({**template, "metadata": metadata}, creator="kube-apiserver")
        else:
            doc = entry.decode()
            if _complete(doc, template):
                resource_store.replace(entry, doc)


def _complete(doc: Doc, template: Doc) -> bool:
    """Add the rules and subjects that are missing; whether there were any."""
    if (doc["metadata"].get("annotations") or {}).get(_AUTO_UPDATE) == "false" or "aggregationRule" in template:
        return False
    rules = [Rule.parse(rule) for rule in doc.get("rules") or ()]
    missing = [rule.doc() for rule in not_covered(rules, [Rule.parse(rule) for rule in template.get("rules", ())])]
    absent = [each for each in template.get("subjects", ()) if each not in (doc.get("subjects") or ())]
    if missing:
        doc["rules"] = [*(doc.get("rules") or ()), *missing]
    if absent:
        doc["subjects"] = [*(doc.get("subjects") or ()), *absent]
    return bool(missing or absent)


@lru_cache(maxsize=1)
def default_roles() -> tuple[tuple[str, Doc], ...]:
    """All of them, by resource; not to be changed. Aggregated roles come last, with the rules of the others."""
    found = [(plural, doc) for plural, doc in _parse(files(__package__).joinpath("default_roles.txt").read_text())]
    cluster_roles = {doc["metadata"]["name"]: doc for plural, doc in found if plural == "clusterroles"}
    for name in ("view", "edit", "admin"):  # each is part of the next
        cluster_roles[name]["rules"] = aggregate(cluster_roles[name], cluster_roles.values())
    return tuple(found)


def _parse(text: str) -> Iterator[tuple[str, Doc]]:
    role: Doc = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if line.startswith(" "):
            role["rules"].append(_rule(line.split()))
            continue
        name, *words = line.split()
        options = [(word.partition("=")[0], word.partition("=")[2]) for word in words]
        role = _role(name, options)
        plural = "roles" if role["kind"] == "Role" else "clusterroles"
        yield plural, role
        if subjects := [_subject(key, value) for key, value in options if key in _SUBJECTS]:
            yield f"{role['kind'].lower()}bindings", _binding(role, dict(options).get("bound-as", name), subjects)


def _role(name: str, options: list[tuple[str, str]]) -> Doc:
    chosen = dict(options)
    namespace = chosen.get("in", "")
    doc = _object("Role" if namespace else "ClusterRole", name, namespace)
    if part_of := chosen.get("part-of"):
        doc["metadata"]["labels"][f"{_AGGREGATE}{part_of}"] = "true"
    if made_of := chosen.get("made-of"):
        selector = {"matchLabels": {f"{_AGGREGATE}{made_of}": "true"}}
        doc["aggregationRule"] = {"clusterRoleSelectors": [selector]}
    doc["rules"] = []
    return doc


def _rule(words: list[str]) -> dict[str, Any]:
    verbs, groups, *rest = (word.split(",") for word in words)
    if groups == ["paths"]:
        return {"verbs": verbs, "nonResourceURLs": rest[0]}
    rule: dict[str, Any] = {
        "verbs": verbs,
        "apiGroups": ["" if group == _CORE else group for group in groups],
        "resources": rest[0],
    }
    if len(rest) > 1:
        rule["resourceNames"] = rest[1]
    return rule


def _subject(key: str, value: str) -> dict[str, str]:
    if key == "account":
        namespace, _, name = value.partition("/")
        return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return {"kind": _SUBJECTS[key], "apiGroup": GROUP, "name": value}


def _binding(role: Doc, name: str, subjects: list[dict[str, str]]) -> Doc:
    doc = _object(f"{role['kind']}Binding", name, role["metadata"].get("namespace", ""))
    doc["subjects"] = subjects
    doc["roleRef"] = {"apiGroup": GROUP, "kind": role["kind"], "name": role["metadata"]["name"]}
    return doc


def _object(kind: str, name: str, namespace: str) -> Doc:
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    metadata["annotations"] = {_AUTO_UPDATE: "true"}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata}


_MANAGER = "clusterrole-aggregation-controller"


def aggregate(role: Doc, others: Iterable[Doc]) -> list[dict[str, Any]]:
    """The rules of a cluster role with an aggregation rule; `others` are all cluster roles."""
    selectors = role["aggregationRule"].get("clusterRoleSelectors") or ()
    matchers = [label_selector(msgspec.convert(selector, LabelSelector)) for selector in selectors]
    rules: list[dict[str, Any]] = []
    for other in sorted(others, key=lambda each: str(each["metadata"]["name"])):
        if other["metadata"]["name"] == role["metadata"]["name"]:
            continue
        labels = other["metadata"].get("labels") or {}
        if any(matcher.matches(labels) for matcher in matchers):
            rules += [rule for rule in other.get("rules") or () if rule not in rules]
    return rules
