"""Keeps the rules of aggregated cluster roles up to date."""

from __future__ import annotations

import msgspec
from prometheus_client import CollectorRegistry

from bosket.apiserver.objects.kind import Registry
from bosket.apiserver.rbac.defaults import aggregate
from bosket.apiserver.rbac.index import GROUP
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.store.resource_store import Event
from bosket.apiserver.store.store import Store
from bosket.apiserver.writing.writer import Writer, own_write
from bosket.kube.selector import InvalidSelector
from bosket.runtime.clock import Clock
from bosket.runtime.controller import Controller

_MANAGER = "clusterrole-aggregation-controller"


class RoleAggregationController:
    """Keeps the rules of aggregated cluster roles up to date; keys are their names."""

    def __init__(
        self, clock: Clock, store: Store, registry: Registry, writer: Writer, *, metrics: CollectorRegistry
    ) -> None:
        self.controller: Controller[str] = Controller(
            "clusterrole-aggregation", self._reconcile, clock=clock, metrics=metrics
        )
        self._queue = self.controller.queue
        self._registry = registry
        self._writer = writer
        self._objects = store.resource(GROUP, "clusterroles", namespaced=False)
        self._aggregated = {entry.name for entry in self._objects.entries() if b'"aggregationRule"' in entry.encoded}
        self._objects.listen(self._on_change)

    def _on_change(self, event: Event) -> None:
        name = event.entry.name
        if event.type != "DELETED" and b'"aggregationRule"' in event.entry.encoded:
            self._aggregated.add(name)
        else:
            self._aggregated.discard(name)
        for each in self._aggregated:
            self._queue.add(each)

    async def _reconcile(self, key: str) -> None:
        entry, kind = self._objects.get("", key), self._registry.at(GROUP, "clusterroles")
        if entry is None or kind is None:
            return
        role = entry.decode()
        if not role.get("aggregationRule"):
            return
        try:
            rules = aggregate(role, (each.decode() for each in self._objects.entries()))
        except (InvalidSelector, msgspec.ValidationError):
            return  # the kind's rules let no such selector in

        def change(doc: Doc) -> Doc:
            doc["rules"] = rules
            return doc

        if role.get("rules") != rules:
            await self._writer.update(own_write(kind, "", _MANAGER), key, change)
