"""Garbage collection: objects whose owners are gone go too.

Three things make work: an object that names an owner which isn't there, an owner that is deleted, and an owner whose
deletion waits for its dependents (`foregroundDeletion`) or for letting them go (`orphan`).
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from bosket.api.meta import DeleteOptions, Preconditions
from bosket.apiserver.objects.kind import Kind, Registry
from bosket.apiserver.store.entry import Doc, Entry
from bosket.apiserver.store.resource_store import Event, ResourceStore
from bosket.apiserver.store.store import Store
from bosket.apiserver.writing.deletion import FOREGROUND, ORPHAN, Deleter
from bosket.apiserver.writing.writer import Change, Write, Writer, own_write
from bosket.runtime.clock import Clock
from bosket.runtime.controller import Controller

_COLLECTOR = "garbage-collector"


class GarbageCollector:
    """Keys are UIDs of objects to look at."""

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
            "garbage-collector", self._reconcile, clock=clock, metrics=metrics
        )
        self._queue = self.controller.queue
        self._store = store
        self._registry = registry
        self._writer = writer
        self._deleter = deleter
        store.listeners.append(self._on_event)

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        if event.type == "DELETED":
            for _, dependent in self._store.dependents(entry.uid):
                self._queue.add(dependent.uid)
            for owner in entry.owners:  # it may have waited for this one
                self._queue.add(owner)
        elif entry.deleting:
            if entry.finalizers:
                self._queue.add(entry.uid)
        elif entry.owners and any(self._owner(owner, entry) is None for owner in entry.owners):
            self._queue.add(entry.uid)

    def _owner(self, uid: str, dependent: Entry) -> Entry | None:
        """The owner with this UID; one in another namespace is none."""
        found = self._store.find(uid)
        if found is None or (found[0].namespaced and found[1].namespace != dependent.namespace):
            return None
        return found[1]

    async def _reconcile(self, key: str) -> None:
        found = self._store.find(key)
        if found is None:
            return
        resource_store, entry = found
        if entry.deleting:
            if FOREGROUND in entry.finalizers:
                await self._wait_for_dependents(resource_store, entry)
            elif ORPHAN in entry.finalizers:
                await self._let_dependents_go(resource_store, entry)
        elif entry.owners:
            await self._collect(resource_store, entry)

    async def _wait_for_dependents(self, resource_store: ResourceStore, owner: Entry) -> None:
        blocked = False
        for _, dependent in self._store.dependents(owner.uid):
            if not dependent.deleting:
                self._queue.add(dependent.uid)
            if any(
                reference["uid"] == owner.uid and reference.get("blockOwnerDeletion")
                for reference in dependent.decode()["metadata"].get("ownerReferences", ())
            ):
                blocked = True
        if not blocked:
            await self._remove_finalizer(resource_store, owner, FOREGROUND)

    async def _let_dependents_go(self, resource_store: ResourceStore, owner: Entry) -> None:
        for dependent_resource, dependent in self._store.dependents(owner.uid):
            await self._drop_owners(dependent_resource, dependent, {owner.uid})
        await self._remove_finalizer(resource_store, owner, ORPHAN)

    async def _collect(self, resource_store: ResourceStore, entry: Entry) -> None:
        """Delete an object unless an owner of it is alive and staying."""
        solid, waiting, absent = False, False, set()
        for reference in entry.decode()["metadata"].get("ownerReferences", ()):
            group = reference["apiVersion"].rpartition("/")[0]
            if self._registry.of(group, reference["kind"]) is None:
                solid = True  # a kind that isn't served: nobody can tell whether it is there
                continue
            found = self._owner(reference["uid"], entry)
            if found is None:
                absent.add(reference["uid"])
            elif found.deleting and FOREGROUND in found.finalizers:
                waiting = True
                absent.add(reference["uid"])
            else:
                solid = True
        if solid:
            if absent:
                await self._drop_owners(resource_store, entry, absent)
            return
        if waiting and self._store.dependents(entry.uid):
            policy = "Foreground"
        elif ORPHAN in entry.finalizers:
            policy = "Orphan"
        else:
            policy = "Foreground" if FOREGROUND in entry.finalizers else "Background"
        kind = self._kind(resource_store)
        options = DeleteOptions(preconditions=Preconditions(uid=entry.uid), propagationPolicy=policy)
        version = next(iter(kind.versions.values()))
        self._deleter.delete(kind, version, entry.namespace, entry.name, options)

    async def _drop_owners(self, resource_store: ResourceStore, entry: Entry, uids: set[str]) -> None:
        def change(doc: Doc) -> Doc:
            metadata = doc["metadata"]
            kept = [each for each in metadata.get("ownerReferences", ()) if each["uid"] not in uids]
            metadata["ownerReferences"] = kept
            if not kept:
                del metadata["ownerReferences"]
            return doc

        await self._writer.update(self._write(resource_store, entry), entry.name, change)

    async def _remove_finalizer(self, resource_store: ResourceStore, entry: Entry, finalizer: str) -> None:
        await self._writer.update(self._write(resource_store, entry), entry.name, without_finalizer(finalizer))

    def _write(self, resource_store: ResourceStore, entry: Entry) -> Write:
        return own_write(self._kind(resource_store), entry.namespace, _COLLECTOR)

    def _kind(self, resource_store: ResourceStore) -> Kind:
        kind = self._registry.at(resource_store.group, resource_store.plural)
        if kind is None:
            raise LookupError(f"{resource_store.resource} is not served")
        return kind


def without_finalizer(finalizer: str) -> Change:
    """The change that takes a finalizer away."""

    def change(doc: Doc) -> Doc:
        metadata = doc["metadata"]
        kept = [each for each in metadata.get("finalizers", ()) if each != finalizer]
        metadata["finalizers"] = kept
        if not kept:
            del metadata["finalizers"]
        return doc

    return change
