"""Gives refused definition names to a definition when they become free."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from bosket.apiserver.custom.definition import GROUP, PLURAL, Definitions
from bosket.apiserver.custom.naming import is_settled
from bosket.apiserver.objects.kind import Registry
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.store.resource_store import Event
from bosket.apiserver.store.store import Store
from bosket.apiserver.writing.writer import Write, Writer
from bosket.runtime.clock import Clock
from bosket.runtime.controller import Controller


class NamingController:
    """Gives definitions the names that others have let go. Keys are names of definitions."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        registry: Registry,
        writer: Writer,
        definitions: Definitions,
        *,
        metrics: CollectorRegistry,
    ) -> None:
        self.controller: Controller[str] = Controller(
            "custom-resource-naming", self._reconcile, clock=clock, metrics=metrics
        )
        self._queue = self.controller.queue
        self._registry = registry
        self._writer = writer
        self._settle = definitions.settle_status
        self._objects = store.resource(GROUP, PLURAL, namespaced=False)
        self._objects.listen(self._on_event)

    def _on_event(self, event: Event) -> None:
        if event.type == "ADDED":
            return
        group = event.entry.name.partition(".")[2]
        for entry in self._objects.entries():
            if entry.name.partition(".")[2] == group:
                self._queue.add(entry.name)

    async def _reconcile(self, key: str) -> None:
        entry = self._objects.get("", key)
        if entry is None or is_settled(entry.decode()):
            return
        kind = self._registry.at(GROUP, PLURAL)
        assert kind is not None
        write = Write(kind, kind.versions["v1"], "", "status", trusted=True, manager="definition-names")

        def change(doc: Doc) -> Doc:
            self._settle(doc, self._writer.now())
            return doc

        await self._writer.update(write, key, change)
