"""List and watch for ever: what is resumed, what is listed again, and that nothing is asked in a tight loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bosket.api.core import Pod
from bosket.kube import reflector
from bosket.kube.errors import TransportError
from bosket.kube.informer import Change, Informer
from bosket.kube.transport import Request, Response
from tests.kube.scripted import (
    NotedSleep,
    Refusal,
    Script,
    Watch,
    answer,
    bookmark,
    client_of,
    event,
    expired,
    failure,
    pod,
    pod_list,
)


@asynccontextmanager
async def running(script: Script, clock: NotedSleep | None = None) -> AsyncIterator[Informer[Pod]]:
    """An informer that has worked through the whole script."""
    informer = Informer(client_of(script, clock), Pod)
    task = asyncio.create_task(informer.run())
    try:
        async with asyncio.timeout(120):
            await script.quiet.wait()
        yield informer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def names(informer: Informer[Pod]) -> dict[str, str]:
    return {each.metadata.name: each.metadata.resourceVersion for each in informer.store}


def versions_watched(script: Script) -> list[str]:
    return [dict(request.query)["resourceVersion"] for request in script.watch_requests]


async def test_it_watches_from_the_list_s_version_for_five_to_ten_minutes_with_bookmarks() -> None:
    script = Script(pod_list(10, pod("a", 5)))
    async with running(script) as informer:
        assert names(informer) == {"a": "5"}
    query = dict(script.watch_requests[0].query)
    assert query["resourceVersion"] == "10"
    assert query["allowWatchBookmarks"] == "true"
    assert 300 <= int(query["timeoutSeconds"]) <= 600


async def test_a_clean_end_resumes_at_once_from_the_last_version_heard() -> None:
    clock = NotedSleep()
    script = Script(pod_list(10), watches=(Watch(event("ADDED", pod("a", 11)), bookmark("15")),))
    async with running(script, clock) as informer:
        assert names(informer) == {"a": "11"}
    assert versions_watched(script) == ["10", "15"]
    assert clock.slept == []
    assert len(script.requests) == 1


async def test_a_hang_up_resumes_from_the_last_version_after_a_pause_without_listing() -> None:
    clock = NotedSleep()
    broken = Watch(event("ADDED", pod("a", 11)), end=TransportError("hung up"))
    script = Script(pod_list(10), watches=(broken, TransportError("refused"), Watch(event("DELETED", pod("a", 12)))))
    async with running(script, clock) as informer:
        assert names(informer) == {}
    assert versions_watched(script) == ["10", "11", "11", "12"]
    assert len(script.requests) == 1
    assert len(clock.slept) == 2


@pytest.mark.parametrize("too_old", [Watch(expired()), Refusal(failure(410, "Gone"))], ids=["event", "answer"])
async def test_after_410_the_list_is_taken_again_and_deletions_in_the_gap_reach_the_handlers(too_old: Watch) -> None:
    """Restarting the watch without listing would keep pod a for ever."""
    clock = NotedSleep()
    script = Script(
        pod_list(10, pod("a", 5), pod("b", 6)),
        pod_list(50, pod("b", 40), pod("c", 41)),
        watches=(Watch(event("MODIFIED", pod("a", 11))), too_old),
    )
    changes: list[tuple[str | None, str | None]] = []

    def note(change: Change[Pod]) -> None:
        changes.append(
            (change.old.metadata.name if change.old else None, change.new.metadata.name if change.new else None)
        )

    informer = Informer(client_of(script, clock), Pod)
    informer.subscribe(note)
    task = asyncio.create_task(informer.run())
    async with asyncio.timeout(120):
        await script.quiet.wait()
    task.cancel()
    assert names(informer) == {"b": "40", "c": "41"}
    assert changes[3:] == [("a", None), ("b", "b"), (None, "c")]
    assert versions_watched(script) == ["10", "11", "50"]


async def test_a_server_that_answers_every_watch_with_410_is_not_listed_in_a_tight_loop() -> None:
    clock = NotedSleep()
    script = Script(*[pod_list(10)] * 8, watches=(*[Watch(expired()) for _ in range(7)],))
    async with running(script, clock):
        pass
    assert len(clock.slept) == 6, "only the first is taken for the normal course of things"
    assert all(later >= 0.5 for later in clock.slept)
    assert sum(clock.slept[3:]) > sum(clock.slept[:3])


async def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_tight_loop() -> None:
    clock = NotedSleep()
    script = Script(pod_list(10), watches=(*[Watch(bookmark(str(11 + n))) for n in range(6)],))
    async with running(script, clock):
        pass
    assert len(clock.slept) == 5, "the first short watch is resumed at once"
    assert all(pause >= reflector.SHORTEST_WATCH_SECONDS for pause in clock.slept)


async def test_a_network_that_is_down_is_asked_less_and_less_often() -> None:
    clock = NotedSleep()
    script = Script(pod_list(10), watches=(*[TransportError("refused") for _ in range(12)],))
    async with running(script, clock):
        pass
    assert len(clock.slept) == 12
    assert clock.slept[0] >= 0.25
    assert all(15 <= pause <= 30 for pause in clock.slept[-4:])


@pytest.mark.looptime
@pytest.mark.parametrize(
    "progress",
    [Watch(bookmark("11"), end=TransportError("hung up")), Watch(end=TransportError("hung up"), lasts_seconds=2.0)],
    ids=["an event", "some time"],
)
async def test_after_progress_the_pauses_are_short_again(progress: Watch) -> None:
    clock = NotedSleep()
    down = [TransportError("refused") for _ in range(6)]
    script = Script(pod_list(10), watches=(*down, progress))
    async with running(script, clock):
        pass
    assert clock.slept[5] > 5.0
    assert clock.slept[6] <= 0.5


async def test_a_list_that_fails_is_tried_again() -> None:
    clock = NotedSleep()
    script = Script(failure(403, "Forbidden"), failure(404, "NotFound"), pod_list(10, pod("a", 5)))
    async with running(script, clock) as informer:
        assert informer.synced
        assert names(informer) == {"a": "5"}
    assert len(clock.slept) == 2


@pytest.mark.parametrize(
    "poison",
    [
        Refusal(failure(400, "BadRequest", "invalid resource version")),
        Watch(b"<html>\n"),
        Refusal(
            answer(
                {
                    "kind": "Status",
                    "code": 504,
                    "reason": "Timeout",
                    "message": "Too large resource version: 10, current: 3",
                    "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]},
                },
                504,
            )
        ),
    ],
    ids=["bad request", "garbage", "version from the future"],
)
async def test_what_would_fail_for_ever_from_the_same_version_is_listed_again(poison: Watch) -> None:
    clock = NotedSleep()
    script = Script(pod_list(10), pod_list(20, pod("a", 15)), watches=(poison,))
    async with running(script, clock) as informer:
        assert names(informer) == {"a": "15"}
    assert versions_watched(script) == ["10", "20"]
    assert len(clock.slept) == 1


async def test_a_busy_server_is_asked_again_from_the_same_version() -> None:
    script = Script(pod_list(10), watches=(Refusal(failure(429)), Refusal(failure(503)), Refusal(failure(401))))
    async with running(script):
        pass
    assert versions_watched(script) == ["10"] * 4
    assert len(script.requests) == 1


async def test_a_busy_server_that_says_for_how_long_is_given_that_time() -> None:
    clock = NotedSleep()
    busy = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "busy"}
    refusal = Refusal(answer({**busy, "details": {"retryAfterSeconds": 9}}, 429))
    async with running(Script(pod_list(10), watches=(refusal,)), clock):
        pass
    assert 9.0 < clock.slept[0] < 10.0


async def test_a_malformed_object_stops_nothing_and_its_deletion_is_noticed() -> None:
    broken = pod("a", 11)
    broken["spec"] = 5
    stream = Watch(event("MODIFIED", broken), event("ADDED", pod("b", 12)), event("DELETED", {**broken, "spec": 6}))
    script = Script(
        pod_list(10, pod("a", 5)), watches=(Watch(event("MODIFIED", broken), event("ADDED", pod("b", 12))),)
    )
    async with running(script) as informer:
        assert names(informer) == {"a": "5", "b": "12"}, "what was last known of it stays"
    script = Script(pod_list(10, pod("a", 5)), watches=(stream,))
    async with running(script) as informer:
        assert names(informer) == {"b": "12"}


async def test_an_object_that_is_malformed_in_a_second_list_stays_as_last_known() -> None:
    broken = pod("a", 30)
    broken["spec"] = 5
    script = Script(pod_list(10, pod("a", 5)), pod_list(40, broken), watches=(Watch(expired()),))
    async with running(script) as informer:
        assert names(informer) == {"a": "5"}


async def test_a_fault_of_our_own_leaves_no_informer_dead(caplog: pytest.LogCaptureFixture) -> None:
    class Surprising(Script):
        async def request(self, request: Request) -> Response:
            if not self.requests:
                self.requests.append(request)
                raise ZeroDivisionError
            return await super().request(request)

    clock = NotedSleep()
    script = Surprising(pod_list(10, pod("a", 5)))
    async with running(script, clock) as informer:
        assert names(informer) == {"a": "5"}
    assert len(clock.slept) == 1
    assert "ZeroDivisionError" in caplog.text


async def test_an_own_write_is_laid_over_until_the_watch_shows_it() -> None:
    script = Script(pod_list(10, pod("a", 5)), answer(pod("a", 11)))
    async with running(script) as informer:
        written = await client_of(script).get(Pod, "a", "ns")
        informer.store.put(written)
        assert names(informer) == {"a": "11"}


async def test_of_an_optional_kind_that_is_not_served_there_are_no_objects_until_it_is() -> None:
    clock = NotedSleep()
    script = Script(failure(404, "NotFound"), failure(404, "NotFound"), pod_list(10, pod("a", 5)))
    informer = Informer(client_of(script, clock), Pod, optional=True)
    task = asyncio.create_task(informer.run())
    async with asyncio.timeout(120):
        await informer.wait_synced()
        assert names(informer) == {}
        await script.quiet.wait()
    assert names(informer) == {"a": "5"}
    assert len(clock.slept) == 2
    assert min(clock.slept) > 10
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_objects_of_an_optional_kind_go_with_its_definition() -> None:
    gone = Refusal(failure(404, "NotFound"))
    script = Script(pod_list(10, pod("a", 5)), failure(404, "NotFound"), pod_list(20), watches=(gone,))
    seen: list[Change[Pod]] = []
    informer = Informer(client_of(script), Pod, optional=True)
    informer.subscribe(seen.append)
    task = asyncio.create_task(informer.run())
    async with asyncio.timeout(120):
        await script.quiet.wait()
    assert [(change.old is None, change.new is None) for change in seen] == [(True, False), (False, True)]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_others_have_turns_while_more_comes_than_is_taken_in() -> None:
    """A stream that always has the next chunk never waits by itself."""
    events = [event("MODIFIED", pod("a", version)) for version in range(11, 2011)]
    script = Script(pod_list(10, pod("a", 10)), watches=(Watch(*events),))
    turns: list[str] = []

    async def others() -> None:
        while not script.quiet.is_set():
            turns.append(names(informer).get("a", ""))
            await asyncio.sleep(0)

    informer = Informer(client_of(script, None), Pod)
    async with asyncio.timeout(120):
        tasks = [asyncio.create_task(informer.run()), asyncio.create_task(others())]
        await script.quiet.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(set(turns)) >= len(events) / 2 / reflector._EVENTS_AT_ONCE


async def test_others_have_turns_while_handlers_are_told_of_a_long_list() -> None:
    script = Script(pod_list(10, *(pod(f"p{number}", number) for number in range(1, 1001))))
    told: list[str] = []
    turns: list[int] = []
    informer = Informer(client_of(script, None), Pod)
    informer.subscribe(lambda change: told.append("told"))

    async def others() -> None:
        while not informer.synced:
            turns.append(len(told))
            await asyncio.sleep(0)

    async with asyncio.timeout(120):
        tasks = [asyncio.create_task(informer.run()), asyncio.create_task(others())]
        await script.quiet.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(told) == 1000
    assert len(set(turns)) > 10
