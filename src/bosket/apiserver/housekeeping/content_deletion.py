"""Deletes the contents of terminating namespaces, and the objects of deleted definitions."""

from __future__ import annotations

from collections import Counter

from prometheus_client import CollectorRegistry

from bosket.api.meta import DeleteOptions
from bosket.apiserver.custom import definition
from bosket.apiserver.housekeeping.garbage_collector import without_finalizer
from bosket.apiserver.kinds.namespace import KUBERNETES_FINALIZER
from bosket.apiserver.objects.kind import Registry
from bosket.apiserver.objects.status_condition import set_condition
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.store.resource_store import Event
from bosket.apiserver.store.store import Store
from bosket.apiserver.writing.deletion import Deleter
from bosket.apiserver.writing.writer import Writer, own_write
from bosket.runtime.clock import Clock
from bosket.runtime.controller import Controller

_DRAINER = "namespace-controller"
_CONTENT, _FINALIZERS = "NamespaceContentRemaining", "NamespaceFinalizersRemaining"
#: The conditions of a namespace that goes, with reason and message for when there is no such problem.
_FINE = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    _CONTENT: ("ContentRemoved", "All content successfully removed"),
    _FINALIZERS: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


class NamespaceContentDeleter:
    """Keys are names of namespaces that are being deleted."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        registry: Registry,
        writer: Writer,
        deleter: Deleter,
        *,
        metrics: CollectorRegistry,
    ) -> None:
        self.controller: Controller[str] = Controller("namespace", self._reconcile, clock=clock, metrics=metrics)
        self._queue = self.controller.queue
        self._registry = registry
        self._writer = writer
        self._deleter = deleter
        self._namespaces = store.resource("", "namespaces", namespaced=False)
        store.listeners.append(self._on_event)

    def _on_event(self, event: Event) -> None:
        if event.resource_store is self._namespaces:
            if event.type != "DELETED" and event.entry.deleting:
                self._queue.add(event.entry.name)
        elif event.type == "DELETED" and event.entry.namespace:
            namespace = self._namespaces.get("", event.entry.namespace)
            if namespace is not None and namespace.deleting:
                self._queue.add(namespace.name)

    async def _reconcile(self, key: str) -> None:
        namespace = self._namespaces.get("", key)
        if namespace is None or not namespace.deleting:
            return
        remaining: Counter[str] = Counter()
        finalizers: Counter[str] = Counter()
        for kind in list(self._registry):
            if not kind.namespaced:
                continue
            version = next(iter(kind.versions.values()))
            for entry in list(kind.objects.entries(key)):
                left, gone = entry, False
                if not entry.deleting:
                    left, gone = self._deleter.delete(kind, version, key, entry.name, DeleteOptions())
                if not gone:
                    remaining[f"{kind.plural}.{kind.group}"] += 1
                    finalizers.update(left.finalizers)
        namespaces = self._registry.at("", "namespaces")
        assert namespaces is not None
        now = self._writer.now()

        def change(doc: Doc) -> Doc:
            spec = doc.setdefault("spec", {})
            if not remaining:
                spec["finalizers"] = [each for each in spec.get("finalizers", ()) if each != KUBERNETES_FINALIZER]
            _set_conditions(doc, remaining, finalizers, now)
            return doc

        await self._writer.update(own_write(namespaces, "", _DRAINER), key, change)


def _set_conditions(doc: Doc, remaining: Counter[str], finalizers: Counter[str], now: str) -> None:
    """Say how far it is; the reading of kinds, which elsewhere may fail, can't here."""
    conditions = doc.setdefault("status", {}).setdefault("conditions", [])
    problems = {}
    if remaining:
        listed = ", ".join(
            f"{resource} has {count} resource instances" for resource, count in sorted(remaining.items())
        )
        problems[_CONTENT] = ("SomeResourcesRemain", f"Some resources are remaining: {listed}")
    if finalizers:
        listed = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
        message = f"Some content in the namespace has finalizers remaining: {listed}"
        problems[_FINALIZERS] = ("SomeFinalizersRemain", message)
    for kind, fine in _FINE.items():
        reason, message = problems.get(kind, fine)
        condition = {"type": kind, "status": str(kind in problems), "reason": reason, "message": message}
        set_condition(conditions, condition, now)


class CustomResourceFinalizer:
    """Keys are names of definitions that are being deleted."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        registry: Registry,
        writer: Writer,
        deleter: Deleter,
        *,
        metrics: CollectorRegistry,
    ) -> None:
        self.controller: Controller[str] = Controller(
            "custom-resource-finalizer", self._reconcile, clock=clock, metrics=metrics
        )
        self._queue = self.controller.queue
        self._registry = registry
        self._writer = writer
        self._deleter = deleter
        self._definitions = store.resource(definition.GROUP, definition.PLURAL, namespaced=False)
        store.listeners.append(self._on_event)

    def _on_event(self, event: Event) -> None:
        if event.resource_store is self._definitions:
            if event.type != "DELETED" and event.entry.deleting:
                self._queue.add(event.entry.name)
        elif event.type == "DELETED" and len(event.resource_store) == 0:
            found = self._definitions.get("", event.resource_store.resource)
            if found is not None and found.deleting:
                self._queue.add(found.name)

    async def _reconcile(self, key: str) -> None:
        entry = self._definitions.get("", key)
        if entry is None or definition.CLEANUP_FINALIZER not in entry.finalizers:
            return
        spec = entry.decode()["spec"]
        custom = self._registry.at(spec["group"], spec["names"]["plural"])
        if custom is not None:
            version = next(iter(custom.versions.values()))
            for each in list(custom.objects.entries()):
                if not each.deleting:
                    self._deleter.delete(custom, version, each.namespace, each.name, DeleteOptions())
        kind = self._registry.at(definition.GROUP, definition.PLURAL)
        assert kind is not None
        remaining = custom is not None and len(custom.objects) > 0
        now = self._writer.now()

        def change(doc: Doc) -> Doc:
            status = doc["status"] = doc.get("status") or {}
            status["conditions"] = status.get("conditions") or []
            set_condition(status["conditions"], _terminating(remaining=remaining), now)
            return doc if remaining else without_finalizer(definition.CLEANUP_FINALIZER)(doc)

        await self._writer.update(own_write(kind, "", _DRAINER), key, change)


def _terminating(*, remaining: bool) -> dict[str, str]:
    return {
        "type": "Terminating",
        "status": "True" if remaining else "False",
        "reason": "InstanceDeletionInProgress" if remaining else "InstanceDeletionCompleted",
        "message": "CustomResource deletion is in progress" if remaining else "removed all instances",
    }
