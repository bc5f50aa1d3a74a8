"""Large writes at once hold no more memory than there is a budget for; small requests and lists don't notice."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bosket.apiserver.request.byte_budget import ByteBudget
from bosket.apiserver.request.executor import LARGE_BYTES, LargeObjectExecutor
from bosket.apiserver.server.api_server import ApiServer
from bosket.apiserver.status import StatusError
from bosket.runtime.clock import SystemClock
from tests.apiserver.test_loop_turns import TABLE, Threaded
from tests.apiserver.world import CONFIG_MAPS, MERGE, Answer, World

LARGE = {"k": "v" * 100_000}


def config_map(name: str, data: dict[str, str]) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": data}


class Busy(Threaded):
    """A server whose thread for writes can be kept busy, with a budget of five large writes."""

    def __init__(self) -> None:
        super().__init__()
        self.server._byte_budget = ByteBudget(550_000)

    def as_user(self, name: str) -> World:
        """The same server, spoken to by somebody else."""
        world = World.__new__(World)
        world.server, world.clock = self.server, self.clock
        world.transport = self.server.transport(name)
        return world

    @contextmanager
    def writes_held_up(self) -> Iterator[None]:
        thread = self.server._executor._thread
        assert thread is not None
        free = threading.Event()
        thread.submit(free.wait)
        try:
            yield
        finally:
            free.set()


def start(world: World, name: str) -> asyncio.Task[Answer]:
    return asyncio.create_task(world.call("POST", CONFIG_MAPS, config_map(name, LARGE)))


async def turns() -> None:
    """Let the loop go on until all that can be answered without a thread is."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_large_writes_beyond_the_budget_are_refused_and_may_come_again() -> None:
    world = Busy()
    await world.ok("GET", CONFIG_MAPS)
    users = [world.as_user(f"user-{index}") for index in range(7)]
    with world.writes_held_up():
        tasks = [start(user, f"c{index}") for index, user in enumerate(users)]
        await turns()
        assert [each.done() for each in tasks] == [False] * 5 + [True] * 2
        for refused in (each.result() for each in tasks[5:]):
            assert (refused.status, refused.headers["retry-after"]) == (429, "1")
            assert refused.body["reason"] == "TooManyRequests"
            assert refused.body["details"]["retryAfterSeconds"] == 1
    assert [(await each).status for each in tasks[:5]] == [201] * 5
    assert (await start(users[6], "c6")).status == 201  # what was held is given back
    assert not world.server._byte_budget._held_bytes
    world.server.close()


async def test_a_small_patch_of_a_large_object_is_weighed_by_the_object() -> None:
    world = Busy()
    for name in ("a", "b", "c"):
        await world.ok("POST", CONFIG_MAPS, config_map(name, LARGE))
    patch = {"metadata": {"labels": {"a": "b"}}}
    with world.writes_held_up():
        tasks = [
            asyncio.create_task(world.call("PATCH", f"{CONFIG_MAPS}/{name}", patch, MERGE)) for name in ("a", "b", "c")
        ]
        await turns()
        assert [each.done() for each in tasks] == [False, False, True]
    assert [(await each).status for each in tasks] == [200, 200, 429]  # one user gets half of the budget
    world.server.close()


async def test_small_requests_and_lists_are_answered_while_large_writes_have_the_budget_and_the_thread() -> None:
    world = Busy()
    await world.ok("POST", CONFIG_MAPS, config_map("huge", {"k": "v" * 900_000}))
    others = [world.as_user(f"user-{index}") for index in range(5)]
    with world.writes_held_up():
        tasks = [start(user, f"c{index}") for index, user in enumerate(others)]
        await turns()
        world.pieces = 0
        async with asyncio.timeout(120):  # else it would wait for ever
            listed = await world.ok("GET", CONFIG_MAPS, accept=TABLE)
        assert (len(listed["rows"]), world.pieces) == (1, 1)  # made in the other thread
        await world.ok("POST", CONFIG_MAPS, config_map("small", {"k": "v"}))
        assert not any(each.done() for each in tasks)
    assert [(await each).status for each in tasks] == [201] * 5
    world.server.close()


async def test_a_small_request_does_not_ask_for_the_budget() -> None:
    class Never(ByteBudget):
        def hold(self, user: str, size_bytes: int) -> object:  # type: ignore[override]
            raise AssertionError(f"{user} asked for {size_bytes} bytes")

    world = World()
    world.server._byte_budget = Never()
    await world.ok("POST", CONFIG_MAPS, config_map("a", {"k": "v"}))
    await world.ok("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "w"}}, MERGE)
    await world.ok("DELETE", f"{CONFIG_MAPS}/a")


def test_one_user_gets_half_and_one_write_alone_is_let_in_whatever_its_size() -> None:
    budget = ByteBudget(100)
    with budget.hold("a", 500), pytest.raises(StatusError, match="too many large requests"), budget.hold("b", 1):
        pass
    with budget.hold("a", 30), budget.hold("a", 20):
        with pytest.raises(StatusError, match="too many large requests"), budget.hold("a", 1):
            pass
        with budget.hold("b", 50), pytest.raises(StatusError, match="too many large requests"), budget.hold("c", 1):
            pass
    with budget.hold("c", 100):
        pass


async def test_garbage_is_collected_again_when_the_last_of_two_threads_is_done() -> None:
    first, second = LargeObjectExecutor(threads=True), LargeObjectExecutor(threads=True)
    begun, free = threading.Event(), threading.Event()

    def hold_up() -> bool:
        begun.set()
        free.wait()
        return gc.isenabled()

    held = asyncio.create_task(first.run(LARGE_BYTES, hold_up))
    await asyncio.to_thread(begun.wait)
    assert await second.run(LARGE_BYTES, gc.isenabled) is False
    assert gc.isenabled() is False
    free.set()
    assert await held is False
    await first.run(LARGE_BYTES, int)  # the thread is done with what came before
    assert gc.isenabled() is True
    for executor in (first, second):
        executor.close()


async def test_a_write_that_fails_gives_its_part_back() -> None:
    server = ApiServer(clock=SystemClock())
    world = World.__new__(World)
    world.server, world.transport = server, server.transport()
    refused = await world.call("POST", CONFIG_MAPS, b'{"metadata": ' + b" " * 100_000)
    assert refused.status == 400
    assert not server._byte_budget._held_bytes
    server.close()
