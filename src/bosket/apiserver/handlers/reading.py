"""Reading: one object, a list in consistent pages, a watch.

Lists and watches hand out the bytes that the store keeps. A list of a past version is worked out from the history, and
so are the pages that continue one: nothing is kept for clients that may never come back. A client that comes too late
gets 410, with a token to go on inconsistently.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from bosket.apiserver.handlers.representation import Representation, representation_for
from bosket.apiserver.handlers.selection import Selection, parse_selection
from bosket.apiserver.handlers.watch import QUEUE_LIMIT, Watcher, bookmark_line, initial_lines, missed_lines
from bosket.apiserver.request.executor import LARGE_BYTES, LargeObjectExecutor
from bosket.apiserver.request.list_options import EXACT, ListOptions, Token, check_version, list_options
from bosket.apiserver.request.resource_request import ResourceRequest
from bosket.apiserver.status import gone, not_found, version_too_large
from bosket.apiserver.store.entry import Entry
from bosket.apiserver.store.resource_store import Event
from bosket.kube.transport import Response
from bosket.runtime.clock import Clock

#: A watch for which no time-out was asked ends after this long, and up to as long again.
_WATCH_SECONDS = 1800.0

_TOO_OLD = "The resourceVersion for the provided list is too old."
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class Reader:
    """Answers get, list and watch."""

    def __init__(self, clock: Clock, executor: LargeObjectExecutor, *, queue_limit: int = QUEUE_LIMIT) -> None:
        self._clock = clock
        self._executor = executor
        self._queue_limit = queue_limit
        self.watchers: set[Watcher] = set()
        self.dropped_watchers = 0
        #: some watcher has much to read; whoever writes in a loop should let it
        self.crowded = False

    # one object

    async def get(self, request: ResourceRequest) -> Response:
        kind = request.kind
        entry = kind.objects.get(request.namespace, request.name)
        self._check_not_future(request, _version(request.query.get("resourceVersion", "")))
        if entry is None:
            raise not_found(kind.group, kind.plural, request.name)
        return await self.respond(request, entry)

    async def respond(self, request: ResourceRequest, entry: Entry, status: int = 200) -> Response:
        """One object in the form that the client accepts."""
        representation = representation_for(request, self._clock)
        if representation.render is None:
            return Response(status, representation.headers, entry.encoded)
        shown = await self._executor.run(representation.work([entry]), representation.one, entry)
        return Response(status, representation.headers, shown)

    # lists

    async def selected(self, request: ResourceRequest) -> list[Entry]:
        """The objects that a call's selectors mean, now."""
        selection = self.selection(request)
        candidates = selection.candidates(request.kind.objects)
        return await self._executor.run(_work(candidates, selection), selection.among, candidates)

    async def list_page(self, request: ResourceRequest) -> Response:
        options = list_options(request.query, watch=False)
        selection = self.selection(request)
        representation = representation_for(request, self._clock, of_list=True)
        version, candidates, events = self._candidates(request, options, selection)

        def page() -> bytes:
            after = None if options.token is None else (options.token.namespace, options.token.name)
            found = selection.among_at(candidates, events, after=after)
            return _page(found, version, options, selection, representation)

        shown = candidates
        if events:  # a list of the past has objects that are gone or were larger then
            shown = [*candidates, *(event.previous for event in events if event.previous is not None)]
        work = _work(shown, selection, representation)
        return Response(200, representation.headers, await self._executor.run(work, page))

    def _candidates(
        self, request: ResourceRequest, options: ListOptions, selection: Selection
    ) -> tuple[int, list[Entry], list[Event]]:
        """The version that the list, or its rest, is of, the objects it may be about, and what happened since."""
        resource_store = request.kind.objects
        current = resource_store.store.version
        token = options.token
        if token is None and options.match != EXACT:
            self._check_not_future(request, _version(options.version))
            return current, selection.candidates(resource_store), []
        if token is None:
            version, after = int(options.version), None
            self._check_not_future(request, version)
        else:
            version, after = token.version, (token.namespace, token.name)
            if version == 0:
                return current, selection.candidates(resource_store, after=after), []
        events = resource_store.since(version)
        if events is None:
            raise gone(_TOO_OLD) if after is None else gone(_EXPIRED, continue_token=Token(0, *after).encode())
        return version, selection.candidates(resource_store, after=after), events

    # watches

    def watch(self, request: ResourceRequest) -> Watcher:
        options = list_options(request.query, watch=True)
        selection = self.selection(request)
        representation = representation_for(request, self._clock)
        watcher = Watcher(
            request.kind.objects,
            selection,
            backlog=self._backlog(request, options, selection, representation),
            bookmark=self._bookmark(representation) if options.bookmarks else None,
            render=representation.render,
            timeout_seconds=options.timeout_seconds or _WATCH_SECONDS * (1 + random.random()),  # noqa: S311 - spreads reconnects
            queue_limit=self._queue_limit,
            on_close=self._forget,
            on_crowded=self._note_crowd,
        )
        self.watchers.add(watcher)
        return watcher

    def _backlog(
        self, request: ResourceRequest, options: ListOptions, selection: Selection, representation: Representation
    ) -> Iterator[bytes]:
        """The first events of a watch: the objects that exist, or the changes that the client missed."""
        resource_store = request.kind.objects
        if options.initial_events or (options.any_version and options.initial_events is None):
            self._check_not_future(request, _version(options.version))
            last = None
            if options.bookmarks and options.initial_events:
                last = self._bookmark(representation, initial_events_end=True)(resource_store.store.version)
            return initial_lines(selection.candidates(resource_store), selection, representation.render, last)
        if options.any_version:
            return iter(())
        version = int(options.version)
        events = resource_store.since(version)
        if events is None:
            raise gone(f"too old resource version: {version} ({resource_store.oldest_known})")
        return missed_lines(events, selection, representation.render)

    def _note_crowd(self) -> None:
        self.crowded = True

    def _forget(self, watcher: Watcher) -> None:
        self.watchers.discard(watcher)
        self.dropped_watchers += watcher.dropped

    def _bookmark(self, representation: Representation, *, initial_events_end: bool = False) -> Callable[[int], bytes]:
        api_version, kind = representation.object_kind

        def line(version: int) -> bytes:
            return bookmark_line(api_version, kind, version, initial_events_end=initial_events_end)

        return line

    def send_bookmarks(self) -> None:
        """Tell all who want to know that they have seen everything up to now."""
        for watcher in tuple(self.watchers):
            watcher.send_bookmark()

    def close_watches(self) -> None:
        for watcher in tuple(self.watchers):
            watcher.close()

    # parameters

    def selection(self, request: ResourceRequest) -> Selection:
        return parse_selection(request.namespace, request.name, request.query, request.version.strategy.selectable)

    def _check_not_future(self, request: ResourceRequest, version: int) -> None:
        if version > (current := request.kind.objects.store.version):
            raise version_too_large(version, current)


