"""Cluster roles that are made of others: those whose labels a selector of theirs matches, in order of their names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from bosket.api.object import LabelSelector
from bosket.apiserver.chore import Chore
from bosket.apiserver.entry import Doc, Event
from bosket.apiserver.gc import own_write
from bosket.apiserver.kind import Registry
from bosket.apiserver.rbac.index import GROUP
from bosket.apiserver.store import Store
from bosket.apiserver.write import Writer
from bosket.kube.selector import InvalidSelector, label_selector
from bosket.runtime.clock import Clock

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


class Aggregation(Chore[str]):
    """Keeps the rules of aggregated cluster roles up to date; keys are their names."""

    def __init__(self, clock: Clock, store: Store, registry: Registry, writer: Writer) -> None:
        super().__init__(clock)
        self._registry = registry
        self._writer = writer
        self._shelf = store.shelf(GROUP, "clusterroles", namespaced=False)
        self._aggregated = {entry.name for entry in self._shelf.entries() if b'"aggregationRule"' in entry.encoded}
        self._shelf.listen(self._on_change)

    def _on_change(self, event: Event) -> None:
        name = event.entry.name
        if event.type != "DELETED" and b'"aggregationRule"' in event.entry.encoded:
            self._aggregated.add(name)
        else:
            self._aggregated.discard(name)
        for each in self._aggregated:
            self.add(each)

    async def handle(self, key: str) -> None:
        entry, kind = self._shelf.get("", key), self._registry.at(GROUP, "clusterroles")
        if entry is None or kind is None:
            return
        role = entry.decode()
        if not role.get("aggregationRule"):
            return
        try:
            rules = aggregate(role, (each.decode() for each in self._shelf.entries()))
        except (InvalidSelector, msgspec.ValidationError):
            return  # the kind's rules let no such selector in

        def change(doc: Doc) -> Doc:
            doc["rules"] = rules
            return doc

        if role.get("rules") != rules:
            await self._writer.update(own_write(kind, "", _MANAGER), key, change)
