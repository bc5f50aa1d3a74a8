"""Clients that don't keep up."""

from __future__ import annotations

import asyncio

import pytest

from bosket.apiserver.handlers import watch
from tests.apiserver.world import CONFIG_MAPS, World, config_map


async def test_a_watcher_that_reads_nothing_is_dropped_and_others_go_on() -> None:
    world = World(watch_queue=5)
    slow, quick = await world.watch(CONFIG_MAPS), await world.watch(CONFIG_MAPS)
    for number in range(20):
        await world.ok("POST", CONFIG_MAPS, config_map(f"c{number:02}"))
        assert await quick.brief() == ("ADDED", f"c{number:02}")
    assert await slow.ended()
    assert world.server.reader.dropped_watchers == 1
    assert b"apiserver_terminated_watchers_total 1" in (await world.call("GET", "/metrics")).body


async def test_a_client_that_writes_in_a_tight_loop_lets_watchers_keep_up() -> None:
    world = World(watch_queue=1000)
    events = await world.watch(CONFIG_MAPS)
    seen = 0

    async def read() -> None:
        nonlocal seen
        while seen < 3000:
            await events.next()
            seen += 1

    reader = asyncio.create_task(read())
    for number in range(3000):
        await world.ok("POST", CONFIG_MAPS, config_map(f"c{number}"))
    await reader
    assert world.server.reader.dropped_watchers == 0


async def test_a_dropped_watcher_resumes_where_it_was() -> None:
    world = World(watch_queue=2)
    events = await world.watch(CONFIG_MAPS)
    await world.ok("POST", CONFIG_MAPS, config_map("c0"))
    version = (await events.next())["object"]["metadata"]["resourceVersion"]
    for number in range(1, 6):
        await world.ok("POST", CONFIG_MAPS, config_map(f"c{number}"))
    assert await events.ended()
    resumed = await world.watch(CONFIG_MAPS, resourceVersion=version)
    assert [(await resumed.brief())[1] for _ in range(5)] == ["c1", "c2", "c3", "c4", "c5"]


async def test_a_watcher_with_few_but_large_events_pending_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "QUEUE_BYTES", 100_000)
    world = World()
    events = await world.watch(CONFIG_MAPS)
    for number in range(4):
        await world.ok("POST", CONFIG_MAPS, config_map(f"c{number}", {"k": "v" * 60_000}))
    assert await events.ended()
    assert world.server.reader.dropped_watchers == 1