#: What looking at an entry, or at one requirement of a selector for it, is worth in bytes of an object.
_LOOK_BYTES = 40


def _work(candidates: list[Entry], selection: Selection, representation: Representation | None = None) -> int:
    """What it costs to look at the candidates and, with a representation, to show them all."""
    work = len(candidates) * (1 + selection.requirements) * _LOOK_BYTES
    if representation is None or work >= LARGE_BYTES:
        return work  # the sizes of many thousands need not be added up
    return work + representation.work(candidates)


def _page(
    entries: list[Entry], version: int, options: ListOptions, selection: Selection, representation: Representation
) -> bytes:
    """The list, or as much of it as was asked for."""
    metadata: dict[str, object] = {"resourceVersion": str(version)}
    # Whoever takes any version is given all of it, as kube-apiserver does from its cache.
    limit = 0 if options.version == "0" and options.token is None else options.limit
    if limit and len(entries) > limit:
        last = entries[limit - 1]
        metadata["continue"] = Token(version, last.namespace, last.name).encode()
        if not selection.selects_fields_or_labels:  # kube-apiserver can't know otherwise
            metadata["remainingItemCount"] = len(entries) - limit
        entries = entries[:limit]
    return representation.many(entries, metadata)


def _version(text: str) -> int:
    """A version that need not be given; 0 where it isn't."""
    check_version(text)
    return int(text or 0)
