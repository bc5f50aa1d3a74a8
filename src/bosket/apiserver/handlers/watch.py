"""A watch: the events of one resource that concern one client, as a stream of JSON lines.

What a watcher has to catch up on (the objects that are there, or the events since its version) is fixed when it starts
and sent in pieces; what happens meanwhile waits in a bounded queue. A client that doesn't keep up loses its watch, not
the server its memory; it resumes from the last version it saw, or gets 410 and lists again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec

from bosket.apiserver.handlers.selection import Selection
from bosket.apiserver.status import JSON, StatusError
from bosket.apiserver.store.entry import Entry, EventType, watch_line
from bosket.apiserver.store.resource_store import Event, ResourceStore

#: Events a watcher may have pending before it is dropped.
QUEUE_LIMIT = 10_000
#: Bytes of such events, however few they are.
QUEUE_BYTES = 64 * 1024 * 1024
#: Events that a watcher in this process is given time to read before more are made.
CROWDED = 256
#: Lines of the initial state that are put together into one chunk.
CHUNK_LINES = 200

#: How an entry is shown to this client (another version, metadata only, a table); None: as it is stored.
Render = Callable[[Entry], bytes]


class Watcher:
    """The stream of one watch. Implements `bosket.kube.transport.Stream`."""

    status = 200

    def __init__(
        self,
        resource_store: ResourceStore,
        selection: Selection,
        *,
        backlog: Iterator[bytes],
        bookmark: Callable[[int], bytes] | None,
        render: Render | None,
        timeout_seconds: float,
        queue_limit: int,
        on_close: Callable[[Watcher], None],
        on_crowded: Callable[[], None],
    ) -> None:
        self.headers = {"content-type": JSON}
        self._objects = resource_store
        self._selection = selection
        self._indexed = selection.indexed(resource_store)
        self._backlog: Iterator[bytes] | None = backlog
        self._bookmark = bookmark
        self._render = render
        self._queue: deque[bytes] = deque()
        self._queue_limit = queue_limit
        self._queued_bytes = 0
        self._on_close = on_close
        self._on_crowded = on_crowded
        self._open = True
        self._waiter: asyncio.Future[None] | None = None
        self.dropped = False
        resource_store.listen(self._on_event, indexed=self._indexed)
        resource_store.on_abandon.add(self._abandoned)
        self._timer = asyncio.get_running_loop().call_later(timeout_seconds, self._expire)

    # called by the resource store

    def _on_event(self, event: Event) -> None:
        kind = event_type_for(self._selection, event)
        if kind is None:
            return
        if len(self._queue) >= self._queue_limit or self._queued_bytes >= QUEUE_BYTES:
            self.dropped = True
            self._queue.clear()
            self.close()
            return
        self._push(event.line(kind) if self._render is None else watch_line(kind, self._render(event.shown(kind))))

    def send_bookmark(self) -> None:
        """Tell the client how far it has come, if it wants to know."""
        if self._bookmark is not None and self._open:
            self._push(self._bookmark(self._objects.store.version))

    def _abandoned(self, reason: StatusError | None) -> None:
        """End the watch, with an error event if there is a reason."""
        if reason is not None:
            self._push(watch_line("ERROR", msgspec.json.encode(reason.status)))
        self.close()

    def _push(self, line: bytes) -> None:
        self._queue.append(line)
        self._queued_bytes += len(line)
        if len(self._queue) == CROWDED:
            self._on_crowded()
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _expire(self) -> None:
        self.send_bookmark()
        self.close()

    def close(self) -> None:
        """No more events; what is queued is still delivered."""
        if self._open:
            self._open = False
            self._objects.unlisten(self._on_event, indexed=self._indexed)
            self._objects.on_abandon.discard(self._abandoned)
            self._timer.cancel()
            self._on_close(self)
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

    # read by the client

    async def __aiter__(self) -> AsyncIterator[bytes]:
        store = self._objects.store
        try:
            if self._backlog is not None:
                backlog, self._backlog = self._backlog, None
                for chunk in backlog:
                    if chunk:
                        if not store.settled:
                            await store.settle()
                        yield chunk
                    await asyncio.sleep(0)
                    if self.dropped:
                        return
            while True:
                if self._queue:
                    chunk = b"".join(self._queue)
                    self._queue.clear()
                    self._queued_bytes = 0
                    if not store.settled:  # nobody hears of what a crash could take back
                        await store.settle()
                    yield chunk
                elif not self._open:
                    return
                else:
                    self._waiter = asyncio.get_running_loop().create_future()
                    try:
                        await self._waiter
                    finally:
                        self._waiter = None
        finally:
            self.close()

    async def read_all(self) -> bytes:
        return b"".join([chunk async for chunk in self])

    async def aclose(self) -> None:
        self._queue.clear()
        self._backlog = None
        self.close()


def event_type_for(selection: Selection, event: Event) -> EventType | None:
    """What an event means to someone who sees only `selection`: objects enter and leave it by changing."""
    now = event.type != "DELETED" and selection.matches(event.entry)
    before = event.previous is not None and selection.matches(event.previous)
    if now:
        return "MODIFIED" if before else "ADDED"
    return "DELETED" if before else None


def initial_lines(
    candidates: list[Entry], selection: Selection, render: Render | None, last: bytes | None
) -> Iterator[bytes]:
    """The state that is there, as ADDED events in chunks, some of them empty; then `last`."""
    for start in range(0, len(candidates), CHUNK_LINES):
        yield b"".join(
            [
                watch_line("ADDED", entry.encoded if render is None else render(entry))
                for entry in selection.among(candidates[start : start + CHUNK_LINES])
            ]
        )
    if last is not None:
        yield last


def missed_lines(events: list[Event], selection: Selection, render: Render | None) -> Iterator[bytes]:
    """The events since a version, as this client would have got them, in chunks, some of them empty."""
    for start in range(0, len(events), CHUNK_LINES):
        lines: list[bytes] = []
        for event in events[start : start + CHUNK_LINES]:
            kind = event_type_for(selection, event)
            if kind is not None:
                lines.append(event.line(kind) if render is None else watch_line(kind, render(event.shown(kind))))
        yield b"".join(lines)


def bookmark_line(api_version: str, kind: str, version: int, *, initial_events_end: bool = False) -> bytes:
    """A BOOKMARK: an object of the kind with nothing but a version."""
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if initial_events_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return watch_line("BOOKMARK", msgspec.json.encode({"kind": kind, "apiVersion": api_version, "metadata": metadata}))
