"""One watch connection: lines, events, errors."""

from __future__ import annotations

import itertools
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bosket.api.core import Pod
from bosket.api.object import ObjectKey
from bosket.kube.client import Client
from bosket.kube.errors import Forbidden, Gone, ServerError, TransportError, UnexpectedBody
from bosket.kube.watch import BOOKMARK, DELETED, Lines, WatchEvent
from tests.kube.scripted import Refusal, Script, Watch, bookmark, client_of, event, expired, failure, pod


async def watch(client: Client, version: str = "1") -> list[WatchEvent[Pod]]:
    return [each async for each in client.watch(Pod, "ns", resource_version=version, labels="a=b", timeout_seconds=7)]


async def test_events_come_decoded_and_in_order() -> None:
    stream = Watch(event("ADDED", pod("a", 2)), event("MODIFIED", pod("a", 3)) + event("DELETED", pod("a", 4)))
    script = Script(watches=(stream,))
    events = await watch(client_of(script))
    assert [(each.type, each.resource_version) for each in events] == [
        ("ADDED", "2"),
        ("MODIFIED", "3"),
        ("DELETED", "4"),
    ]
    assert events[0].object is not None
    assert (events[0].object.metadata.name, events[0].object.kind) == ("a", "")
    assert script.watch_requests[0].query == (
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("resourceVersion", "1"),
        ("labelSelector", "a=b"),
        ("timeoutSeconds", "7"),
    )
    assert stream.closed


async def test_a_bookmark_carries_only_its_version() -> None:
    events = await watch(client_of(Script(watches=(Watch(bookmark("42")),))))
    assert events == [WatchEvent(BOOKMARK, None, ObjectKey("", ""), "42")]


async def test_an_error_event_raises_what_is_in_it() -> None:
    stream = Watch(event("ADDED", pod("a", 2)), expired())
    with pytest.raises(Gone):
        await watch(client_of(Script(watches=(stream,))))
    assert stream.closed


async def test_a_watch_that_is_refused_raises_its_status() -> None:
    with pytest.raises(Gone):
        await watch(client_of(Script(watches=(Refusal(failure(410, "Gone")),))))
    with pytest.raises(Forbidden):
        await watch(client_of(Script(watches=(Refusal(failure(403, "Forbidden")),))))


async def test_an_error_event_without_a_proper_status_is_a_server_error() -> None:
    with pytest.raises(ServerError, match="odd"):
        await watch(client_of(Script(watches=(Watch(event("ERROR", {"odd": 1})),))))


async def test_a_malformed_object_is_an_event_without_object_that_still_says_whose_it_is() -> None:
    broken = pod("bad", 8)
    broken["spec"]["containers"] = "none"
    events = await watch(client_of(Script(watches=(Watch(event("DELETED", broken), event("ADDED", pod("a", 9))),))))
    assert events[0] == WatchEvent(DELETED, None, ObjectKey("ns", "bad"), "8")
    assert events[1].object is not None


async def test_something_that_is_no_event_is_quoted() -> None:
    with pytest.raises(UnexpectedBody, match="expected a watch event, got '<html>'"):
        await watch(client_of(Script(watches=(Watch(b"<html>\n"),))))


async def test_an_event_that_is_cut_off_is_not_given_out() -> None:
    half = event("ADDED", pod("b", 3))[:-20]
    events = await watch(client_of(Script(watches=(Watch(event("ADDED", pod("a", 2)), half),))))
    assert [each.key.name for each in events] == ["a"]


async def test_a_hang_up_is_a_transport_error() -> None:
    with pytest.raises(TransportError):
        await watch(client_of(Script(watches=(Watch(end=TransportError("gone")),))))


async def test_closing_the_iterator_hangs_up() -> None:
    stream = Watch(event("ADDED", pod("a", 2)), end="silence")
    events = client_of(Script(watches=(stream,))).watch(Pod, resource_version="1")
    async with aclosing(events):
        await anext(events)
    assert stream.closed


@given(
    lines=st.lists(st.binary(min_size=1, max_size=9).map(lambda line: line.replace(b"\n", b"x")), max_size=6),
    cuts=st.lists(st.integers(0, 60), max_size=8),
)
def test_lines_are_found_however_the_chunks_are_cut(lines: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(line + b"\n" for line in lines)
    edges = sorted({0, len(whole), *(min(cut, len(whole)) for cut in cuts)})
    splitter = Lines()
    found = [line for start, end in itertools.pairwise(edges) for line in splitter.feed(whole[start:end])]
    assert found == lines
