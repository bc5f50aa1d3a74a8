"""Informers: what a service knows of the cluster, kept up to date by list and watch.

A service asks the shared `Informers` for the kinds it needs, reads their stores and subscribes to changes. Handlers are
synchronous and quick (they put keys on work queues); one that raises is logged and disturbs nobody.
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
    """One kind, mirrored. Does nothing until somebody runs it."""

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
        """`transform` sees each object before the store does, and may make it smaller; `optional`: as `Reflector`."""
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
        """Calls `handler` for every object there is and for every change to come, deletions in a gap included."""
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
        # An object that became malformed stays as it was last known: it is there, and may hold resources.
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
    """The object without the records of server-side apply: half of its size, and nobody here reads them."""
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
    """As much of a kind as a reader needs: a Resource whose Struct knows less (`bosket.api.lean`)."""

    resource: Resource[T]
    #: Sees each object before the store does, when nobody else has it yet.
    transform: Callable[[T], T] | None = None


class _Selection(NamedTuple):
    """What distinguishes two informers."""

    resource: AnyResource
    namespace: str | None
    labels: str | None
    fields: str | None


class Informers:
    """The informers of one process, each shared by all who ask for the same kind and selection."""

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
        """The informer for a kind. It runs as soon as `run` does; at once, if that is running.

        Of a kind that is `optional` to the first who asks, there are no objects while the server doesn't know it.
        `lean` is enough for who asks: whole objects are taken only where somebody else has asked for them already.
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
    """An informer of others', with subscriptions of its own."""

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
    """The informers of a process as one of its services has them, which may end before the process does.

    Watches and stores are those of `trunk`, which runs them; `detach` ends the subscriptions that were made here.
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
        """Nothing that subscribed here hears of changes any more."""
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
