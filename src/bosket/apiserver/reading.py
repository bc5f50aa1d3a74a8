"""The way out: one object, a list in consistent pages, a watch.

Lists and watches hand out the bytes that the store keeps. A page cut off by `limit` leaves the rest of the list,
here until it is asked for or forgotten; who comes too late is told 410, with a token to go on inconsistently.
"""

from __future__ import annotations

import base64
import random
from collections import OrderedDict
from collections.abc import Callable, Iterator

import msgspec

from bosket.apiserver.call import Call
from bosket.apiserver.representation import Representation, representation_for
from bosket.apiserver.selection import Selection, parse_selection
from bosket.apiserver.status import (
    bad_request,
    forbidden_field,
    gone,
    invalid_options,
    not_found,
    not_supported,
    version_too_large,
)
from bosket.apiserver.store import Entry
from bosket.apiserver.watch import QUEUE_LIMIT, Watcher, bookmark_line, initial_lines, missed_lines
from bosket.kube.transport import Response
from bosket.runtime.clock import Clock

#: Lists that were cut off and may still be continued.
_KEPT_LISTS = 64
#: A watch for which no time-out was asked ends after this long, and up to as long again.
_WATCH_SECONDS = 1800.0

_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class _Token(msgspec.Struct, frozen=True):
    """A continue token: the version of the list, and the key after which it goes on; version 0: as things are now."""

    version: int
    after_namespace: str
    after_name: str
    list_id: int

    def encode(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def _decode_token(text: str) -> _Token:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=_Token)
    except (ValueError, msgspec.MsgspecError):
        raise bad_request("continue key is not valid: it must be the token of an earlier answer, unchanged") from None


