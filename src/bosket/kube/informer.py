"""Informers: stores of the cluster's objects, kept up to date by list and watch.

A service asks the shared `Informers` for the kinds that it needs, reads their stores and subscribes to changes.
Handlers are synchronous and fast (they put keys on work queues); a handler that raises is logged and does not affect
others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar, cast

import msgspec

from bosket.api.resource import AnyResource, Resource
from bosket.kube.client import Client, Page
from bosket.kube.codec import Kind, codec_of
from bosket.kube.reflector import Reflector
from bosket.kube.store import Change, IndexFunction, Store
from bosket.kube.watch import BOOKMARK, DELETED, WatchEvent

T = TypeVar("T")

__all__ = ["Change", "Informer", "InformerBranch", "Informers", "LeanKind", "Store", "without_managed_fields"]


class Informer(Generic[T]):
    """One kind, mirrored. Does nothing until `run` is called."""

    def __init__(
        self,
        client: Client,
        kind: Kind[T],
        *,
        namespace: str | None = None,
        labels: str | None = None,
        fields: str | None = None,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        transform: Callable[[T], T] | None = None,
        optional: bool = False,
    ) -> None:
        """`transform` is called on each object before it is stored, and may shrink it; `optional`: as in
        `Reflector`."""
        self.store: Store[T] = Store(codec_of(kind).resource.kind, indexes, transform)
        self._synced = asyncio.Event()
        self._reflector = Reflector(
            client,
            kind,
            self,
            namespace=namespace,
            labels=labels,
            fields=fields,
            optional=optional,
            transform=self.store.kept,
        )

    def subscribe(self, handler: Callable[[Change[T]], None]) -> None:
        """Calls `handler` for every existing object and for every later change, including deletions during a gap of the
        watch."""
        self.store.subscribe(handler)

    def add_index(self, index: str, function: IndexFunction[T]) -> None:
        self.store.add_index(index, function)

    @property
    def synced(self) -> bool:
        """Whether the first list is in the store and the handlers have seen it."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    async def run(self) -> None:
        """Until cancelled."""
        await self._reflector.run()

    # --- the reflector's sink

    def begin_listing(self) -> None:
        self.store.begin_listing()

    def listed(self, page: Page[T]) -> Generator[None]:
        # An object that became malformed keeps its last good version: it still exists and may hold resources.
        yield from self.store.replacing(page.items, page.resource_version, keep=page.left_out)
        self._synced.set()

    def happened(self, event: WatchEvent[T]) -> None:
        if event.type == DELETED:
            self.store.observe(event.key, None, event.resource_version)
        elif event.type == BOOKMARK or event.object is None:
            self.store.reached(event.resource_version)
        else:
            self.store.observe(event.key, event.object, event.resource_version)


def without_managed_fields(obj: T) -> T:
    """The object without managedFields: half of its size, and nobody here reads them."""
    anything: Any = obj
    if isinstance(anything, dict):
        meta = anything.get("metadata") or {}
        if "managedFields" not in meta:
            return obj
        slim = {name: value for name, value in meta.items() if name != "managedFields"}
        return cast(T, {**anything, "metadata": slim})
    if not anything.metadata.managedFields:
        return obj
    meta = msgspec.structs.replace(anything.metadata, managedFields=())
    return cast(T, msgspec.structs.replace(anything, metadata=meta))


class LeanKind(NamedTuple, Generic[T]):
    """A Resource with a Struct that decodes fewer fields (`bosket.api.lean`)."""

    resource: Resource[T]
    #: Called on each object before it is stored; may change it in place.
    transform: Callable[[T], T] | None = None


class _Selection(NamedTuple):
    """What distinguishes two informers."""

    resource: AnyResource
    namespace: str | None
    labels: str | None
    fields: str | None


