"""A controller hands every changed key to its reconcile function until that succeeds, and survives what it raises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

import pytest
from prometheus_client import CollectorRegistry

from bosket.api.core import ConfigMap
from bosket.api.object import ObjectKey, ObjectMeta, Status
from bosket.kube.errors import Conflict
from bosket.kube.informer import Informer
from bosket.runtime.clock import LoopClock
from bosket.runtime.controller import Controller
from bosket.runtime.workqueue import Backoff
from tests.runtime.cluster import Cluster

pytestmark = pytest.mark.looptime


@asynccontextmanager
async def running(*runs: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    async def call(run: Callable[[], Awaitable[None]]) -> None:
        await run()

    tasks = [asyncio.create_task(call(run)) for run in runs]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


def count(registry: CollectorRegistry, metric: str, /, **labels: str) -> float:
    return registry.get_sample_value(metric, labels) or 0.0


async def test_every_change_of_a_watched_object_is_reconciled_under_its_old_and_its_new_key() -> None:
    cluster = await Cluster().start()
    await cluster.client.create(ConfigMap(metadata=ObjectMeta(name="early", namespace="default")))
    informer = Informer(cluster.client, ConfigMap)
    seen: list[str] = []

    async def reconcile(key: str) -> None:
        seen.append(key)

    controller = Controller("test", reconcile, clock=cluster.clock)
    controller.watch(informer, lambda each: (each.data.get("group", each.metadata.name),))
    async with running(informer.run, controller.run):
        await asyncio.sleep(1)
        assert seen == ["early"]
        await cluster.client.patch(ConfigMap, "early", {"data": {"group": "g"}}, namespace="default")
        await asyncio.sleep(1)
        assert seen == ["early", "early", "g"]
        await cluster.client.delete(ConfigMap, "early", "default")
        await asyncio.sleep(1)
        assert seen == ["early", "early", "g", "g"]


async def test_nothing_is_reconciled_before_the_caches_are_full() -> None:
    cluster = await Cluster().start()
    informer = Informer(cluster.client, ConfigMap)
    seen: list[str] = []

    async def reconcile(key: str) -> None:
        seen.append(key)

    controller = Controller("test", reconcile, clock=cluster.clock)
    controller.watch(informer, lambda each: (each.metadata.name,))
    controller.queue.add("impatient")
    async with running(controller.run):
        await asyncio.sleep(10)
        assert seen == []
        async with running(informer.run):
            await asyncio.sleep(1)
            assert seen == ["impatient"]


async def test_what_fails_is_tried_again_with_growing_pauses_and_others_do_not_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, registry = LoopClock(), CollectorRegistry()
    attempts: list[tuple[str, float]] = []

    async def reconcile(key: str) -> None:
        attempts.append((key, clock.monotonic()))
        if key == "bad" and len(attempts) < 5:
            raise RuntimeError("not yet")

    controller = Controller("test", reconcile, clock=clock, metrics=registry, backoff=Backoff(base_seconds=1, jitter=0))
    controller.queue.add("bad")
    controller.queue.add("good")
    async with running(controller.run):
        await asyncio.sleep(100)
    assert attempts == [("bad", 0), ("good", 0), ("bad", 1), ("bad", 3), ("bad", 7)]
    assert controller.queue.failures("bad") == 0
    assert count(registry, "controller_runtime_reconcile_total", controller="test", result="error") == 3
    assert count(registry, "controller_runtime_reconcile_total", controller="test", result="success") == 2
    assert count(registry, "controller_runtime_reconcile_errors_total", controller="test") == 3
    assert count(registry, "controller_runtime_reconcile_time_seconds_count", controller="test") == 5
    assert count(registry, "workqueue_retries_total", name="test") == 3
    assert count(registry, "workqueue_adds_total", name="test") == 5
    assert count(registry, "workqueue_depth", name="test") == 0
    record = next(record for record in caplog.records if record.message == "reconcile failed")
    assert (record.__dict__["key"], record.__dict__["error"]) == ("bad", "not yet")


async def test_a_conflict_is_no_error_in_the_log_but_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    clock = LoopClock()
    attempts = 0

    async def reconcile(key: str) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise Conflict(Status(code=409, reason="Conflict", message="changed meanwhile"))

    controller = Controller("test", reconcile, clock=clock)
    controller.queue.add("a")
    async with running(controller.run):
        await asyncio.sleep(1)
    assert attempts == 2
    assert not caplog.records


async def test_a_returned_delay_is_kept_and_counts_as_no_failure() -> None:
    clock, registry = LoopClock(), CollectorRegistry()
    times: list[float] = []

    async def reconcile(key: str) -> float | None:
        times.append(clock.monotonic())
        return 30.0 if len(times) < 3 else None

    controller = Controller("test", reconcile, clock=clock, metrics=registry)
    controller.queue.add("a")
    async with running(controller.run):
        await asyncio.sleep(1000)
    assert times == [0, 30, 60]
    assert count(registry, "controller_runtime_reconcile_total", controller="test", result="requeue_after") == 2


async def test_workers_share_the_keys_and_never_one_key() -> None:
    clock = LoopClock()
    running_now: set[int] = set()
    most = 0

    async def reconcile(key: int) -> None:
        nonlocal most
        assert key not in running_now
        running_now.add(key)
        most = max(most, len(running_now))
        await clock.sleep(1)
        running_now.discard(key)

    controller = Controller("test", reconcile, workers=3, clock=clock)
    async with running(controller.run):
        for _ in range(10):
            for key in range(5):
                controller.queue.add(key)
            await clock.sleep(0.3)
    assert most == 3


async def test_a_cancellation_from_within_costs_no_worker() -> None:
    clock = LoopClock()
    attempts = 0

    async def reconcile(key: str) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            helper = asyncio.create_task(asyncio.Event().wait())
            helper.cancel()
            await helper

    controller = Controller("test", reconcile, clock=clock)
    controller.queue.add("a")
    async with running(controller.run):
        await asyncio.sleep(10)
    assert attempts == 2


async def test_a_key_whose_reconciliation_is_cut_short_is_done_when_the_controller_runs_again() -> None:
    clock = LoopClock()
    finished: list[ObjectKey] = []

    async def reconcile(key: ObjectKey) -> None:
        await clock.sleep(5)
        finished.append(key)

    controller = Controller("test", reconcile, clock=clock)
    controller.queue.add(ObjectKey("ns", "a"))
    async with running(controller.run):
        await asyncio.sleep(1)
    assert finished == []
    async with running(controller.run):
        await asyncio.sleep(10)
    assert finished == [ObjectKey("ns", "a")]


async def test_a_closed_queue_ends_the_run() -> None:
    done: list[str] = []

    async def reconcile(key: str) -> None:
        done.append(key)

    controller = Controller("test", reconcile, workers=2, clock=LoopClock())
    controller.queue.add("last")
    controller.queue.close()
    await controller.run()
    assert done == ["last"]


async def test_others_have_their_turn_while_keys_are_reconciled_that_need_no_waiting() -> None:
    done = 0

    async def reconcile(key: int) -> None:
        nonlocal done
        done += 1

    controller: Controller[int] = Controller("test", reconcile, workers=4, clock=LoopClock())
    for key in range(1000):
        controller.queue.add(key)
    turns: list[int] = []
    async with running(controller.run):
        while done < 1000:
            turns.append(done)
            await asyncio.sleep(0)
    assert max(after - before for before, after in pairwise(turns)) <= 4 * 4