class Reader:
    """Answers get, list and watch."""

    def __init__(self, clock: Clock, *, queue_limit: int = QUEUE_LIMIT) -> None:
        self._clock = clock
        self._queue_limit = queue_limit
        self._lists: OrderedDict[int, tuple[int, list[Entry]]] = OrderedDict()
        self._next_list = 1
        self.watchers: set[Watcher] = set()
        self.dropped_watchers = 0
        #: some watcher has much to read; whoever writes in a loop should let it
        self.crowded = False

    # one object

    def get(self, call: Call) -> Response:
        kind = call.kind
        entry = kind.shelf.get(call.namespace, call.name)
        self._check_not_future(call)
        if entry is None:
            raise not_found(kind.group, kind.plural, call.name)
        return self.answer(call, entry)

    def answer(self, call: Call, entry: Entry, status: int = 200) -> Response:
        """One object in the form that the client accepts."""
        representation = representation_for(call, self._clock)
        return Response(status, representation.headers, representation.one(entry))

    # lists

    def list_page(self, call: Call) -> Response:
        selection = self.selection(call)
        store = call.kind.shelf.store
        representation = representation_for(call, self._clock)
        limit = _non_negative(call, "limit") or 0
        token_text = call.query.get("continue")
        remaining: int | None = None
        version = store.version
        if token_text:
            token = _decode_token(token_text)
            version, entries = self._continued(call, token, selection)
        else:
            self._check_version_match(call)
            entries = list(selection.entries(call.kind.shelf))
        token_text = ""
        if limit and len(entries) > limit:
            remaining = len(entries) - limit
            token_text = self._keep(version, entries[limit:], entries[limit - 1])
            entries = entries[:limit]
            if selection.selects_fields_or_labels:
                remaining = None  # as kube-apiserver, which can't know
        metadata: dict[str, object] = {"resourceVersion": str(version)}
        if token_text:
            metadata["continue"] = token_text
            if remaining is not None:
                metadata["remainingItemCount"] = remaining
        return Response(200, representation.headers, representation.many(entries, metadata))

    def _keep(self, version: int, rest: list[Entry], last: Entry) -> str:
        list_id = self._next_list
        self._next_list += 1
        self._lists[list_id] = (version, rest)
        while len(self._lists) > _KEPT_LISTS:
            self._lists.popitem(last=False)
        return _Token(version, last.namespace, last.name, list_id).encode()

    def _continued(self, call: Call, token: _Token, selection: Selection) -> tuple[int, list[Entry]]:
        if token.version:
            kept = self._lists.get(token.list_id)
            if kept is None or kept[0] != token.version:
                inconsistent = _Token(0, token.after_namespace, token.after_name, 0).encode()
                raise gone(_EXPIRED, continue_token=inconsistent)
            return kept
        after = (token.after_namespace + "/", token.after_name)
        entries = [entry for entry in selection.entries(call.kind.shelf) if (entry.namespace + "/", entry.name) > after]
        return call.kind.shelf.store.version, entries

    # watches

    def watch(self, call: Call) -> Watcher:
        selection = self.selection(call)
        shelf = call.kind.shelf
        representation = representation_for(call, self._clock)
        render = representation.render
        bookmarks = call.flag("allowWatchBookmarks")
        initial = call.query.get("sendInitialEvents")
        if initial is not None and call.query.get("resourceVersionMatch") != "NotOlderThan":
            detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise invalid_options("ListOptions", forbidden_field("resourceVersionMatch", detail))
        asked = call.query.get("resourceVersion", "")
        backlog: Iterator[bytes]
        if call.flag("sendInitialEvents") or (asked in ("", "0") and initial is None):
            if asked not in ("", "0"):
                self._check_not_future(call)
            last = None
            if bookmarks and call.flag("sendInitialEvents"):
                last = self._bookmark(representation, initial_events_end=True)(shelf.store.version)
            backlog = initial_lines(list(selection.entries(shelf)), render, last)
        elif asked in ("", "0"):
            backlog = iter(())
        else:
            version = _version(asked)
            events = shelf.since(version)
            if events is None:
                raise gone(f"too old resource version: {version} ({shelf.oldest_known})")
            backlog = missed_lines(events, selection, render)
        seconds = _non_negative(call, "timeoutSeconds")
        watcher = Watcher(
            shelf,
            selection,
            backlog=backlog,
            bookmark=self._bookmark(representation) if bookmarks else None,
            render=render,
            timeout_seconds=seconds or _WATCH_SECONDS * (1 + random.random()),  # noqa: S311 - spreads reconnects
            queue_limit=self._queue_limit,
            on_close=self._forget,
            on_crowded=self._note_crowd,
        )
        self.watchers.add(watcher)
        return watcher

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

    def selection(self, call: Call) -> Selection:
        return parse_selection(call.namespace, call.query, call.version.strategy.selectable)

    def _check_version_match(self, call: Call) -> None:
        """We serve the newest state, which is never older than asked for; an exact past one only by chance."""
        match, asked = call.query.get("resourceVersionMatch"), call.query.get("resourceVersion", "")
        field = "resourceVersionMatch"
        if match is not None and match not in ("Exact", "NotOlderThan", ""):
            raise invalid_options("ListOptions", not_supported(field, match, ("Exact", "NotOlderThan", "")))
        if match and not asked:
            detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            raise invalid_options("ListOptions", forbidden_field(field, detail))
        if match == "Exact":
            version, current = _version(asked), call.kind.shelf.store.version
            if version == 0:
                detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
                raise invalid_options("ListOptions", forbidden_field(field, detail))
            if version < current and call.kind.shelf.since(version) != []:
                raise gone(f"The resourceVersion for the provided list is too old: {version}")
        self._check_not_future(call)

    def _check_not_future(self, call: Call) -> None:
        asked = call.query.get("resourceVersion", "")
        if asked not in ("", "0") and (version := _version(asked)) > (current := call.kind.shelf.store.version):
            raise version_too_large(version, current)


def _version(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise bad_request(f"invalid resource version {text!r}: it must be a number from an earlier answer")
    return int(text)


def _non_negative(call: Call, name: str) -> int | None:
    text = call.query.get(name)
    if text is None or text == "":
        return None
    try:
        value = int(text)
    except ValueError:
        raise bad_request(f"parameter {name}: {text!r} is not a number") from None
    if value < 0:
        raise bad_request(f"parameter {name} must not be negative, got {value}")
    return value