class Informers:
    """The informers of one process, shared by all callers with the same kind and selection."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._informers: dict[_Selection, Informer[Any]] = {}
        self._running: asyncio.TaskGroup | None = None

    def of(
        self,
        kind: Kind[T],
        *,
        namespace: str | None = None,
        labels: str | None = None,
        fields: str | None = None,
        optional: bool = False,
        lean: LeanKind[T] | None = None,
    ) -> Informer[T]:
        """The informer for a kind; runs when `run` does.

        `optional` (decided by the first caller): the server may not know the kind, and the store is empty then. `lean`:
        fewer fields suffice for this caller; whole objects are kept if another caller needs them.
        """
        selection = _Selection(codec_of(kind).resource, namespace, labels, fields)
        transform: Callable[[Any], Any] | None = without_managed_fields
        if lean is not None and selection not in self._informers:
            selection = selection._replace(resource=lean.resource)
            kind, transform = lean.resource, lean.transform
        informer = self._informers.get(selection)
        if informer is None:
            informer = Informer(
                self._client,
                kind,
                namespace=namespace,
                labels=labels,
                fields=fields,
                transform=transform,
                optional=optional,
            )
            self._informers[selection] = informer
            self._start(informer)
        return cast("Informer[T]", informer)

    def add_index(self, kind: Kind[T], index: str, function: IndexFunction[T], *, namespace: str | None = None) -> None:
        """Adds an index to the informer of all objects of a kind."""
        self.of(kind, namespace=namespace).add_index(index, function)

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._running = group
                for informer in self._informers.values():
                    self._start(informer)
                await asyncio.Event().wait()
        finally:
            self._running = None

    @property
    def synced(self) -> bool:
        """Whether every informer asked for so far has its first list."""
        return all(informer.synced for informer in self._informers.values())

    async def wait_synced(self) -> None:
        """Until every informer asked for so far has its first list."""
        for informer in list(self._informers.values()):
            await informer.wait_synced()

    def _start(self, informer: Informer[Any]) -> None:
        if self._running is not None:
            self._running.create_task(informer.run())


class _Attached(Informer[T]):
    """An informer of the trunk, with subscriptions of its own."""

    def __init__(self, inner: Informer[T]) -> None:
        self._inner = inner
        self.store = inner.store
        self._handlers: list[Callable[[Change[T]], None]] = []

    def subscribe(self, handler: Callable[[Change[T]], None]) -> None:
        self._handlers.append(handler)
        self.store.subscribe(handler)

    def detach(self) -> None:
        for handler in self._handlers:
            self.store.unsubscribe(handler)

    @property
    def synced(self) -> bool:
        return self._inner.synced

    async def wait_synced(self) -> None:
        await self._inner.wait_synced()

    async def run(self) -> None:
        await asyncio.Event().wait()  # whose informer it is runs it


class InformerBranch(Informers):
    """The informers of a process as seen by one of its services, which may end before the process does.

    Watches and stores are those of `trunk`, which runs them; `detach` ends the subscriptions made here.
    """

    def __init__(self, client: Client, trunk: Informers) -> None:
        super().__init__(client)
        self._trunk = trunk
        self._attached: dict[int, _Attached[Any]] = {}

    def of(
        self,
        kind: Kind[T],
        *,
        namespace: str | None = None,
        labels: str | None = None,
        fields: str | None = None,
        optional: bool = False,
        lean: LeanKind[T] | None = None,
    ) -> Informer[T]:
        inner = self._trunk.of(kind, namespace=namespace, labels=labels, fields=fields, optional=optional, lean=lean)
        return cast("Informer[T]", self._attached.setdefault(id(inner), _Attached(inner)))

    def detach(self) -> None:
        """Ends all subscriptions made through this branch."""
        for each in self._attached.values():
            each.detach()

    async def run(self) -> None:
        """Until cancelled; the trunk does the work."""
        await asyncio.Event().wait()

    @property
    def synced(self) -> bool:
        return all(each.synced for each in self._attached.values())

    async def wait_synced(self) -> None:
        for each in list(self._attached.values()):
            await each.wait_synced()
