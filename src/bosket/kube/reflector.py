"""Reflector: keeps a sink up to date with the server: list, then watch, for ever.

The reflector alone handles resourceVersions, bookmarks, 410 Gone and back-off. Its sink (an informer) receives whole
lists and single events. Whatever the server or the network does, the reflector tries again, but never in a tight loop.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Generator
from contextlib import aclosing
from typing import Generic, Protocol, TypeVar

from prometheus_client import Counter

from bosket.kube.client import Client, Page
from bosket.kube.codec import Kind, codec_of
from bosket.kube.errors import ApiError, BadRequest, Gone, Invalid, KubeError, NotFound, UnexpectedBody
from bosket.kube.watch import BOOKMARK, WatchEvent

T = TypeVar("T")

log = logging.getLogger(__name__)

#: Registered nowhere: whoever exports metrics registers it.
RELISTS = Counter("bosket_reflector_lists", "Lists that a reflector asked for", ["kind"], registry=None)

#: A watch that ends sooner than this is suspicious: after a second one in a row the reflector waits.
SHORTEST_WATCH_SECONDS = 1.0
_BASE_SECONDS = 0.5
_LIMIT_SECONDS = 30.0
#: Watch events between two yields to the event loop: a few milliseconds.
_EVENTS_AT_ONCE = 32
#: Seconds between attempts at a kind that the server doesn't serve.
_UNSERVED_SECONDS = 15.0


class Sink(Protocol[T]):
    """The receiver of lists and events. Must not raise."""

    def begin_listing(self) -> None: ...

    def listed(self, page: Page[T]) -> Generator[None]:
        """Receives a whole list, object by object; the event loop runs in between."""
        ...

    def happened(self, event: WatchEvent[T]) -> None:
        """Receives an event; also of a malformed object (`event.object` None), so that its deletion is noticed."""
        ...


class Reflector(Generic[T]):
    """Lists and watches one kind, in one namespace or in all, with one pair of selectors."""

    def __init__(
        self,
        client: Client,
        kind: Kind[T],
        sink: Sink[T],
        *,
        namespace: str | None = None,
        labels: str | None = None,
        fields: str | None = None,
        optional: bool = False,
        transform: Callable[[T], T] | None = None,
    ) -> None:
        """`optional`: the server may not serve the kind; there are no objects then. `transform` is called on each
        object of a list on arrival; events are transformed by the sink."""
        self._client = client
        self._transform = transform
        self._kind = kind
        self._optional = optional
        self._is_served = True
        self._name = codec_of(kind).resource.kind
        self._sink = sink
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        #: the resourceVersion to watch from; None: list first
        self._version: str | None = None
        #: failures since the last progress of the watch
        self._failures = 0
        self._short_watches = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                if self._version is None:
                    await self._list()
                await self._watch()
            except NotFound as error:
                if not self._optional:
                    await self._recover(error)
                    continue
                await self._wait_to_be_served()
            except KubeError as error:
                await self._recover(error)
            except Exception:
                # Whatever is raised, the loop must go on: a dead reflector would leave the services with stale stores.
                log.exception("reflecting %s failed; starting over", self._name)
                self._version = None
                await self._back_off()

    async def _list(self) -> None:
        RELISTS.labels(self._name).inc()
        # Before the request: a write that finishes while the list is under way may be missing in it.
        self._sink.begin_listing()
        page = await self._client.list(
            self._kind, self._namespace, labels=self._labels, fields=self._fields, transform=self._transform
        )
        for _ in self._sink.listed(page):
            await asyncio.sleep(0)
        self._version = page.resource_version
        self._is_served = True

    async def _watch(self) -> None:
        """One connection, to its clean end."""
        assert self._version is not None
        loop = asyncio.get_running_loop()
        started = loop.time()
        events = self._client.watch(
            self._kind,
            self._namespace,
            resource_version=self._version,
            labels=self._labels,
            fields=self._fields,
            # Jitter, so that the watches of a service don't all reconnect at the same moment.
            timeout_seconds=random.randint(300, 600),  # noqa: S311 - not a secret
        )
        try:
            async with aclosing(events):
                taken = 0
                async for event in events:
                    self._take(event)
                    taken += 1
                    # A stream with buffered data never awaits, so the loop is given a turn explicitly.
                    if taken % _EVENTS_AT_ONCE == 0:
                        await asyncio.sleep(0)
        finally:
            lasted = loop.time() - started
            # A watch that lived for a while was healthy, even without a single event.
            if lasted >= SHORTEST_WATCH_SECONDS:
                self._failures = 0
        self._short_watches = self._short_watches + 1 if lasted < SHORTEST_WATCH_SECONDS else 0
        if self._short_watches > 1:
            await self._client.clock.sleep(SHORTEST_WATCH_SECONDS * random.uniform(1.0, 1.5))  # noqa: S311 - as above

    def _take(self, event: WatchEvent[T]) -> None:
        # Advanced by every event and bookmark, so that a reconnect repeats nothing.
        if event.resource_version:
            self._version = event.resource_version
        self._failures = 0
        if event.type == BOOKMARK or event.key.name:
            self._sink.happened(event)

    async def _wait_to_be_served(self) -> None:
        """The kind may be installed later, or again."""
        if self._is_served:
            log.info("the server doesn't know the kind %s; it is asked again from time to time", self._name)
        self._is_served = False
        self._version = None
        for _ in self._sink.listed(Page([], "")):
            pass
        await self._client.clock.sleep(_UNSERVED_SECONDS * random.uniform(0.8, 1.0))  # noqa: S311 - as above

    async def _recover(self, error: KubeError) -> None:
        if isinstance(error, Gone):
            log.info("watch of %s: the version is too old, listing again", self._name)
            self._version = None
            # A 410 once is normal (the version became too old). Again without any event in between, it is not: back
            # off.
            if self._failures == 0:
                self._failures = 1
                return
        elif _needs_list(error):
            self._version = None
        log.warning("watch of %s: %s", self._name, error)
        await self._back_off(error.details.retryAfterSeconds if isinstance(error, ApiError) else 0.0)

    async def _back_off(self, asked_for_seconds: float = 0.0) -> None:
        """Sleeps between half of and the full delay, which doubles: jitter without ever being zero."""
        delay = min(_LIMIT_SECONDS, _BASE_SECONDS * 2.0 ** min(self._failures, 16))
        self._failures += 1
        pause = delay * random.uniform(0.5, 1.0)  # noqa: S311 - as above
        await self._client.clock.sleep(pause + min(_LIMIT_SECONDS, asked_for_seconds))


def _needs_list(error: KubeError) -> bool:
    """Whether going on from the same version would fail the same way again."""
    if not isinstance(error, ApiError):
        return False
    if any(cause.reason == "ResourceVersionTooLarge" for cause in error.details.causes):
        return True
    return isinstance(error, BadRequest | Invalid | UnexpectedBody)
